"""Day 4, bottlenecks and the roofline: how fast could this be, and what limits it?

You count the work of an operation, predict its time on a device, compare the prediction with
measurements, and choose the optimization that the evidence supports. The lesson is `README.md` in
this folder, hints are in `hints.md`, and

    uv run lab check ex_33

says which tasks are right and what is wrong in the others.

All functions here share this **counting convention**:

- *Operations*: an addition, subtraction, multiplication, division, comparison, exponential or square
  root is one operation. So a multiply-add is two.
- *Bytes*: each input tensor is read from memory once, each output tensor is written once. An
  intermediate tensor that goes through memory is written once by the step that makes it, and read
  once by each step that uses it. All tensors have the given data type.

A *cost* is {"flops": operations, "bytes": bytes}, both integers. A *size* is an integer of at least 1. Names and
peaks of devices and data types come from `profiling_lab.devices`. It raises DeviceError for an unknown name, and for a data
type of which it knows no peak on that device:

    devices.dtype("bf16").bytes                             # 2
    devices.get("H200").peak("bfloat16")                    # operations per second
    devices.get("H200").memory_bandwidth_bytes_per_s
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

Cost = dict[str, int]

# A change that saves less than this share of the window is not worth the effort.
SAVING_FLOOR_RATIO = 0.10

# A finding is borderline if the two largest parts of the window differ by at most this share of it.
BORDERLINE_RATIO = 0.05

# Two recordings of the same program on the same device may differ by this share of their length.
NOISE_RATIO = 0.03

# The upper end of a predicted window is at most this many times the lower end.
WIDEST_RATIO = 1.2

# What `design_test` may change about a call, and what it may measure.
CHANGES = {
    "half_the_bytes": "each tensor in half as many bytes, with the same arithmetic",
    "half_size_type": "a data type of half the size: half the bytes, and twice the peak",
    "arithmetic_twice": "each operation done twice, on numbers that are in registers already",
    "twice_the_elements": "twice as many elements in each call",
    "cuda_graph": "all calls recorded once and issued as one CUDA graph: the host's time becomes close to 0",
    "next_device": "a device with twice the bandwidth and twice the peak, behind the same host",
}
MEASURES = {
    "window_ns": "the time from one call to the next",
    "device_ns": "the device's time for one call: the longer of memory and arithmetic",
    "element_ns": "window_ns over the elements of a call",
}

# The units in which a file of measurements may give its times.
NS_PER_UNIT = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}

# The units that Nsight Compute writes after times and sizes. Its Kbyte is 1,000 bytes.
COUNTER_UNITS = {
    **{"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9},
    **{"nsecond": 1.0, "usecond": 1e3, "msecond": 1e6, "second": 1e9},
    **{"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9},
    **{"inst": 1.0, "": 1.0},
}

# Counters of scalar operations in float32 (f) and float64 (d), each with the number of operations in
# one counted instruction of a thread. A fused multiply-add is two.
FLOP_COUNTERS = {
    f"smsp__sass_thread_inst_executed_op_{kind}{name}_pred_on.sum": operations
    for kind in "fd"
    for name, operations in (("add", 1), ("mul", 1), ("fma", 2))
}

# Instructions of warps that the tensor pipe executed, as Nsight Compute counts them.
TENSOR_COUNTER = "sm__inst_executed_pipe_tensor.sum"


def refuses_bad_input(**sizes: int) -> None:
    """Refuse a value that is not a size. Every cost function can begin with this call.

    A size is an int of at least 1. Anything else (0, a negative number, 2.0, "3", True) raises ValueError.
    The message has the name and the value's `repr`.

    Example: refuses_bad_input(rows=4, width=0) raises ValueError("width is 0: …").
    """
    raise NotImplementedError


def matmul_cost(m: int, k: int, n: int, dtype: str, batch: int = 1, shared_b: bool = False) -> Cost:
    """The cost of `batch` matrix products C = A @ B, A of shape (m, k), B (k, n), C (m, n).

    Each element of C takes k multiplications and k additions (the first adds to zero).
    shared_b: all products of the batch use the same B, which is read only once (a linear layer).

    Example: (2, 3, 5) in bf16 has {"flops": 60, "bytes": 62}.
    """
    raise NotImplementedError


def elementwise_cost(
    element_count: int, extra_inputs: Sequence[int], dtype: str, fused: bool = False
) -> Cost:
    """The cost of a chain of elementwise operations, one for each entry of `extra_inputs`.

    The first operation works on an input tensor of `element_count` elements, each later one on
    the result of the one before. Entry i says how many *other* tensors of the same size operation i
    reads. However many it reads, an operation counts as one per element.
    fused: the whole chain is one kernel, and results between two operations stay in registers.
    Otherwise each operation is a kernel of its own.

    Example: relu(x * w + b) is [1, 1, 0]. With 10 elements in float32 it has 30 operations, and 320 bytes
    in three kernels.
    """
    raise NotImplementedError


def layer_norm_cost(rows: int, width: int, dtype: str, affine: bool = True) -> Cost:
    """The cost of one fused layer norm over rows of `width` elements.

    For each row, these count: the mean (the sum of the elements, divided once), the differences from it,
    their squares, the mean of the squares, plus epsilon, the square root, and the division of each
    difference by the root. With `affine`, each result is then multiplied by a weight and a bias is added.
    Weight and bias have `width` elements each and are the same for all rows. The sum of w numbers takes
    w - 1 additions.

    Raises ValueError if a size is not an integer of at least 1.
    """
    raise NotImplementedError


def softmax_cost(rows: int, width: int, dtype: str, fused: bool = True) -> Cost:
    """The cost of a softmax over rows of `width` elements. Given; section 3 of the lesson derives it.

    A row takes five steps: its largest element, each element minus that, the exponentials, their sum, and
    each exponential divided by the sum. fused: one kernel that keeps a row on chip. Otherwise each step is a kernel.
    """
    elements = 2 * rows * width if fused else 8 * rows * width + 4 * rows
    return {
        "flops": rows * (5 * width - 2),
        "bytes": elements * devices.dtype(dtype).bytes,
    }


def attention_cost(
    batch: int,
    heads: int,
    query_tokens: int,
    key_tokens: int,
    head_dim: int,
    dtype: str,
    kv_heads: int | None = None,
    causal: bool = False,
    fused: bool = True,
) -> Cost:
    """The cost of softmax(Q @ K.T) @ V, with Q of shape (batch, heads, query_tokens, head_dim), K and V
    (batch, kv_heads, key_tokens, head_dim), and a result like Q.

    Count only the operations of the two matrix products.
    kv_heads: heads of K and V, each shared by equally many query heads. None: as many as `heads`.
    causal: the queries are the last of the key tokens, and each sees the keys up to its own position.
    fused: scores and probabilities never go to memory, and no masked pair is computed. Otherwise there are
    three kernels: the first product writes the scores of every head, the softmax reads them and writes
    equally many probabilities, the second product reads those. They also compute the masked pairs (applying
    the mask is not counted).

    Example: one head, 2 queries, 2 keys, head_dim 4, causal: 48 operations fused, 64 in three kernels.
    """
    raise NotImplementedError


def conv2d_cost(
    batch: int,
    in_channels: int,
    height: int,
    width: int,
    out_channels: int,
    kernel: Sequence[int],
    dtype: str,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
) -> Cost:
    """The cost of a 2D convolution without bias, with the shapes of `torch.nn.Conv2d`.

    Input (batch, in_channels, height, width), weights (out_channels, in_channels / groups, *kernel).
    kernel, stride, padding (zeros on both sides) and dilation are (vertical, horizontal). The
    result's height is that of torch.nn.Conv2d (source: its documentation, "Shape"). Each element of
    the result takes one multiplication and one addition for each weight of its filter, also where the
    filter covers padding.

    Raises ValueError if a size is not an integer of at least 1 (padding: of at least 0), if groups does
    not divide both channel counts, or if the filter does not fit into the padded input.
    """
    raise NotImplementedError


def kv_cache_bytes(
    layers: int, kv_heads: int, head_dim: int, tokens: int, batch: int, dtype: str
) -> int:
    """Bytes of the keys and values that a transformer keeps for `tokens` tokens of each of `batch`
    sequences. Given.
    """
    return 2 * layers * kv_heads * head_dim * tokens * batch * devices.dtype(dtype).bytes


def transformer_cost(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn: int,
    ffn_matrices: int,
    batch: int,
    new_tokens: int,
    cached_tokens: int,
    dtype: str,
) -> Cost:
    """The cost of one forward pass of a stack of transformer blocks, as a lower bound. Given.

    Each of `batch` sequences has `cached_tokens` tokens (0: none) in its KV cache and gets `new_tokens`
    more. Decoding has 1 new token; prefill has a whole prompt with nothing cached.
    A layer has these matrices: hidden × (heads · head_dim) for the queries, and as many elements for the output;
    hidden × (kv_heads · head_dim) for the keys, and the same for the values; and `ffn_matrices` (2, or 3 if
    gated) of hidden × ffn. There are no embeddings and no biases. Norms and activations are not counted.

    Operations: each new token goes through all matrices, and sees the cached tokens and the new ones up
    to itself. Bytes: every matrix is read once, keys and values of cached tokens are read, those of new
    tokens are written, and the input and the result of the whole stack are read and written. Everything
    else is assumed to stay on chip.
    """
    weights = layers * (
        hidden * (heads + 2 * kv_heads) * head_dim
        + heads * head_dim * hidden
        + ffn_matrices * hidden * ffn
    )
    pairs = new_tokens * cached_tokens + new_tokens * (new_tokens + 1) // 2
    attention = 4 * batch * heads * pairs * head_dim
    cache = kv_cache_bytes(layers, kv_heads, head_dim, cached_tokens + new_tokens, batch, dtype)
    matrices_and_ends = weights + 2 * batch * new_tokens * hidden
    return {
        "flops": 2 * weights * batch * new_tokens + layers * attention,
        "bytes": matrices_and_ends * devices.dtype(dtype).bytes + cache,
    }


def cost_of(row: dict[str, Any], functions: Mapping[str, Callable[..., Cost]]) -> Cost:
    """The cost of a measured row: what the function named by its "op" returns for its "arguments" and "dtype". Given.

    Raises CaptureError if no function has that operation's name.
    """
    if row["op"] not in functions:
        raise CaptureError(f"{row['name']}: no cost function for {row['op']!r}")
    return functions[row["op"]](**row["arguments"], dtype=row["dtype"])


def core_costs() -> dict[str, Callable[..., Cost]]:
    """The cost functions of this day's core, by operation. Given."""
    return {
        "matmul": matmul_cost,
        "elementwise": elementwise_cost,
        "softmax": softmax_cost,
        "attention": attention_cost,
    }


