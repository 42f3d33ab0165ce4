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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
