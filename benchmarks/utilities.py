"""What do the utilities cost the program that uses them?

    uv run python benchmarks/utilities.py [--repeats N] [--write]

Three questions, each as raw figures and their median:

- a call of a function under a disabled `auto_profile`, and under one that measures, beside the bare
  function: nanoseconds a call, from blocks of calls taken in turns;
- one reading of a GPU by `GPUMonitor`: microseconds;
- the same work without a `GPUMonitor`, again without (the control), and with one at its default rate:
  ratios of neighbours in one run, for work that keeps the host busy (many small kernels) and work that
  keeps the device busy. Without a GPU the host-bound work is a loop in Python and the monitor has nothing
  to read, which is said.

With --write the figures go to benchmarks/results/utilities.json, under the name of the device.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import machine  # noqa: E402
from profiling_lab.record import tools  # noqa: E402
from profiling_lab.tools.easy_profiler import GPUMonitor, auto_profile  # noqa: E402

RESULT = ROOT / "benchmarks/results/utilities.json"
CALLS = 50_000
AIM_DISABLED_NS = 1_000
AIM_MONITOR_RATIO = 1.01


def nothing(value: int) -> int:
    """The function that is called: what is measured is what stands around it."""
    return value


def ns_a_call(function: Callable[[int], int], calls: int = CALLS) -> float:
    """Nanoseconds a call, over a block of calls."""
    start = time.perf_counter_ns()
    for _ in range(calls):
        function(1)
    return (time.perf_counter_ns() - start) / calls


def decorator_costs(repeats: int) -> dict[str, Any]:
    """Nanoseconds a call: bare, disabled, done measuring, and measuring."""
    disabled = auto_profile(enabled=False)(nothing)
    finished = auto_profile(warmup=0, iterations=1, report=None)(nothing)
    finished(1)
    functions = {"bare": nothing, "disabled": disabled, "finished": finished}
    samples: dict[str, list[float]] = {name: [] for name in (*functions, "measuring")}
    for _ in range(repeats):
        for name, function in functions.items():
            samples[name].append(ns_a_call(function))
        calls = CALLS // 20
        measuring = auto_profile(warmup=0, iterations=calls, report=None)(nothing)
        samples["measuring"].append(ns_a_call(measuring, calls))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "samples_ns": {name: [round(v, 1) for v in values] for name, values in samples.items()},
        "median_ns": {name: round(value, 1) for name, value in medians.items()},
        "disabled_more_ns": round(medians["disabled"] - medians["bare"], 1),
    }


def works() -> dict[str, Callable[[], object]]:
    """Work of about a tenth of a second each, done when the function returns."""
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        return {"host": lambda: sum(i * i for i in range(1_500_000))}
    small = torch.randn(64, 64, device="cuda")
    large = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def host() -> None:
        for _ in range(20_000):
            small.add(1)
        torch.cuda.synchronize()

    def device() -> None:
        for _ in range(60):
            large @ large
        torch.cuda.synchronize()

    return {"host": host, "device": device}


CONDITIONS = ("alone", "again", "watched")


def monitor_costs(repeats: int) -> dict[str, Any]:
    """Seconds of the same work alone, alone again and with a monitor, in turns, and ratios of neighbours.

    "again" is the control: its ratio shows what the comparison itself cannot tell from nothing.
    """
    found: dict[str, Any] = {}
    for name, work in works().items():
        work()
        seconds: dict[str, list[float]] = {condition: [] for condition in CONDITIONS}
        for repeat in range(repeats):
            turn = repeat % len(CONDITIONS)
            for condition in CONDITIONS[turn:] + CONDITIONS[:turn]:
                monitor = GPUMonitor()
                if condition == "watched":
                    monitor.start()
                start = time.perf_counter()
                work()
                seconds[condition].append(time.perf_counter() - start)
                monitor.stop()
        found[name] = {f"{key}_s": [round(x, 6) for x in all_s] for key, all_s in seconds.items()}
        for key in ("again", "watched"):
            ratios = [b / a for a, b in zip(seconds["alone"], seconds[key], strict=True)]
            low, high = median_interval(ratios)
            found[name][f"{key}_ratio"] = {
                "median": round(statistics.median(ratios), 5),
                "median_95_pct": [round(low, 5), round(high, 5)],
            }
    return found


def median_interval(values: list[float]) -> tuple[float, float]:
    """Where the median lies in 95 % of cases, whatever the distribution: two ranks of the sorted values.

    Half the values lie below the median, give or take 1.96 standard deviations of a fair coin's sum.
    """
    ranked = sorted(values)
    reach = 0.98 * math.sqrt(len(ranked))
    low = max(0, math.floor(len(ranked) / 2 - reach))
    return ranked[low], ranked[len(ranked) - 1 - low]


def reading_us(repeats: int) -> list[float]:
    """Microseconds of one reading of the first GPU; empty without one."""
    monitor = GPUMonitor(interval_s=0.001, devices=[0])
    with monitor:
        devices = monitor._devices
        found = []
        for _ in range(repeats if devices else 0):
            start = time.perf_counter_ns()
            devices[0].read(0.0)
            found.append(round((time.perf_counter_ns() - start) / 1e3, 2))
    return found


def device_name() -> tuple[str, object]:
    """The first GPU's name and driver; "no GPU" and None without one."""
    with GPUMonitor(devices=[0]) as monitor:
        devices = monitor.get_summary().devices
    return (devices[0].name, tools.machine()["driver"]) if devices else ("no GPU", None)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=150)
    parser.add_argument("--write", action="store_true", help=f"into {RESULT.name}")
    parser.add_argument("--out", type=Path, default=RESULT, help="another file for the figures")
    options = parser.parse_args()

    name, driver = device_name()
    result = {
        "machine": machine.describe("torch", "nvidia-ml-py") | {"gpu": name, "driver": driver},
        "decorator": decorator_costs(options.repeats),
        "reading_us": reading_us(options.repeats),
        "monitor": monitor_costs(options.repeats),
    }
    decorator = result["decorator"]
    print(f"{name}; ns a call: {decorator['median_ns']}")
    print(
        f"a disabled auto_profile costs {decorator['disabled_more_ns']:.0f} ns a call more"
        f" (aim: under {AIM_DISABLED_NS})"
    )
    if result["reading_us"]:
        print(f"one reading of the GPU: {statistics.median(result['reading_us']):.1f} µs")
    else:
        print("no GPU to read: the monitor below only times")
    for work, figures in result["monitor"].items():
        for key, title in (("watched", "with a monitor"), ("again", "again without one")):
            ratio = figures[f"{key}_ratio"]
            low, high = ratio["median_95_pct"]
            print(
                f"{work}-bound work {title} / without: {ratio['median']:.4f}"
                f" (95 % interval of the median {low:.4f} to {high:.4f})"
            )
        print(f"  aim for the monitor: under {AIM_MONITOR_RATIO}")
    if options.write:
        known = json.loads(options.out.read_text()) if options.out.is_file() else {}
        options.out.write_text(json.dumps(known | {name: result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
