"""Checks of `lab05`, techniques: predictions by hand, recordings recomputed, checkpoints watched.

Expected bytes of checkpointing come from playing the passes step by step; layouts from torch's own
tensors; what checkpoint_layers does from layers that note every call (probes/checkpointed.py).
"""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import alike, require, show
from grading.checks.fixtures import recordings
from profiling_lab import captures
from profiling_lab.errors import CaptureError, LabError

FILE = "techniques.json"
PROBE = Path(__file__).with_name("probes") / "checkpointed.py"
LIVE = Path(__file__).with_name("probes") / "techniques_live.py"


def judge(call: str, got: Any, want: Any, why: str) -> None:
    """Fail unless got is want; of a dict the first entry that differs is named."""
    if alike(got, want):
        return
    if isinstance(want, dict) and isinstance(got, dict) and got.keys() == want.keys():
        key = next(key for key in want if not alike(got[key], want[key]))
        got, want, call = got[key], want[key], f"{call}[{key!r}]"
    pytest.fail(f"{call} is {show(got)}, expected {show(want)}. {why}", False)


# -- predict_autocast -----------------------------------------------------------------------------

# Peaks in operations per second and bandwidth in bytes per second, from the makers' datasheets.
BY_HAND = {
    "H200": (4.8e12, {"fp32": 66.9e12, "tf32": 494.7e12, "bf16": 989e12, "fp16": 989e12}),
    "A100 40GB": (1.555e12, {"fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12, "fp16": 312e12}),
}
BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}


def product(rows: int, inner: int, columns: int, count: int = 1) -> dict[str, Any]:
    """A matrix product as an operation of a step."""
    return {
        "kind": "matmul",
        "flops": 2 * rows * inner * columns,
        "elements": rows * inner + inner * columns + rows * columns,
        "count": count,
    }


def other(flops: int, elements: int, count: int = 1) -> dict[str, Any]:
    """An operation that is no product."""
    return {"kind": "other", "flops": flops, "elements": elements, "count": count}


def step_by_hand(
    operations: list[dict[str, Any]], device: str, precision: str
) -> tuple[float, float]:
    """The time of a step and of its products, in ns."""
    from profiling_lab import devices

    bandwidth, peaks = BY_HAND[device]
    peaks = peaks | {"tf32": devices.get(device).peak("tf32")}  # documents round it differently
    whole = products = 0.0
    for one in operations:
        is_product = one["kind"] == "matmul"
        name = precision if is_product else "fp32"
        compute = one["flops"] / peaks[name]
        memory = one["elements"] * BYTES[name] / bandwidth
        took = one["count"] * 1e9 * (compute if compute > memory else memory)
        whole += took
        products += took if is_product else 0.0
    return whole, products


STEPS = {
    "large products": [product(8192, 8192, 8192, 3), other(10**6, 3 * 10**6, 5)],
    "thin products": [product(1, 8192, 8192, 4)],
    "no products": [other(10**9, 10**9, 2), other(10**11, 10, 7)],
    "mixed": [product(4096, 2048, 512), product(4, 4096, 4096, 9), other(7 * 10**8, 3 * 10**8, 2)],
}
WHY_STEP = {
    "large products": "Large products are limited by arithmetic: their peak changes with the precision",
    "thin products": "A product of one row is limited by its bytes: half as many take half as long, "
    "and no peak changes that",
    "no products": "Without products autocast changes nothing: everything else stays in float32",
    "mixed": "Each operation has its own limit, and one runs after the other",
}


@task("lab05_techniques.predict_autocast")
@pytest.mark.parametrize("name", STEPS)
def test_a_step_on_paper(stub: Any, name: str) -> None:
    for device in BY_HAND:
        fp32 = step_by_hand(STEPS[name], device, "fp32")[0]
        for precision in BYTES:
            whole, products = step_by_hand(STEPS[name], device, precision)
            got = stub.predict_autocast(STEPS[name], device, precision)
            want = {
                "predicted_ns": whole,
                "matmul_ns": products,
                "speedup_ratio": fp32 / whole,
            }
            judge(f"predict_autocast({name}, {device!r}, {precision!r})", got, want, WHY_STEP[name])


@task("lab05_techniques.predict_autocast")
def test_a_step_nobody_saw(stub: Any, seed: int) -> None:
    pick = random.Random(seed)

    def power() -> int:
        return 2 ** pick.randint(0, 13)

    step = [product(power(), power(), power(), pick.randint(1, 9)) for _ in range(5)] + [
        other(pick.randint(1, 10**10), pick.randint(1, 10**9), pick.randint(1, 9)) for _ in "1234"
    ]
    pick.shuffle(step)
    for precision in BYTES:
        whole, products = step_by_hand(step, "H200", precision)
        fp32 = step_by_hand(step, "H200", "fp32")[0]
        got = stub.predict_autocast(step, "H200", precision)
        want = {"predicted_ns": whole, "matmul_ns": products, "speedup_ratio": fp32 / whole}
        judge(f"predict_autocast(drawn step, 'H200', {precision!r})", got, want, WHY_STEP["mixed"])


@task("lab05_techniques.predict_autocast")
def test_what_a_device_cannot(stub: Any) -> None:
    step = STEPS["mixed"]
    with stub.raises(LabError, why="a T4 has no bfloat16 on its tensor cores"):
        stub.predict_autocast(step, "T4", "bf16")
    with stub.raises(LabError, why="a V100 knows no TF32"):
        stub.predict_autocast(step, "V100 SXM2", "tf32")
    with stub.raises(ValueError, match="fp64", why="the message says what was asked for"):
        stub.predict_autocast(step, "H200", "fp64")
    with stub.raises(ValueError, why="nothing was to be predicted"):
        stub.predict_autocast([], "H200", "bf16")
    with stub.raises(ValueError, match="convolution", why="kinds are 'matmul' and 'other'"):
        stub.predict_autocast([{**other(1, 1), "kind": "convolution"}, *step], "H200", "bf16")


# -- recordings -----------------------------------------------------------------------------------


def rows_of(capture: str, experiment: str) -> list[dict[str, Any]]:
    """The rows of an experiment, read by the check itself."""
    return json.loads(captures.text(capture, FILE))[experiment]


def write(folder: Path, document: Any) -> str:
    """A capture's folder that holds this document."""
    folder.mkdir(exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / FILE).write_text(text, encoding="utf-8")
    return str(folder)


def drawn_rows(pick: random.Random, names: list[str], rounds: int) -> list[dict[str, Any]]:
    """Rows whose rounds drift together, as on a device whose clock falls."""
    drift = [1 + 0.4 * number / rounds + 0.002 * pick.random() for number in range(rounds)]
    rows = []
    base_ns = pick.randint(10**6, 10**8)
    for name in names:
        factor = 1.0 if name in (names[0], f"{names[0]} again") else pick.uniform(0.4, 1.6)
        samples = [round(base_ns * factor * d * pick.uniform(0.99, 1.01)) for d in drift]
        rows.append({"name": name, "step_time": samples, "peak_bytes": pick.randint(10**6, 10**9)})
    return rows


def made_up(folder: Path, seed: int) -> str:
    """A recording that nobody saw before; its baseline is not called fp32."""
    pick = random.Random(seed)
    names = ["full", "half", "quarter", "full again", "third", "half again", "fifth"]
    precision = drawn_rows(pick, names, 8)
    # one way so close to the baseline that only the noise decides
    close = [round(t * 1.001) for t in precision[0]["step_time"]]
    precision.append({"name": "close", "step_time": close, "peak_bytes": 5})
    counts = [1, 1, *sorted(pick.sample(range(2, 40), 6))]
    names = [f"{n} parts" for n in counts]
    names[1] = f"{names[0]} again"
    names[4] = f"{names[3]} again"  # not the baseline's repetition, so a row like others
    checkpoint = drawn_rows(pick, names, 9)
    for row, count in zip(checkpoint, counts, strict=True):
        row["segment_count"] = count
    # the fastest takes the most memory, and the repeated row must never be chosen
    min(checkpoint, key=lambda row: sum(row["step_time"]))["peak_bytes"] = 2 * 10**9
    checkpoint[1]["peak_bytes"] = 1
    checkpoint[1]["step_time"] = [t // 2 for t in checkpoint[1]["step_time"]]
    return write(folder / "made_up", {"precision": precision, "checkpoint": checkpoint})


def by_rounds(one: dict[str, Any], two: dict[str, Any]) -> list[float]:
    """Sample of one by sample of two, round by round."""
    return [one["step_time"][i] / two["step_time"][i] for i in range(len(one["step_time"]))]


def judge_gain(stub: Any, capture: str) -> None:
    """autocast_gain against the check's own reading of the file."""
    first, *rest = rows_of(capture, "precision")
    noise = 0.0
    ways = []
    for row in rest:
        ratios = by_rounds(first, row)
        if row["name"] == first["name"] + " again":
            noise = max(max(ratios) - 1, 1 - min(ratios))
            continue
        ways.append(
            {
                "name": row["name"],
                "step_ns": statistics.median(row["step_time"]),
                "speedup_ratio": statistics.median(ratios),
                "memory_ratio": row["peak_bytes"] / first["peak_bytes"],
            }
        )
    for way in ways:
        beyond = way["speedup_ratio"] - 1
        way["verdict"] = (
            "no difference" if abs(beyond) <= noise else "faster" if beyond > 0 else "slower"
        )
    call = f"autocast_gain({Path(capture).name})"
    got = stub.autocast_gain(capture)
    require(
        isinstance(got, dict) and got.keys() == {"noise_ratio", "ways"},
        f"{call} returned {show(got)}, expected a dict with 'noise_ratio' and 'ways'",
    )
    judge(
        f"{call}['noise_ratio']",
        got["noise_ratio"],
        noise,
        f"'{first['name']}' and '{first['name']} again' are the same work: how far apart were they in "
        "the worst round?",
    )
    names = [way.get("name") for way in got["ways"]]
    require(
        names == [way["name"] for way in ways],
        f"{call} has the ways {names}, expected {[way['name'] for way in ways]}: every row but the "
        "baseline and its repetition, in the file's order",
    )
    for found, way in zip(got["ways"], ways, strict=True):
        judge(
            f"{call}, way {way['name']!r},",
            found,
            way,
            "Round by round against the baseline's sample of the same round; a difference counts only "
            f"beyond the noise of ±{noise:.3g}",
        )


@task("lab05_techniques.autocast_gain")
@recordings("techniques_wide", "techniques_narrow", holding=FILE)
def test_recorded_gain(stub: Any, recording: str) -> None:
    judge_gain(stub, recording)


@task("lab05_techniques.autocast_gain")
def test_generated_gain(stub: Any, seed: int, tmp_path: Path) -> None:
    judge_gain(stub, made_up(tmp_path, seed))


@task("lab05_techniques.autocast_gain")
def test_exactly_at_the_noise(stub: Any, tmp_path: Path) -> None:
    def row(name: str, *times: int) -> dict[str, Any]:
        return {"name": name, "step_time": times, "peak_bytes": 8}

    rows = [
        row("base", 300, 300, 300),
        row("base again", 400, 300, 300),
        row("at the edge", 400, 400, 300),
        row("beyond", 401, 401, 300),
        row("other edge", 240, 240, 300),
        row("other side", 239, 239, 300),
    ]
    capture = write(tmp_path / "edge", {"precision": rows})
    judge_gain(stub, capture)  # slower than the noise by one ns in 400
    rows[1] = row("base again", 240, 300, 300)
    judge_gain(stub, write(tmp_path / "edge", {"precision": rows}))


BROKEN = [
    ("no JSON", "{"),
    ("no experiment", {"layouts": []}),
    ("an experiment without rows", {"precision": [], "checkpoint": []}),
]


@task("lab05_techniques.autocast_gain")
def test_broken_recordings(stub: Any, tmp_path: Path) -> None:
    for why, document in BROKEN:
        with stub.raises(CaptureError, why=f"the recording holds {why}"):
            stub.autocast_gain(write(tmp_path / "broken", document))
    good = [{"name": name, "step_time": [3, 4], "peak_bytes": 1} for name in ("a", "b", "a again")]
    changes: list[tuple[str, dict[str, Any]]] = [
        ("a row with fewer samples", {"step_time": [3]}),
        ("a row without a name", {"name": None}),
        ("rows without samples", {}),
    ]
    for why, change in changes:
        rows = [dict(row) for row in good]
        rows[2] |= change
        if not change:
            rows = [row | {"step_time": []} for row in rows]
        with stub.raises(CaptureError, why=f"the recording holds {why}"):
            stub.autocast_gain(write(tmp_path / "broken", {"precision": rows}))
    with stub.raises(CaptureError, why="no row tells the noise"):
        stub.autocast_gain(write(tmp_path / "broken", {"precision": good[:2]}))
    del good[1]["peak_bytes"]
    with stub.raises(CaptureError, why="a row says nothing of its memory"):
        stub.autocast_gain(write(tmp_path / "broken", {"precision": good}))


# -- predict_checkpointing ------------------------------------------------------------------------


def played(layers: int, segments: int, given: int, inner: int, flops: int) -> dict[str, float]:
    """A step, layer by layer, with a list of what is held."""
    lengths = [layers // segments + (i < layers % segments) for i in range(segments)]
    held: list[tuple[int, int]] = []  # (segment, bytes)
    highest = work = again = 0
    for number, length in enumerate(lengths):
        for position in range(length):
            work += flops
            if number == segments - 1:
                held += [(number, given), (number, inner)]
            elif position == 0:
                held.append((number, given))
    kept = highest = sum(size for _, size in held)
    for number in range(segments - 1, -1, -1):
        if number < segments - 1:
            for position in range(lengths[number]):
                work += flops
                again += 1
                held.append((number, inner))
                if position:
                    held.append((number, given))
        highest = max(highest, sum(size for _, size in held))
        work += 2 * flops * lengths[number]
        held = [(which, size) for which, size in held if which != number]
    return {
        "kept_bytes": kept,
        "peak_bytes": highest,
        "recomputed_layers": again,
        "flops": work,
        "flops_ratio": work / (3 * layers * flops),
    }


CHAINS = [(1, 1), (2, 1), (2, 2), (12, 3), (12, 12), (7, 3), (10, 4), (24, 5), (100, 10), (100, 99)]


@task("lab05_techniques.predict_checkpointing")
@pytest.mark.parametrize("layers, segments", CHAINS)
def test_a_chain_played(stub: Any, layers: int, segments: int) -> None:
    for given, inner in ((10, 90), (100, 1), (1, 1)):
        got = stub.predict_checkpointing(layers, segments, given, inner, 1000)
        judge(
            f"predict_checkpointing({layers}, {segments}, {given}, {inner}, 1000)",
            got,
            played(layers, segments, given, inner, 1000),
            "Play it: while one segment is run backward, its own layers are there and the inputs of "
            "those before it. The last segment is not computed again",
        )


@task("lab05_techniques.predict_checkpointing")
def test_a_chain_nobody_saw(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    for _ in range(8):
        layers = pick.randint(3, 200)
        sizes = (pick.randint(1, 10**9), pick.randint(1, 10**9), pick.randint(1, 10**12))
        segments = pick.randint(1, layers)
        got = stub.predict_checkpointing(layers, segments, *sizes)
        want = played(layers, segments, *sizes)
        call = f"predict_checkpointing({layers}, {segments}, {', '.join(map(str, sizes))})"
        judge(call, got, want, "Play it segment by segment, from the last to the first")


@task("lab05_techniques.predict_checkpointing")
def test_impossible_chains(stub: Any) -> None:
    for layers, segments in ((4, 5), (4, 0), (0, 0), (4, 1.0), (True, 1)):
        with stub.raises(ValueError, why=f"{layers} layers cannot be cut into {segments}"):
            stub.predict_checkpointing(layers, segments, 10, 10, 10)
    for sizes in ((0, 10, 10), (10, 0, 10), (10, 10, 0)):
        with stub.raises(ValueError, why="a layer has an input, keeps something and computes"):
            stub.predict_checkpointing(4, 2, *sizes)


# -- checkpoint_layers ----------------------------------------------------------------------------

WIDTH, ROWS = 8, 4
TENSOR_BYTES = 4 * WIDTH * ROWS


def order_by_hand(layers: int, segments: int) -> list[str]:
    """The calls of a step: f3 is the forward pass of layer 3, b3 its backward pass."""
    ends, parts = 0, []
    for i in range(segments):
        length = layers // segments + (i < layers % segments)
        parts.append(list(range(ends, ends + length)))
        ends += length
    calls = [f"f{i}" for i in range(layers)]
    for number, part in reversed(list(enumerate(parts))):
        calls += [f"f{i}" for i in part] if number < segments - 1 else []
        calls += [f"b{i}" for i in reversed(part)]
    return calls


@task("lab05_techniques.checkpoint_layers")
@pytest.mark.parametrize("layers, segments", [(6, 1), (6, 3), (7, 3), (5, 5)])
def test_watched_layers(stub: Any, layers: int, segments: int, seed: int) -> None:
    for needs in (True, False):
        got = stub.probe(PROBE, "run", layers, segments, needs, seed)
        call = f"checkpoint_layers of {layers} layers in {segments} segments"
        given = "" if needs else " (the input does not require a gradient)"
        require(
            got["result"] == got["plain_result"],
            f"{call}{given}: the result differs from that of the layers one after the other",
        )
        require(
            got["gradients"] == got["plain_gradients"],
            f"{call}{given}: the gradients {show(got['gradients'])} differ from those without "
            f"checkpoints, {show(got['plain_gradients'])}. (A layer here draws random numbers, and "
            "None is a gradient that never came)",
        )
        require(
            not got["input_changed"],
            f"{call}{given}: afterwards the input asks for a gradient, which it did not before; it is the "
            "caller's tensor",
        )
        want = order_by_hand(layers, segments)
        require(
            got["calls"] == want,
            f"{call}{given}: the passes ran in the order {' '.join(got['calls'])}, expected "
            f"{' '.join(want)}: a segment is run again right before its backward pass, and the last "
            "one, whose backward pass comes at once, is not",
        )
        # each layer keeps its input and one tensor beside it; the last of the kept tensors is the mask
        last = layers // segments
        most = (segments - 1 + 2 * last) * TENSOR_BYTES
        require(
            got["kept_bytes"] < most + TENSOR_BYTES,  # a number beside them is no tensor of a layer
            f"{call}{given}: after the forward pass {got['kept_bytes']} bytes were kept for the "
            f"backward pass, expected at most {most}: the inputs of {segments - 1} segments and what "
            f"the {last} layers of the last one keep, in tensors of {TENSOR_BYTES} bytes",
        )


@task("lab05_techniques.checkpoint_layers")
def test_impossible_segments(stub: Any) -> None:
    for layers, segments in ((3, 4), (3, 0)):
        got = stub.probe(PROBE, "refusal", layers, segments)
        require(
            got == "ValueError",
            f"checkpoint_layers of {layers} layers in {segments} segments: {got}, expected ValueError",
        )


# -- choose_segments ------------------------------------------------------------------------------


def judge_choice(stub: Any, capture: str) -> None:
    """choose_segments at every budget at which the answer can change, and beside it."""
    rows = rows_of(capture, "checkpoint")
    repeated = f"{rows[0]['name']} again"
    sizes = sorted({row["peak_bytes"] for row in rows})
    for budget in sorted({size + extra for size in sizes for extra in (-1, 0)} | {10**15}):
        best: tuple | None = None
        for row in rows:
            if row["name"] == repeated or row["peak_bytes"] > budget:
                continue
            slowdown = statistics.median(by_rounds(row, rows[0]))
            key = (slowdown, row["segment_count"], row)
            if best is None or key[:2] < best[:2]:
                best = key
        want = best and {
            "segment_count": best[1],
            "peak_bytes": best[2]["peak_bytes"],
            "step_ns": statistics.median(best[2]["step_time"]),
            "slowdown_ratio": best[0],
        }
        got = stub.choose_segments(capture, budget)
        fit = [
            row["name"] for row in rows if row["peak_bytes"] <= budget and row["name"] != repeated
        ]
        judge(
            f"choose_segments({Path(capture).name}, {budget})",
            got,
            want,
            f"Within {budget} bytes there are {fit or 'no rows'} ({repeated!r} is the same variant again). "
            "Of these, choose the fastest: bytes below the budget gain nothing",
        )


@task("lab05_techniques.choose_segments")
@recordings("techniques_wide", "techniques_narrow", holding=FILE)
def test_recorded_choice(stub: Any, recording: str) -> None:
    judge_choice(stub, recording)


@task("lab05_techniques.choose_segments")
def test_generated_choice(stub: Any, seed: int, tmp_path: Path) -> None:
    judge_choice(stub, made_up(tmp_path, seed))


@task("lab05_techniques.choose_segments")
def test_equal_rows(stub: Any, tmp_path: Path) -> None:
    def row(count: int, name: str, *times: int) -> dict[str, Any]:
        return {"name": name, "segment_count": count, "step_time": times, "peak_bytes": 100 - count}

    rows = [
        row(1, "whole", 90, 100, 200),
        row(1, "whole again", 90, 100, 200),
        row(6, "six", 99, 110, 220),
        row(3, "three", 99, 110, 220),
        row(4, "four", 100, 100, 400),
    ]
    judge_choice(stub, write(tmp_path / "equal", {"checkpoint": rows}))
    with stub.raises(CaptureError, why="a row says nothing of its segments"):
        del rows[2]["segment_count"]
        stub.choose_segments(write(tmp_path / "equal", {"checkpoint": rows}), 99)


# -- layout_report --------------------------------------------------------------------------------


def layout_of(tensor: Any) -> dict[str, Any]:
    """What torch says and does to a tensor, seen from outside."""
    import torch

    images = tensor.dim() == 4
    made = tensor.contiguous()
    last = tensor.contiguous(memory_format=torch.channels_last) if images else None

    def new_bytes(result: Any) -> int:
        same = result.data_ptr() == tensor.data_ptr()
        return 0 if same else result.numel() * result.element_size()

    return {
        "contiguous": tensor.is_contiguous(),
        "channels_last": images and tensor.is_contiguous(memory_format=torch.channels_last),
        "copy_bytes": new_bytes(made),
        "channels_last_copy_bytes": None if last is None else new_bytes(last),
    }


def some_tensors(seed: int) -> list[tuple[str, Any]]:
    """Views of many kinds, by what they are."""
    import torch

    pick = random.Random(seed)
    a, b, c, d = (pick.randint(2, 6) for _ in range(4))
    plain, image = torch.zeros(a, b), torch.zeros(a, b, c, d, dtype=torch.bfloat16)
    last = image.contiguous(memory_format=torch.channels_last)
    shuffled = list(range(4))
    pick.shuffle(shuffled)
    return [
        ("a matrix", plain),
        ("a transpose", plain.t()),
        ("every second column", torch.zeros(a, 2 * b)[:, ::2]),
        ("every second row", torch.zeros(2 * a, b)[::2]),
        ("the first columns", torch.zeros(a, b + 1)[:, :b]),
        ("the first rows", torch.zeros(a + 1, b)[:a]),
        ("one row, expanded", torch.zeros(1, b).expand(a, b)),
        ("one column, transposed", torch.zeros(1, b).t()),
        ("one row of many columns", torch.zeros(a, b)[:1].t()),
        ("images", image),
        ("images, channels last", last),
        ("images of one channel", torch.zeros(a, 1, c, d)),
        ("images of one channel, channels last", torch.zeros(a, c, d, 1).permute(0, 3, 1, 2)),
        ("one pixel an image", torch.zeros(a, b, 1, 1)),
        ("one image of channels last", last[:1]),
        ("half of the channels", last[:, : b // 2]),
        ("dimensions shuffled", image.permute(shuffled)),
        ("a number", torch.zeros((), dtype=torch.float64)),
        ("a vector", torch.zeros(a)),
        ("five dimensions", torch.zeros(2, a, b, 1, c).transpose(1, 4)),
    ]


@task("lab05_techniques.layout_report")
def test_layouts_of_tensors(stub: Any, seed: int) -> None:
    for what, tensor in some_tensors(seed):
        shape, strides = list(tensor.shape), list(tensor.stride())
        got = stub.layout_report(shape, strides, tensor.element_size())
        judge(
            f"layout_report({shape}, {strides}, {tensor.element_size()})",
            got,
            layout_of(tensor),
            f"That is {what}; torch was asked, and it was seen whether .contiguous() made new memory",
        )


@task("lab05_techniques.layout_report")
@recordings("techniques_wide", "techniques_narrow", holding=FILE)
def test_recorded_layouts(stub: Any, recording: str) -> None:
    for row in rows_of(recording, "layouts"):
        got = stub.layout_report(row["shape"], row["strides"], row["element_bytes"])
        last = row["memory_format"] == "channels_last"
        copied = got["channels_last_copy_bytes" if last else "copy_bytes"]
        want = 0 if row["same_memory"] else math.prod(row["shape"]) * row["element_bytes"]
        judge(
            f"layout_report({row['shape']}, {row['strides']}, {row['element_bytes']}), bytes copied,",
            copied,
            want,
            f"On the GPU {row['name']!r} "
            + ("kept its memory" if row["same_memory"] else "got new memory"),
        )


@task("lab05_techniques.layout_report")
def test_no_layouts(stub: Any) -> None:
    for shape, strides, size in (
        ([2, 3], [3], 4),
        ([2, 0], [1, 1], 4),
        ([2, 3], [-1, 1], 4),
        ([2, 3], [3, 1], 0),
    ):
        with stub.raises(ValueError, why="no tensor has such a layout"):
            stub.layout_report(shape, strides, size)
    got = stub.layout_report([2, 3], [3, 1], 1)
    judge("layout_report([2, 3], [3, 1], 1)", got["copy_bytes"], 0, "Bytes have the size 1")


# -- compare_on_gpu -------------------------------------------------------------------------------


@task("lab05_techniques.compare_on_gpu")
@pytest.mark.parametrize("technique", ["autocast", "checkpoints"])
def test_live_comparison(stub: Any, technique: str) -> None:
    claim = stub.probe(LIVE, "compared", technique)
    got, call = claim["result"], f"compare_on_gpu of a step without and with {technique}"
    keys = {"before_ns", "after_ns", "speedup", "before_peak_bytes", "after_peak_bytes"}
    require(
        isinstance(got, dict) and got.keys() == keys,
        f"{call} returned {show(got)}, expected a dict of {', '.join(sorted(keys))}",
    )
    require(
        claim["calls"] == [12, 12],
        f"{call} with 9 rounds called the steps {claim['calls']} times, expected 12 each: two to warm up, "
        "nine in turns, one for the memory",
    )
    for place, name in enumerate(("before", "after")):
        took, own = got[f"{name}_ns"], claim["own_ns"][place]
        require(
            0.8 * own <= took <= 1.25 * own,
            f"{call}: {name}_ns is {show(took)}; events around the same step here gave {show(own)} ns",
        )
        peak, own = got[f"{name}_peak_bytes"], claim["own_bytes"][place]
        require(
            abs(peak - own) <= 0.02 * own,
            f"{call}: {name}_peak_bytes is {show(peak)}; torch.cuda.max_memory_allocated says {own} here, "
            "beyond what was in use before the step",
        )
    ratio = got["before_ns"] / got["after_ns"]
    require(
        0.9 * ratio <= got["speedup"] <= 1.1 * ratio,
        f"{call}: speedup is {show(got['speedup'])}, and the medians' ratio is {show(ratio)}: before's "
        "time over after's, in each round",
    )
    less = got["after_peak_bytes"] < 0.9 * got["before_peak_bytes"]
    faster = got["speedup"] > 1.5 if technique == "autocast" else got["speedup"] < 1.05
    require(
        less and faster,
        f"{call}: {show(got)}. Both lower the peak of memory here; lower precision is faster for large "
        "products, and checkpoints are not, because they compute again",
    )