def all_costs() -> dict[str, Callable[..., Cost]]:
    """Every cost function, by operation. Given."""
    return core_costs() | {
        "layer_norm": layer_norm_cost,
        "conv2d": conv2d_cost,
        "transformer": transformer_cost,
    }


def ridge_point(device: str, dtype: str) -> float:
    """The arithmetic intensity, in operations per byte, at which the two roofs of a device meet.

    There, at peak rates for this data type, the bytes take as long as the operations.

    Example: 1,000 operations per ns and 10 bytes per ns meet at 100 operations per byte.
    """
    raise NotImplementedError


def attainable_rate(intensity: float, device: str, dtype: str) -> float:
    """The most operations per second that work of this intensity (operations per byte) can reach.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52 (4), 2009.
    Raises ValueError if the intensity is negative or NaN, and DeviceError as `devices` does.
    """
    raise NotImplementedError


def predicted_time_ns(costs: Sequence[Cost], device: str, dtype: str) -> float:
    """The least time in ns in which a device can run kernels of these costs one after the other.

    Within a kernel, operations and traffic overlap completely. Two kernels do not overlap at all.
    Rates are the device's peaks. Nothing else takes time: no launch, no ramp-up.

    Example: where the operations take 30 ns and the bytes 50 ns, one such kernel takes 50 ns, two take 100.
    """
    raise NotImplementedError


