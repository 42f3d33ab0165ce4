"""Your own machine: its roofs, a report of its attention, your prediction, the change, the result.

    uv run python labs/lab05_profiling/src/own_machine.py            # the roofs, and the report
    uv run python labs/lab05_profiling/src/own_machine.py 20% 60%    # your prediction; then it measures
    uv run python labs/lab05_profiling/src/own_machine.py --tokens 4096 --device cuda --dtype bfloat16

The prediction is an interval: by how much one fused kernel shortens scores, softmax and weighted sum together. All
figures come from your functions in `profiling.py`. This file is complete, and works without a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import traceback

from profiling_lab import measuring

try:
    import profiling  # pyrefly: ignore[missing-import] - your functions: the file beside this one
except ImportError:
    raise SystemExit(f"{__file__}: run it as a script, beside your profiling.py") from None

WIDTH, HEADS = 512, 8
ROUNDS = 5


def main() -> None:
    """Measure the roofs and the layer; with a prediction, the change as well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("low", nargs="?", help="the least that fusing saves, such as 20%%")
    parser.add_argument("high", nargs="?", help="the most that it saves, such as 60%%")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    try:
        bounds = [float(text.rstrip("%")) / 100 for text in (options.low, options.high) if text]
    except ValueError:
        parser.error("a prediction is two percentages, such as 20% 60%")
    if len(bounds) == 1 or bounds != sorted(bounds):
        parser.error("a prediction has two ends, the lower one first, such as 20% 60%")
    import torch

    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error(
            "this machine has no GPU that PyTorch can use; leave --device out to measure its CPU"
        )
    try:
        three_s = report(options)
        if bounds:
            change(options, bounds[0], bounds[1], three_s)
        else:
            print(
                "\nYour turn: how much of these three does one fused kernel save? Give an interval, as 20% 60%."
            )
    except NotImplementedError as error:
        raise SystemExit(f"{to_do(error)} of profiling.py is still to do") from error


def to_do(error: BaseException) -> str:
    """The name of the function that raised."""
    *_, last = traceback.walk_tb(error.__traceback__)
    return last[0].f_code.co_name


def report(options: argparse.Namespace) -> float:
    """Print roofs, parts, bound and what fusing can save. Return the time of the three parts in seconds."""
    roof = measuring.measured_device(options.dtype, options.device)
    print(f"{roof.name}: {roof.peak(options.dtype) / 1e9:,.0f} GFLOP/s in {options.dtype}, "
          f"{roof.memory_bandwidth_bytes_per_s / 1e9:,.1f} GB/s")  # fmt: skip
    found = profiling.profile_attention_components(
        options.tokens, WIDTH, HEADS, dtype=options.dtype, device=options.device
    )
    print(f"one layer, batch 1, {options.tokens} tokens, width {WIDTH}, {HEADS} heads\n")
    print(f"{'part':<20}{'time (ms)':>11}{'share':>8}{'of its roof':>13}  bound")
    for part in found["components"]:
        said = profiling.identify_bottleneck({**found, "components": [part]}, roof)
        print(f"{part['name']:<20}{1e3 * part['time_s']:>11.3f}{part['share']:>8.0%}"
              f"{said['roof_ratio']:>13.0%}  {said['bound']}")  # fmt: skip
    said = profiling.identify_bottleneck(found, roof)
    print(f"{'sum of the parts':<20}{1e3 * found['sum_s']:>11.3f}")
    print(
        f"{'whole layer':<20}{1e3 * found['whole_s']:>11.3f}{1 / said['sum_to_whole_ratio']:>8.0%}"
    )
    print(
        f"\nbottleneck: {said['component']}, bound by {said['bound']}; advice: {said['recommendation']}"
    )
    times = {part["name"]: part["time_s"] for part in found["components"]}
    three_s = sum(times[name] for name in profiling.FUSIBLE)
    least = profiling.predict_fused(found, roof)
    print(f"{', '.join(profiling.FUSIBLE)}: {1e3 * three_s:.3f} ms; one kernel needs "
          f"{1e3 * least['fused_least_s']:.3f} ms at least")  # fmt: skip
    return three_s


def change(options: argparse.Namespace, low: float, high: float, three_s: float) -> None:
    """Time the levels of attention alternately, and compare the saving of the fastest with the prediction."""
    import torch

    given = {"device": options.device, "dtype": getattr(torch, options.dtype)}
    shape = (1, HEADS, options.tokens, WIDTH // HEADS)
    tensors = [torch.randn(shape, **given) for _ in "QKV"]
    levels = {0: "materialised", 2: "PyTorch's choice", 4: "the fastest backend"}
    samples: dict[int, list[float]] = {level: [] for level in levels}
    with torch.no_grad():
        for _ in range(ROUNDS):
            for level, times in samples.items():
                call = (profiling.optimize_attention, (*tensors, level))
                times.append(profiling.benchmark_function(*call, 2, 5))
        memory = {
            level: profiling.measure_memory_usage(profiling.optimize_attention, (*tensors, level))
            for level in levels
        }
    print(f"\n{'level':<24}{'time (ms)':>11}{'peak (MB)':>11}")
    for level, name in levels.items():
        median_s = statistics.median(samples[level])
        print(
            f"{level} {name:<22}{1e3 * median_s:>11.3f}{memory[level]['peak_bytes'] / 1e6:>11.1f}"
        )
    rounds = [after / before for before, after in zip(samples[0], samples[4], strict=True)]
    saved = 1 - statistics.median(rounds)
    inside = "inside" if low <= saved <= high else "outside"
    print(f"\nsaved: {saved:.0%} (in single rounds {1 - max(rounds):.0%} to {1 - min(rounds):.0%}); "
          f"your prediction, {low:.0%} to {high:.0%}: {inside}")  # fmt: skip
    print(f"the three parts, timed one by one: {1e3 * three_s:.3f} ms; level 0, timed as one call: "
          f"{1e3 * statistics.median(samples[0]):.3f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
