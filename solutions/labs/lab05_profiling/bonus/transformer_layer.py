"""Lab 05, bonus 1: a full transformer layer. Count it, time its parts, and name what limits it.

The layer, in the order in which it runs; `rows` is batch times tokens:

    norm_1      layer norm of the input                 (rows, hidden)
    qkv         times a (hidden, 3 hidden) matrix       (rows, 3 hidden)
    attention   causal attention of all heads           (rows, hidden)
    out         times a (hidden, hidden) matrix         (rows, hidden)
    residual_1  plus the layer's input
    norm_2      layer norm
    up          times a (hidden, ffn) matrix            (rows, ffn)
    gelu        elementwise                             (rows, ffn)
    down        times an (ffn, hidden) matrix           (rows, hidden)
    residual_2  plus the result of residual_1

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding


def read_case(capture: str, name: str) -> dict[str, Any]:
    """One case of a recording by `captures/programs/transformer_layer.py`, with its "device".

    The README of `captures/layer_prefill` says what a case holds. Raises CaptureError if the recording has no
    case of that name; the message lists those that it has.
    """
    table = json.loads(captures.text(capture, "layer.json"))
    for case in table["cases"]:
        if case["name"] == name:
            return {**case, "device": table["device"]}
    known = ", ".join(case["name"] for case in table["cases"])
    raise CaptureError(f"no case {name!r} in this recording; it has {known}")


def layer_cost(
    batch: int, tokens: int, hidden: int, heads: int, ffn: int, dtype: str, causal: bool = True
) -> dict[str, dict[str, int]]:
    """Operations and bytes of each part of the layer, each part a kernel of its own.

    dtype: the data type of all tensors, a name that `profiling_lab.devices.dtype` knows. causal: a token
    attends to itself and to the tokens before it, and the kernel skips the others. Without causal, it
    attends to all `tokens`.

    Returns the ten parts by name, in the order above, each {"flops": …, "bytes": …}, integers:

    - Bytes: each input tensor of a part is read once, each output is written once. A norm has a weight
      and a bias, with one element for each column. Values that attention keeps on the chip do not
      count.
    - Operations: an addition, subtraction, multiplication, division or root is one; a multiply-add is
      two. A norm of a row has these steps: the mean, the differences from it, their squares, the mean of
      these, plus epsilon, the root, each difference divided by it, times the weight, plus the bias. A
      mean is a sum (one addition fewer than elements) and a division. GELU is one operation per element.
      In attention only the two products count: the scores, and the weighted sum of the values.

    Raises ValueError if a size is not an integer of at least 1, naming it ("ffn"), or if the heads do not
    divide `hidden`; DeviceError for an unknown data type.
    """
    sizes = {"batch": batch, "tokens": tokens, "hidden": hidden, "heads": heads, "ffn": ffn}
    for size, value in sizes.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{size} is {value!r}: a whole number of at least 1 is needed")
    if hidden % heads:
        raise ValueError(f"hidden = {hidden} cannot be split into {heads} heads of one size")
    element = devices.dtype(dtype).bytes
    rows = batch * tokens
    keys_seen = tokens * (tokens + 1) // 2 if causal else tokens * tokens

    def product(inner: int, columns: int) -> dict[str, int]:
        moved = rows * inner + inner * columns + rows * columns
        return {"flops": 2 * rows * inner * columns, "bytes": moved * element}

    def norm() -> dict[str, int]:
        moved = 2 * rows * hidden + 2 * hidden
        return {"flops": 7 * rows * hidden + 2 * rows, "bytes": moved * element}

    def residual() -> dict[str, int]:
        return {"flops": rows * hidden, "bytes": 3 * rows * hidden * element}

    return {
        "norm_1": norm(),
        "qkv": product(hidden, 3 * hidden),
        "attention": {
            "flops": 4 * batch * keys_seen * hidden,
            "bytes": 4 * rows * hidden * element,
        },
        "out": product(hidden, hidden),
        "residual_1": residual(),
        "norm_2": norm(),
        "up": product(hidden, ffn),
        "gelu": {"flops": rows * ffn, "bytes": 2 * rows * ffn * element},
        "down": product(ffn, hidden),
        "residual_2": residual(),
    }


def profile_layer(
    layer: Any,
    x: Any,
    clock: Callable[[], int],
    wait: Callable[[], None],
    repeats: int = 5,
    warmup: int = 2,
) -> dict[str, Any]:
    """Time a layer as a whole, and each of its parts by hooks.

    layer: a torch.nn.Module. Its parts are its direct children (`named_children`). x: its input.
    clock: the time in ns. wait: returns when the device has done all work issued to it.

    Do this in order:
    1. Call layer(x) `warmup` times.
    2. Call the unchanged layer `repeats` times. Wait before and after each call, and time from the end of
       the first wait to the end of the second.
    3. Call it `repeats` times, and time every child in the same way. If a child runs several times in a
       call, add its times. If it does not run, its time is 0.

    Returns {"whole_ns": median of the calls in step 2, "parts_ns": {child's name: median over the calls in
    step 3}, "outside_ns": whole_ns minus the sum of parts_ns}. outside_ns is what the layer does between
    its parts. It is below 0 if waiting between parts costs more than that work.

    Leave the layer as it was, without hooks, also when a call fails; the caller gets the exception.
    Raises ValueError if repeats is below 1, if warmup is below 0, or if the layer has no children.
    """
    if repeats < 1 or warmup < 0:
        raise ValueError(f"repeats = {repeats}, warmup = {warmup}: at least 1 and 0 are needed")
    names = [name for name, _ in layer.named_children()]
    if not names:
        raise ValueError("the layer has no children: there are no parts to time")
    for _ in range(warmup):
        layer(x)
    whole = []
    for _ in range(repeats):
        wait()
        start = clock()
        layer(x)
        wait()
        whole.append(clock() - start)

    spent: dict[str, list[int]] = {name: [] for name in names}
    started: dict[str, int] = {}
    handles = []

    def watch(name: str, child: Any) -> None:
        def before(*_: Any) -> None:
            wait()
            started[name] = clock()

        def after(*_: Any) -> None:
            wait()
            spent[name][-1] += clock() - started[name]

        handles.append(child.register_forward_pre_hook(before))
        handles.append(child.register_forward_hook(after))

    try:
        for name, child in layer.named_children():
            watch(name, child)
        for _ in range(repeats):
            for sums in spent.values():
                sums.append(0)
            layer(x)
    finally:
        for handle in handles:
            handle.remove()
    parts = {name: statistics.median(sums) for name, sums in spent.items()}
    whole_ns = statistics.median(whole)
    return {"whole_ns": whole_ns, "parts_ns": parts, "outside_ns": whole_ns - sum(parts.values())}


def layer_bottleneck(capture: str, name: str) -> Finding:
    """What limits a recorded layer: the host, or the part with the most to gain.

    capture, name: as for `read_case`. All times are medians of the samples. A part's time is its
    "inside". The floor of a part is the longer of two times: its bytes over the device's bandwidth, and its
    operations over the peak for the data type (`profiling_lab.devices`, costs as in `layer_cost`).

    - launch_ns is the layer's "window" minus its "window_in_graph", at least 0: what issuing
      the same work at once saves. If launch_ns is more than half of the window, the finding is
      ("launch_bound", "range:layer"), and recoverable_ns is launch_ns.
    - Otherwise the subject is "range:<part>", the part with the most time above its floor (the first of
      equal ones), and recoverable_ns is that time. The category is "above_roof" if the floor is less
      than half of the part's time. Otherwise it is "memory_bound" if the bytes take longer than the
      operations, else "compute_bound".

    The evidence has "window_ns", "launch_ns", "recoverable_ns" and "sum_ratio" (the sum of the parts' times
    over the layer's "device" time). If the subject is a part, it also has "part_ns", "memory_ns" and
    "compute_ns" (the least time of its bytes and of its operations) and "share_ratio" (its time over that
    of all parts). The recommendation is a sentence.

    Raises CaptureError as `read_case` does.
    """
    case = read_case(capture, name)
    sizes = {key: case[key] for key in ("batch", "tokens", "hidden", "heads", "ffn")}
    costs = layer_cost(**sizes, dtype=case["dtype"], causal=case["causal"])
    device = devices.get(case["device"])
    took = {part["name"]: statistics.median(part["inside"]) for part in case["parts"]}
    window = statistics.median(case["whole"]["window"])
    on_device = statistics.median(case["whole"]["device"])
    launch = max(window - statistics.median(case["whole"]["window_in_graph"]), 0)
    all_parts = sum(took.values())
    evidence = {"window_ns": window, "launch_ns": launch, "sum_ratio": all_parts / on_device}
    if 2 * launch > window:
        evidence["recoverable_ns"] = launch
        return Finding("launch_bound", "range:layer", evidence, _ADVICE["launch_bound"])
    memory = {
        part: 1e9 * cost["bytes"] / device.memory_bandwidth_bytes_per_s
        for part, cost in costs.items()
    }
    compute = {
        part: 1e9 * cost["flops"] / device.peak(case["dtype"]) for part, cost in costs.items()
    }
    floor = {part: max(memory[part], compute[part]) for part in costs}
    worst = max(took, key=lambda part: took[part] - floor[part])
    if 2 * floor[worst] < took[worst]:
        category = "above_roof"
    else:
        roofs = {"compute_bound": compute[worst], "memory_bound": memory[worst]}
        category = max(roofs, key=lambda roof: roofs[roof])
    evidence |= {
        "recoverable_ns": took[worst] - floor[worst],
        "part_ns": took[worst],
        "memory_ns": memory[worst],
        "compute_ns": compute[worst],
        "share_ratio": took[worst] / all_parts,
    }
    return Finding(category, f"range:{worst}", evidence, _ADVICE[category])


_ADVICE = {
    "launch_bound": "Issue less: a CUDA graph, torch.compile, or more tokens a call.",
    "above_roof": "Neither roof explains this part: another kernel, or fuse it into a neighbour.",
    "memory_bound": "Move fewer bytes: fuse it into a neighbour, or use a smaller data type.",
    "compute_bound": "Use a faster data type or a better-tuned product.",
}