def predict_window(facts: dict[str, Any], change: Mapping[str, float]) -> tuple[float, float]:
    """How long a call will take after a planned change: (low_ns, high_ns).

    facts: {"device_ns", "host_ns" (None: the host does nothing), "busy": {unit: share}}. A share says in
    what part of device_ns a unit was busy (from counters). change: {"host" or a unit: factor}, its new work
    divided by the old. Everything else keeps its work. Host and device work at the same time, and
    so do the units of the device.

    - before, after: the time of the busiest unit, before and after the change (perhaps another unit).
    - rest = device_ns - before. The two ends are after + rest, and after + rest × after / before.
    - An end that is shorter than the host's new time becomes the host's new time. Then call `useful_interval` (given) with
      both, in any order.

    Example: 100 ns on the device, {"dram": 0.9}, no host. Half the DRAM work: 50 or 55 ns, so
    useful_interval(50, 55).
    """
    raise NotImplementedError


def useful_interval(end_ns: float, other_ns: float) -> tuple[float, float]:
    """(low_ns, high_ns) of two predicted ends: each widened by NOISE_RATIO. If high_ns is then above WIDEST_RATIO ×
    low_ns, it is the interval of this ratio around their geometric mean. Given.
    """
    low, high = sorted((end_ns, other_ns))
    low, high = low * (1 - NOISE_RATIO), high * (1 + NOISE_RATIO)
    if high > WIDEST_RATIO * low:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(WIDEST_RATIO), middle * math.sqrt(WIDEST_RATIO)
    return low, high


