"""Lab 05, bonus 1: a full transformer layer. Count it, time its parts, name what holds it up.

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

    The README of `captures/layer_prefill` says what a case holds. Raises CaptureError for a name that
    the recording does not have, listing those that it has.
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

    dtype: of all tensors, a name that `profiling_lab.devices.dtype` knows. causal: a token attends to
    itself and to those before it, and the kernel skips the others; else to all `tokens`.

    Returns the ten parts by name, in the order above, each {"flops": …, "bytes": …}, whole numbers.
    Counted as follows.

    - Bytes: each input tensor of a part is read once, each output written once. A norm has a weight
      and a bias, one element for each column. What attention keeps on the chip does not count.
    - Operations: an addition, subtraction, multiplication, division, root is one; a multiply-add is
      two. A norm of a row: the mean, the differences from it, their squares, the mean of these, plus
      epsilon, the root, each difference divided by it, times the weight, plus the bias; a mean is a
      sum (one addition fewer than elements) and a division. GELU is one operation an element. Of
      attention only the two products count: scores, and the weighted sum of values.

    Raises ValueError for a size that is no whole number of at least 1, naming it ("ffn"), and for a
    `hidden` that the heads do not divide; DeviceError for an unknown data type.
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

    layer: a torch.nn.Module; its parts are its direct children (`named_children`). x: its input.
    clock: the time in ns. wait: returns when the device has done all that was asked of it.

    In this order: `warmup` calls of layer(x); `repeats` calls of the untouched layer, each timed from
    after a wait to after the next one; then `repeats` calls in which every child is timed, from after
    a wait before it runs to after a wait behind it. A child that runs several times in a call
    adds up; one that does not run took 0.

    Returns {"whole_ns": median of the untouched calls, "parts_ns": {child's name: median over the
    calls}, "outside_ns": whole_ns minus the sum of parts_ns}. outside_ns is what the layer does between
    its parts; it is below 0 where waiting between parts costs more than that.

    Leaves the layer as it was, without hooks, also when a call fails; the error goes on to the
    caller. Raises ValueError for repeats below 1, for warmup below 0, and for a layer without children.
    """
    raise NotImplementedError


def layer_bottleneck(capture: str, name: str) -> Finding:
    """What holds up a recorded layer: the host, or the part with the most to gain.

    capture, name: as for `read_case`. All times are medians of the samples; a part's time is its
    "inside". The floor of a part is the longer of its bytes over the device's bandwidth and its
    operations over its peak for the data type (`profiling_lab.devices`, costs as in `layer_cost`).

    - launch_ns: the layer's "window" minus its "window_in_graph", at least 0: what is saved when the
      same work is issued at once. If that is more than half of the window, the finding is
      ("launch_bound", "range:layer"), and recoverable_ns is launch_ns.
    - Else the subject is "range:<part>", the part with the most time above its floor (of equal ones
      the first), and recoverable_ns is that time. The category is "latency_bound" if the floor is less
      than half of the part's time; else "memory_bound" if the bytes take longer than the operations,
      and "compute_bound" if not.

    The evidence: "window_ns", "launch_ns", "recoverable_ns", "sum_ratio" (the parts' times together over
    the layer's "device" time: how well the parts explain the whole); and where the subject is a part
    also "part_ns", "memory_ns", "compute_ns" (what its bytes, its operations take at least) and
    "share_ratio" (its time over that of all parts together). The recommendation is a sentence.

    Raises CaptureError as `read_case`.
    """
    raise NotImplementedError
