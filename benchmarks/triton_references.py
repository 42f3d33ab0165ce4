"""How near do the Triton references come to a copy, to torch.softmax and to cuBLAS, in one run?

    python3 benchmarks/triton_references.py                a machine with a GPU, torch and triton
    python3 benchmarks/triton_references.py --log FILE     its output, brought from another machine

The vector add of solutions/ against a copy (bandwidth of what each must move), the softmax against
torch.softmax at eight widths, the matrix product in bfloat16 against torch.mm (cuBLAS). All on random
numbers, in tensors of several times the L2 cache, timed in turns: five samples each, a sample being the
time between two CUDA events around a few calls while the host is ahead of the device. Raw times and
ratios of the medians are added to benchmarks/results/triton_references.json. Ends with 1 if a ratio is
below its target.
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

SOLUTIONS = ROOT / "solutions/modules/triton-profiling"
RESULT = ROOT / "benchmarks/results/triton_references.json"
TARGETS = {"vector_add": 0.92, "softmax": 1.0, "matmul": 0.97}
WIDTHS = [2**n for n in range(8, 16)]
TENSOR_BYTES = 512 * 2**20
REPEATS = 5
SLEEP_CYCLES = 8_000_000  # about four milliseconds, for the host to get ahead

Call = Callable[[], Any]


def reference(path: str) -> Any:
    """A reference's module, by its path in the Triton module's solutions."""
    return load_once(SOLUTIONS / path, f"_reference_{Path(path).stem}")


def in_turns(own: Call, other: Call, calls: int) -> dict[str, list[int]]:
    """ns of a call of each, REPEATS samples in turns, after a round to warm up."""
    import torch

    samples: dict[str, list[int]] = {"own_ns": [], "other_ns": []}
    for warm_up in (True, *[False] * REPEATS):
        pairs = {}
        torch.cuda._sleep(SLEEP_CYCLES)
        for name, call in (("own_ns", own), ("other_ns", other)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            call()
            start.record()
            for _ in range(calls):
                call()
            end.record()
            pairs[name] = start, end
        torch.cuda.synchronize()
        if not warm_up:
            for name, (start, end) in pairs.items():
                samples[name].append(round(start.elapsed_time(end) / calls * 1e6))
    return samples


def row(
    name: str, case: str, own: Call, other: Call, calls: int, off: float, work: float = 1.0
) -> dict[str, Any]:
    """A row of the result. work: how much more the reference moves than what it is held against."""
    samples = in_turns(own, other, calls)
    ratio = statistics.median(samples["other_ns"]) / statistics.median(samples["own_ns"]) * work
    return {
        "reference": name,
        "case": case,
        "ratio": round(ratio, 4),
        "target_ratio": TARGETS[name],
        "error_ratio": off,
        **samples,
    }


def error(got: Any, want: Any) -> float:
    """The largest difference over the largest element."""
    return ((got.double() - want.double()).abs().max() / want.double().abs().max()).item()


def measured() -> list[dict[str, Any]]:
    """All rows, on this machine's GPU."""
    import torch

    torch.manual_seed(0)
    rows = []
    add = reference("ex01-vector-add/vector_add.py").vector_add
    softmax = reference("ex04-softmax/softmax.py").softmax_live
    matmul = reference("ex02-matmul/matmul.py").matmul_live

    def random(*shape: int, dtype: Any) -> Any:
        return torch.empty(shape, device="cuda", dtype=dtype).normal_()

    for dtype in (torch.float32, torch.bfloat16):
        kind = str(dtype).removeprefix("torch.")
        x, y = (random(TENSOR_BYTES // dtype.itemsize, dtype=dtype) for _ in range(2))
        out = torch.empty_like(x)
        off = error(add(x, y)[-4096:], (x + y)[-4096:])
        case = f"{x.numel()} elements, {kind}"
        copy = lambda out=out, x=x: out.copy_(x)  # noqa: E731
        rows.append(row("vector_add", case, lambda x=x, y=y: add(x, y), copy, 6, off, 3 / 2))
        del x, y, out, copy
        torch.cuda.empty_cache()
    for dtype in (torch.bfloat16, torch.float32):
        kind = str(dtype).removeprefix("torch.")
        for columns in WIDTHS:
            x = random(TENSOR_BYTES // (dtype.itemsize * columns), columns, dtype=dtype)
            off = error(softmax(x)[-64:], torch.softmax(x[-64:].double(), dim=1))
            own = lambda x=x: softmax(x)  # noqa: E731
            other = lambda x=x: torch.softmax(x, dim=1)  # noqa: E731
            rows.append(row("softmax", f"{x.shape[0]} by {columns}, {kind}", own, other, 6, off))
            del x, own, other
            torch.cuda.empty_cache()
    a, b = (random(8192, 8192, dtype=torch.bfloat16) for _ in range(2))
    off = error(matmul(a, b)[:64], a[:64].double() @ b.double())
    rows.append(
        row(
            "matmul",
            "8192 by 8192 by 8192, bfloat16",
            lambda: matmul(a, b),
            lambda: torch.mm(a, b),
            5,
            off,
        )
    )
    return rows


def run_here() -> dict[str, Any]:
    """A run on this machine. Raises SystemExit where no GPU answers or a result is wrong."""
    found = query_gpus(("name", "driver_version"))
    if not found:
        raise SystemExit("no GPU answers here; bring the output of another machine: --log FILE")
    rows = measured()
    wrong = [entry["case"] for entry in rows if not entry["error_ratio"] <= 0.01]
    if wrong:
        raise SystemExit(f"wrong results: {', '.join(wrong)}")
    return {
        "gpu": found[0]["name"],
        "driver": found[0]["driver_version"],
        **machine.describe("torch", "triton"),
        "rows": rows,
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
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"runs": []}
    kept["what"] = "ns of a call of a Triton reference and of what it is held against, in turns"
    kept["runs"].append(run)
    parts = json.dumps(kept, indent=1)
    RESULT.write_text(parts + "\n", encoding="utf-8")
    missed = 0
    for entry in run["rows"]:
        missed += entry["ratio"] < entry["target_ratio"]
        print(
            f"{entry['reference']:10}  {entry['case']:34}  {entry['ratio']:.3f}"
            f"  (target {entry['target_ratio']})"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