def design_test(hypothesis: str) -> dict[str, str]:
    """A test that can refute a claim about a call: one change, one measure, and what each answer means.

    hypothesis: "memory_bound", "compute_bound" or "launch_bound" (section 7), about a call that you have not seen.

    Returns {"change": one of CHANGES, "measure": one of MEASURES, "if_true": how the measure moves with the change if
    the hypothesis holds, "if_false": how it moves in every call of the other two kinds}. Take a test to which these two
    kinds give the same answer.
    A measure moves "up", "down" or stays the "same", which means within SAVING_FLOOR_RATIO. The check runs the test on
    calls of all kinds. In each call, one of memory, arithmetic and host takes at least three times as long as each of
    the other two. If if_true and if_false are equal, the test refutes nothing.

    Example: "next_device" for "compute_bound": window_ns goes down if that is true, but also if memory is the limit. So
    it is not a test.
    """
    raise NotImplementedError


def load_document(capture: str, name: str) -> dict[str, Any]:
    """A JSON file of a capture: a dict with "format" 1, "device" and a list of rows, each with
    "name", "op", "arguments" and "dtype". Given.

    Raises CaptureError if the file is not JSON (for example because it was cut off), has another format, or
    lacks one of these keys. Also raises the errors of `captures.text`.
    """
    try:
        document = json.loads(captures.text(capture, name))
    except ValueError as error:
        raise CaptureError(f"{capture}: {name} is no JSON, perhaps cut off ({error})") from None
    if not isinstance(document, dict) or document.get("format") != 1:
        raise CaptureError(f"{capture}: {name} is not of format 1, the one that this course reads")
    rows = document.get("kernels" if name == "counters.json" else "measurements")
    if not isinstance(document.get("device"), str) or not isinstance(rows, list):
        raise CaptureError(f"{capture}: {name} names no device, or has no list of rows")
    for row in rows:
        for key in ("name", "op", "arguments", "dtype"):
            if key not in row:
                raise CaptureError(f"{capture}: {name} has a row without {key}")
    return document


def counter(row: dict[str, Any], metric: str) -> float | None:
    """A metric's value in base units (ns, bytes, instructions); None if it is missing. Given."""
    found = row["metrics"].get(metric)
    if found is None or found["value"] is None or math.isnan(found["value"]):
        return None
    if found["unit"] not in COUNTER_UNITS:
        raise CaptureError(f"{row['name']}: {metric} has the unknown unit {found['unit']!r}")
    return found["value"] * COUNTER_UNITS[found["unit"]]


