"""How near does the Triton attention come to torch's backends, in one run?

    python3 benchmarks/triton_attention.py                a machine with a GPU, torch and triton
    python3 benchmarks/triton_attention.py --log FILE     its output, brought from another machine

`attention_live` of ex07's reference against each backend of scaled_dot_product_attention and its own choice
("default"): bfloat16, 4 by 32 heads of 128, 8,192 tokens, full and causal. All backends are timed first; then all
of them and ours in turns, five samples each, with the clock of the multiprocessors and the power before each round. A sample is
the time between two CUDA events around a few calls, while the host is ahead of the device. Raw times and
ratios are added to benchmarks/results/triton_attention.json. Ends with 1 if a ratio is below its
target; "targets" there says when they were set, and "baseline" from what.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import machine  # noqa: E402
from profiling_lab.mine.functions import load_once  # noqa: E402
from profiling_lab.record.tools import query_gpus  # noqa: E402

REFERENCE = ROOT / "solutions/modules/triton-profiling/ex07-attention-speed/attention_speed.py"
RESULT = ROOT / "benchmarks/results/triton_attention.json"
SHAPE = (4, 32, 8192, 128)
REPEATS = 5
SLEEP_CYCLES = 2_000_000  # about a millisecond, for the host to get ahead

Call = Callable[[], Any]


def sample_ns(call: Call, calls: int) -> int:
    """ns of one of some calls in a row."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(SLEEP_CYCLES)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return round(start.elapsed_time(end) / calls * 1e6)


def in_turns(calls: dict[str, Call]) -> dict[str, Any]:
    """Samples of all calls, and the clock (MHz) and power (mW) before each round."""
    import torch

    samples: dict[str, list[int]] = {name: [] for name in calls}
    state: list[list[int]] = []
    for warm_up in (True, *[False] * REPEATS):
        state.append([torch.cuda.clock_rate(), torch.cuda.power_draw()])
        for name, call in calls.items():
            took = sample_ns(call, 1 if name == "math" else 4)
            if not warm_up:
                samples[name].append(took)
    return {"samples_ns": samples, "sm_mhz_and_mw": state}


def measured(own: Callable[..., Any]) -> list[dict[str, Any]]:
    """A row for full and one for causal, on this machine's GPU. Raises SystemExit for a wrong result."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    q, k, v = (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    pins = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "math": SDPBackend.MATH,
    }
    rows = []
    for causal in (False, True):

        def library(causal: bool = causal) -> Any:
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        def pinned(name: str, call: Call = library) -> Call:
            def run() -> Any:
                with sdpa_kernel(pins[name]):
                    return call()

            return run

        backends: dict[str, Call] = {name: pinned(name) for name in pins} | {"default": library}
        first = in_turns(backends)
        one, two, three = (x[-1:, -1:].double() for x in (q, k, v))
        want = F.scaled_dot_product_attention(one, two, three, is_causal=causal)
        off = (own(q, k, v, causal)[-1:, -1:].double() - want).abs().max() / want.abs().max()
        if not off < 0.01:
            raise SystemExit(f"attention_live is wrong by {float(off):.2g}, causal {causal}")
        turns = in_turns(backends | {"own": lambda causal=causal: own(q, k, v, causal)})
        flops = 4 * SHAPE[0] * SHAPE[1] * SHAPE[2] ** 2 * SHAPE[3] / (2 if causal else 1)
        rates = {
            name: flops / statistics.median(times) / 1e3
            for name, times in turns["samples_ns"].items()
        }
        fastest = max(rate for name, rate in rates.items() if name != "own")
        rows.append(
            {
                "case": "causal" if causal else "full",
                "over_flash": round(rates["own"] / rates["flash"], 4),
                "of_the_fastest": round(rates["own"] / fastest, 4),
                "tflops": {name: round(rate, 1) for name, rate in rates.items()},
                "error_ratio": float(off),
                "backends_first": first,
                **turns,
            }
        )
    return rows


def run_here() -> dict[str, Any]:
    """A run on this machine. Raises SystemExit where no GPU answers or a result is wrong."""
    found = query_gpus(("name", "driver_version"))
    if not found:
        raise SystemExit("no GPU answers here; bring the output of another machine: --log FILE")
    own = load_once(REFERENCE, "_reference_attention_speed").attention_live
    return {
        "gpu": found[0]["name"],
        "driver": found[0]["driver_version"],
        **machine.describe("torch", "triton"),
        "rows": measured(own),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log", type=Path, help="output of this program from another machine")
    arguments = parser.parse_args()
    if arguments.log:
        lines = arguments.log.read_text(encoding="utf-8").splitlines()
        told = [line for line in lines if line.startswith("RESULT ")]
        if not told:
            parser.error(f"{arguments.log}: holds no RESULT line")
        run = json.loads(told[-1].removeprefix("RESULT "))
    else:
        run = run_here()
        print("RESULT", json.dumps(run))
    kept = json.loads(RESULT.read_text(encoding="utf-8"))
    kept["runs"].append(run)
    RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    missed = 0
    for row in run["rows"]:
        for ratio in ("over_flash", "of_the_fastest"):
            target = kept["targets"][row["case"]][ratio]
            missed += row[ratio] < target
            print(f"{row['case']:7} {ratio:15} {row[ratio]:.3f}  (target {target})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