def read_measurements(capture: str) -> list[dict[str, Any]]:
    """The rows of `measurements.json` of a capture, in the file's order, in ns.

    The file is {"format": 1, "unit": "ns" | "us" | "ms" | "s", "device": …, "measurements": [row, …]}.
    A row is {"name", "op", "arguments", "dtype", "cache": "cold" | "warm", "device_time": [samples],
    "host_time": [samples] or null}. Ignore further keys. All samples are in `unit`.
    device_time is how long the device needs for one call, host_time how long the host needs to issue
    one.

    Returns rows {"name", "op", "arguments", "dtype" (its name in `devices.DTYPES`), "cache",
    "device_ns", "device_iqr_ns", "host_ns", "sample_count"}. device_ns and host_ns are medians; host_ns is
    None if the row has no host_time. device_iqr_ns is the distance between the quartiles of device_time,
    sample_count the number of its samples. Interpolate quartiles linearly, as `numpy.percentile` does.

    Raises CaptureError if the unit is unknown or missing; the message lists the known ones. Raises it too,
    naming the row, if device_time is missing, null or empty, if a host_time is empty, or if a sample
    of either kind is not a finite number above 0 (a text is not a number). Also raises what
    `load_document` and `devices.dtype` raise.
    """
    raise NotImplementedError


def prediction_error(capture: str) -> list[dict[str, Any]]:
    """Each measurement of a capture, compared with its prediction, in the file's order.

    The prediction is the least time of the row's cost (`cost_of`), as one kernel, on the capture's
    device. Returns rows {"name", "predicted_ns", "measured_ns", "error_ratio", "verdict"}.
    measured_ns is the median device time. error_ratio is measured_ns / predicted_ns - 1
    (0.25: a quarter longer; negative: shorter).
    verdict: a prediction is the least possible time, so a shorter measurement shows that an assumption is wrong.
        "holds"                 the measurement is not shorter than the prediction
        "memory_floor_broken"   it is shorter than the bytes take, but not shorter than the operations
                                take: not all of these bytes came from memory
        "compute_floor_broken"  it is shorter than the operations take: not all of them were done, or
                                not in this data type

    If the device has no peak for the row's data type, predicted_ns, error_ratio and verdict are
    None. Raises CaptureError as `read_measurements` and `cost_of` do, and DeviceError for an unknown device.
    """
    raise NotImplementedError


def roofline_points(capture: str) -> list[dict[str, Any]]:
    """Where the kernels of a capture's `counters.json` are on the roofline, in the file's order.

    `load_document` gives {"kernels": rows}; `counter` reads a metric of a row (None: not measured). Decide for
    each row how many operations it did, and where that number comes from. `point` makes the result's row of them.

    - "counters": the sum of FLOP_COUNTERS, each times its weight. They do not count the tensor pipe's work.
      So all of them and TENSOR_COUNTER must be there, and the tensor pipe must have executed nothing.
    - "analytic", otherwise: the operations of `cost_of(row, core_costs())`.
    - None for both, if the row's "op" is not in `core_costs()` either.

    Example: ten additions and ten fused multiply-adds in float32, all other counters 0: 30 operations, "counters".
    """
    raise NotImplementedError


def point(row: dict[str, Any], flops: float | None, flops_source: str | None) -> dict[str, Any]:
    """A kernel's place on the roofline: its operations and where they come from, the bytes of its DRAM traffic, its
    time, and from these "intensity" (operations per byte) and "rate_flops_per_s". Given.

    What needs a missing counter or a division by 0 is None. A counted 0 is a number.
    """
    duration = counter(row, "gpu__time_duration.sum")
    moved = [counter(row, f"dram__bytes_{way}.sum") for way in ("read", "write")]
    dram = None if None in moved else sum(moved)  # type: ignore[arg-type]
    return {
        "name": row["name"],
        "flops": flops,
        "flops_source": flops_source,
        "dram_bytes": dram,
        "duration_ns": duration,
        "intensity": flops / dram if flops is not None and dram else None,
        "rate_flops_per_s": flops / duration * 1e9 if flops is not None and duration else None,
    }


def classify_bound(
    name: str,
    cost: Cost,
    dtype: str,
    device: str,
    device_ns: float,
    host_ns: float | None = None,
) -> Finding:
    """What bounds a call that is made repeatedly: the largest part of the time that it takes.

    device_ns: the device's time for one call. host_ns: the host's time to issue one (None: nothing). They
    overlap, and the longer one is the window. Compute its three parts, in ns:
        roof        the least time of the cost  → "memory_bound" if the bytes take longer than the
                    operations, else "compute_bound"
        above roof  the rest of the device's time, negative below the roof  → "above_roof"
        idle        the device waits for the host  → "launch_bound"

    `bound_finding` (given) takes the parts as {category: ns}, in this order, and makes the Finding. A kernel that stays
    on chip has 0 bytes.

    Example: a roof of 60 ns, a device time of 100 ns and a host time of 130 ns: parts of 60, 40 and 30 ns.
    """
    raise NotImplementedError


def bound_finding(name: str, parts: Mapping[str, float]) -> Finding:
    """The finding of a call's three parts, {category: ns} in the order roof, above the roof, idle. Given.

    The largest part names it; of equal ones, the first. Evidence: "window_ns", "idle_ns", "above_roof_ns",
    "recoverable_ns" (the window less the roof) and "margin_ratio" (the largest part less the second largest, over the
    window). With a margin of at most BORDERLINE_RATIO the recommendation begins with "borderline".
    """
    roof, above, idle = parts.values()
    window = roof + above + idle
    category = max(parts, key=lambda part: parts[part])
    largest, second, _ = sorted(parts.values(), reverse=True)
    margin = (largest - second) / window
    steps = {
        "memory_bound": "move fewer bytes: fuse, use a smaller data type, or reuse what was read",
        "compute_bound": "do fewer operations, or do them in a data type with a higher peak",
        "above_roof": "look inside with Nsight Compute: neither roof explains most of the device's time",
        "launch_bound": "issue less: fuse operations, use larger batches, or replay a CUDA graph",
    }
    close = f"borderline ({margin:.1%} between the two largest parts): "
    return Finding(
        category,
        f"kernel:{name}",
        {
            "window_ns": window,
            "idle_ns": idle,
            "above_roof_ns": above,
            "recoverable_ns": above + idle,
            "margin_ratio": margin,
        },
        (close if margin <= BORDERLINE_RATIO else "") + steps[category],
    )


def class_by_device(
    m: int, k: int, n: int, dtype: str, device_names: Sequence[str]
) -> list[dict[str, Any]]:
    """The same matrix product (one, as in `matmul_cost`) on several devices: which roof bounds it?

    Returns, in the order of `device_names`, {"device" (its name in the table), "intensity" (the same
    for all), "ridge", "category", "rows_to_ridge"}. category is "compute_bound" if the intensity is at least
    the ridge point, else "memory_bound". rows_to_ridge is the smallest m, with k and n unchanged, that makes
    the product compute_bound, or None if no m is large enough. If a device has no peak for the
    data type, ridge, category and rows_to_ridge are None.

    Raises ValueError if a size is not an integer of at least 1 or the list of devices is empty, and
    DeviceError for an unknown device or data type.
    """
    raise NotImplementedError


def model_flops_utilization(capture: str) -> list[dict[str, Any]]:
    """What share of the device's peak the training steps of a capture use, in the file's order.

    Rows of `measurements.json` with the op "training_step" have the arguments parameter_count (the
    weights used in matrix products), layers, hidden, batch, sequence, and recompute (True: the
    forward pass runs a second time during the backward pass, to save memory).

    In a forward pass, the model's operations are 2 for each token and each of these weights, plus, in each
    layer, the operations of attention over the whole sequence (`attention_cost` with heads × head_dim = hidden,
    no mask). The backward pass takes twice as many. Source: Chowdhery et al., "PaLM", arXiv:2204.02311, appendix
    B.

    Returns {"name", "model_flops", "rate_flops_per_s", "mfu_ratio", "hfu_ratio"}:
        "model_flops"       the model's operations of a step
        "rate_flops_per_s"  these per second of the median device time
        "mfu_ratio"         that rate over the peak of the row's data type on the capture's device
        "hfu_ratio"         the same with the operations that the hardware did, the second forward pass
                            included

    Raises CaptureError if the capture holds no training step, ValueError if a size is not an integer of at
    least 1, DeviceError if the device is unknown or has no peak for the row's data type.
    """
    raise NotImplementedError


def prefill_decode(
    model: dict[str, int], batch: int, prompt_tokens: int, dtype: str, device: str
) -> dict[str, dict[str, Any]]:
    """The two phases of generating text, compared with the roofs of a device.

    model: layers, hidden, heads, kv_heads, head_dim, ffn, ffn_matrices, as in `transformer_cost` (given).
    "prefill" reads the whole prompt of each sequence at once. "decode" makes one more token for each
    sequence, with the prompt in the KV cache.

    Returns {"prefill": {…}, "decode": {…}}. `phase` (given) makes each of them from the cost of the pass and the
    new tokens of all sequences.

    Example: 8 sequences, a decode step of at least 4 µs: 8 new tokens, so 2 million tokens per second.
    """
    raise NotImplementedError


def phase(cost: Cost, new_tokens: int, dtype: str, device: str) -> dict[str, Any]:
    """A pass, as one kernel, on a device: its "intensity", "category" ("compute_bound" from the ridge point upwards,
    else "memory_bound"), least "time_ns", and "tokens_per_s". Given.
    """
    intensity = cost["flops"] / cost["bytes"]
    time_ns = predicted_time_ns([cost], device, dtype)
    bound = "compute_bound" if intensity >= ridge_point(device, dtype) else "memory_bound"
    return {
        "intensity": intensity,
        "category": bound,
        "time_ns": time_ns,
        "tokens_per_s": new_tokens / time_ns * 1e9,
    }


def decode_ridge_batch(
    model: dict[str, int], cached_tokens: int, dtype: str, device: str
) -> dict[str, int | None]:
    """The batch at which decoding reaches the ridge point, and the largest one that fits into memory.

    model: as in `prefill_decode`. Each sequence has `cached_tokens` tokens in the cache.
    Returns {"ridge_batch", "fitting_batch"}. ridge_batch is the smallest batch whose decode step has at
    least the intensity of the ridge point; None if no batch has it, however large. fitting_batch is the
    largest batch with which the matrices and the KV cache (including the new token's entry) fit into the
    device's memory_bytes; 0 if there is none.

    Raises ValueError if cached_tokens is not an integer of at least 0, and
    DeviceError as `devices` does.
    """
    raise NotImplementedError


def choose_optimization(
    cost: Cost,
    dtype: str,
    device: str,
    device_ns: float,
    host_ns: float | None,
    reachable_ratio: float,
    changes: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """The change that the evidence supports: the one that saves most of the window, or "none".

    Cost, times (host_ns None: the host does nothing) and window are as in `classify_bound`. reachable_ratio: the share
    of the roof that the best kernels on this device reach. Each candidate predicts a window, again the longer of
    device and host:
        "issue_less"    the host's time becomes 0
        "tune_kernel"   the device's time becomes roof / reachable_ratio
        each of `changes`, {"action", "cost", "dtype", "host_ns"}: the device's time becomes the roof of this cost and
                        data type, plus the old time above the roof (may be negative). The host's time
                        becomes host_ns (None: nothing)

    Returns {"action", "saved_ns", "saved_ratio" (of the window)} of the candidate that saves most, of equal ones
    the first. If saved_ratio is below SAVING_FLOOR_RATIO, the action is "none", with that candidate's numbers.

    Example: 100 ns on the device, 300 ns on the host, no changes: "issue_less" saves 200 ns.
    """
    raise NotImplementedError


def measure_and_place(
    operation: Callable[[], Any],
    flush: Callable[[], Any],
    cost: Cost,
    dtype: str,
    device: str,
    repeats: int = 20,
) -> dict[str, Any]:
    """Measure an operation on this machine's GPU, with cold caches, and place it on the roofline.

    operation: issues the work on the current CUDA stream of torch and returns at once. flush: issues work
    that empties the L2 cache of everything else. It takes long enough for the host to issue the next work
    meanwhile.
    Call the operation three times to warm up. Then call it `repeats` times, each time after a flush, and
    time each of these calls without its flush, on the device, with a pair of CUDA events. Wait for the
    device once, at the end.

    Returns {"device_times_ns" (the `repeats` times in order), "median_ns", "intensity",
    "rate_flops_per_s" (the cost's operations per second of the median), "roof_ratio" (the least time
    over the median: 1.0 is on the roof)}.

    Raises ValueError if repeats is not an integer of at least 1.
    """
    raise NotImplementedError
