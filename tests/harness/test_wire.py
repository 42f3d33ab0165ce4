"""The wire format: what crosses comes back equal and of the same type; all else is refused."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
import functools
import math
import pathlib

import msgspec
import numpy as np
import polars as pl
import pytest

from grading.runner import wire
from grading.runner.scoring import installed
from profiling_lab.findings import Finding


def round_trip(value, callables=None):
    return wire.from_wire(wire.unpack(wire.pack(wire.to_wire(value, callables))), callables)


def same(left, right) -> bool:
    if type(left) is not type(right):
        return False
    if type(left) in (list, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is dict:
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    both_nan = type(left) is float and math.isnan(left) and math.isnan(right)
    return left == right or both_nan


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        2**64 - 1,
        2**64,
        -(2**63) - 1,
        -(2**70),
        3**600,
        0.5,
        -0.0,
        math.inf,
        math.nan,
        "",
        "µs · 时间 · 🐍",
        b"\x00\xff",
        [],
        (),
        {},
        [1, 2, 3],
        [1, 2**80],
        [True, 1, 1.0, "1", None, b"1"],
        (1, (2, [3, ()])),
        ["a", "é"],
        {"a": 1, "b": {"c": (1, 2)}},
        {0: "a", (1, "x"): "b", None: 2.5, b"k": [], 2**63: 1},
        {1: {0: [1]}},
        [{"start_ns": 1, "name": "k"}] * 3,
        pathlib.Path("captures/a b/timeline.sqlite"),
        Finding("healthy", "device:0", {"window_ns": 10}, "none"),
        [Finding("sync_bound", "stream:7", {"recoverable_ns": 1.5})],
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_crosses_comes_back_the_same(value):
    assert same(round_trip(value), value)


@pytest.mark.parametrize("dtype", sorted(wire._ITEM_BYTES))
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (0, 4)])
def test_arrays_of_every_dtype_and_shape(dtype, shape):
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    back = round_trip(array)
    assert type(back) is np.ndarray
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array)
    assert back.flags.writeable
    assert back.flags.owndata or back.base.flags.owndata


def test_arrays_of_other_layouts_come_back_equal():
    array = np.arange(12).reshape(3, 4)
    for view in (array.T, array[::2, ::-1], np.asfortranarray(array), array.astype(">i8")):
        back = round_trip(view)
        assert np.array_equal(back, view)
        assert back.dtype == np.int64


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int64(4), 4),
        (np.uint8(4), 4),
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        ({np.int64(1): np.int32(2)}, {1: 2}),
        ([np.int64(1), 2], [1, 2]),
        ((np.float64(1.0),), (1.0,)),
    ],
)
def test_numpy_scalars_become_plain(value, plain):
    assert same(round_trip(value), plain)


class Whole(int):
    pass


class Liar(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Own:
    x: int = 1


Pair = collections.namedtuple("Pair", "start end")


@pytest.mark.parametrize(
    ("value", "what", "instead"),
    [
        (pl.DataFrame({"a": [1]}), "a polars DataFrame", ".to_dicts()"),
        (pl.Series([1]), "a polars Series", ".to_list() or .to_numpy()"),
        (pl.LazyFrame({"a": [1]}), "a polars LazyFrame", ".collect()"),
        (pl.col("a"), "a polars Expr", ".select"),
        ((i for i in range(3)), "a generator", "list(...)"),
        (map(str, []), "an iterator", "list(...)"),
        (range(3), "a range", "list(...)"),
        ({1, 2}, "a set", "sorted(...)"),
        (frozenset(), "a frozenset", "sorted(...)"),
        ({}.keys(), "a dict_keys", "list(...)"),
        (Whole(3), "an int of the subclass Whole", "int(...)"),
        (Liar(3), "an int of the subclass Liar", "int(...)"),
        (Level.LOW, "a member of the Enum Level", ".value"),
        (Pair(1, 2), "a tuple of the subclass Pair", "tuple(...)"),
        (collections.Counter("a"), "a dict of the subclass Counter", "dict(...)"),
        (collections.OrderedDict(), "a dict of the subclass OrderedDict", "dict(...)"),
        (bytearray(b"a"), "a bytearray", "bytes(...)"),
        (memoryview(b"a"), "a memoryview", "bytes(...)"),
        (1j, "a complex", "real and the imaginary"),
        (decimal.Decimal(1), "a decimal Decimal", "float(...)"),
        (np.array([object()]), "dtype object", ".tolist()"),
        (np.array(["a"]), "dtype <U1", ".tolist()"),
        (np.array([1j]), "dtype complex128", "imaginary part"),
        (np.array([1], "M8[ns]"), "dtype datetime64[ns]", "int64"),
        (np.array([(1,)], [("a", int)]), "dtype [('a'", "each field"),
        (np.ma.array([1]), "a subclass of a numpy array", "numpy.asarray"),
        (np.datetime64(1, "ns"), "a numpy datetime64", "times in ns"),
        (int, "a type", "not the class itself"),
        (math, "a module", "a value out of it"),
        (Own(), "a dataclass of your own", "dataclasses.asdict"),
        (object(), "an object", "plain values"),
        ("\ud800", "a lone surrogate", 'errors="replace"'),
        (1 << 10**5, "an int of 100001 bits", "8192 bits"),
        (pathlib.PurePosixPath("/a"), "PurePosixPath", "pathlib.Path(...)"),
        (len, "a function", "its result"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_everything_else_is_refused_with_a_way_out(value, what, instead):
    with pytest.raises(wire.ForbiddenValue) as caught:
        wire.to_wire(value)
    message = str(caught.value)
    assert message.startswith("result is ")
    assert what in message
    assert "which cannot be handed over" in message
    assert instead in message


@pytest.mark.proof  # importing torch takes seconds
def test_torch_tensors_are_refused_with_a_way_out():
    torch = installed("torch")
    with pytest.raises(wire.ForbiddenValue, match=r"a torch Tensor.*\.cpu\(\)\.numpy\(\)"):
        wire.to_wire(torch.zeros(1))


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ([0, 0, 0, {"start_ns": {1}}], 'result[3]["start_ns"] is a set'),
        ({"a": ({1},)}, 'result["a"][0] is a set'),
        ({7: {1}}, "result[7] is a set"),
        ({(1, "x"): {1}}, "result[(1, 'x')] is a set"),
        (Finding("healthy", "device:0", {"x_ns": {1}}), 'result.evidence["x_ns"] is a set'),
        ([Finding(3, "device:0")], "result[0].category is an int; Finding.category must be str"),
        ({frozenset(): 1}, "key of result[frozenset] is a frozenset"),
        ([1, 2, "\ud800"], "result[2] is text with half a character"),
    ],
)
def test_a_refusal_names_the_place(value, place):
    with pytest.raises(wire.ForbiddenValue) as caught:
        wire.to_wire(value)
    assert place in str(caught.value)


def test_values_that_contain_themselves_are_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(wire.ForbiddenValue, match="contains itself or is nested deeper"):
        wire.to_wire(endless)


def test_deep_values_cross_up_to_the_limit():
    value: object = 1
    for _ in range(wire.MAX_DEPTH):
        value = (value,)
    assert round_trip(value) == value
    with pytest.raises(wire.ForbiddenValue, match="nested deeper"):
        wire.to_wire((value,))


def test_an_argument_is_called_by_its_name():
    with pytest.raises(wire.ForbiddenValue, match=r"^argument 1 of f\[0\] is a set"):
        wire.to_wire([{1}], None, "argument 1 of f")


def test_functions_cross_as_numbers_and_come_home():
    calls = []

    def run(number, name, args, kwargs):
        calls.append((name, args, kwargs))
        return check.own(number)(*args, **kwargs)

    check, stub = wire.Callables("check"), wire.Callables("stub", run)

    def double(x, times=2):
        return x * times

    def cross(value, writer, reader):
        return wire.from_wire(wire.unpack(wire.pack(wire.to_wire(value, writer))), reader)

    there = cross([double, double, len, functools.partial(double, times=5)], check, stub)
    assert there[0] is there[1]
    assert [type(function) for function in there] == [wire.RemoteCallable] * 4
    assert there[0](3, times=4) == 12
    assert there[3](3) == 15
    assert calls[0] == ("double", (3,), {"times": 4})
    assert there[0].__name__ == "double"
    home = cross(there[0], stub, check)
    assert home is double


def bad(form):
    return wire.pack(form)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no message"),
        (b"\xc1", "no message"),
        (b"\xdd\xff\xff\xff\xff", "no message"),
        (b"\x91" * 100_000 + b"\xc0", "no message"),
        (b"\xd6\xff\x00\x00\x00\x01", "unexpected type datetime"),
        (b"\xd4\x05\x00", "unexpected type Ext"),
        (bad({99: []}), "unknown tag 99"),
        (bad({-1: []}), "unknown tag"),
        (bad({True: []}), "unknown tag"),
        (bad({1.5: []}), "unknown tag"),
        (bad({0: [], 1: []}), "keys are not all text"),
        (bad({0: 1}), "a tuple that"),
        (bad({1: [1]}), "a dict that"),
        (bad({1: [[1], 2]}), "a dict with a key"),
        (bad({2: ["object", [1], b"12345678"]}), "dtype 'object'"),
        (bad({2: ["int64", [2], b"12345678"]}), "with 8 bytes, not 16"),
        (bad({2: ["int64", [-1], b""]}), "shape"),
        (bad({2: ["int64", [2**47, 2**47, 0, 2**47], b""]}), "shape"),
        (bad({2: ["int64", [1] * 40, b"12345678"]}), "shape"),
        (bad({2: ["int64", [1], "12345678"]}), "not bytes"),
        (bad({3: ["os:system", {}]}), "not a dataclass of profiling_lab"),
        (bad({3: ["profiling_lab.__main__:X", {}]}), "not a dataclass of profiling_lab"),
        (bad({3: ["profiling_lab.findings:problems", {}]}), "not a dataclass of profiling_lab"),
        (bad({3: ["profiling_lab.findings:re.Pattern", {}]}), "not a dataclass of"),
        (bad({3: ["profiling_lab.findings:Finding", {"category": "healthy"}]}), "other fields"),
        (
            bad(
                {
                    3: [
                        "profiling_lab.findings:Finding",
                        {"category": 1, "subject": "", "evidence": {}, "recommendation": ""},
                    ]
                }
            ),
            "Finding.category of type int",
        ),
        (bad({4: ["check", 0, "f"]}), "a function where none may stand"),
        (bad({5: 1}), "path"),
        (bad({5: "a\0b"}), "path"),
        (bad({6: b"1" * 2000}), "too long"),
        (bad(functools.reduce(lambda inner, _: [inner], range(400), 1)), "nested deeper"),
    ],
    ids=lambda value: value[:20].hex() if isinstance(value, bytes) else None,
)
def test_what_no_honest_sender_writes_is_refused(data, message):
    with pytest.raises(wire.MalformedFrame, match=message):
        wire.from_wire(wire.unpack(data))


@pytest.mark.parametrize("body", [["check", 7, "f"], ["check", -1, "f"], ["check", True, "f"]])
def test_numbers_of_functions_that_were_never_given_are_refused(body):
    callables = wire.Callables("check")
    callables.number(len)
    with pytest.raises(wire.MalformedFrame, match="no function has the number"):
        wire.from_wire({4: body}, callables)
    with pytest.raises(wire.MalformedFrame, match="unknown owner"):
        wire.from_wire({4: ["root", 0, "f"]}, callables)


def test_frames_are_length_and_body():
    assert wire.frame(b"abc") == b"\x00\x00\x00\x03abc"
    assert wire.frame_length(b"\x00\x00\x00\x03") == 3


def test_frames_over_the_limit_are_named():
    with pytest.raises(wire.FrameTooLarge, match="2 MB, and 1 MB is the most"):
        wire.frame(b"0" * 2_000_000, 1_000_000)
    with pytest.raises(wire.FrameTooLarge, match=r"4\.29e\+03 MB"):
        wire.frame_length(b"\xff\xff\xff\xff")


def test_integers_that_hash_alike_are_no_keys():
    number = 2 * (2**61 - 1) * 2**64
    with pytest.raises(wire.ForbiddenValue, match="a key of 126 bits"):
        wire.to_wire({number: 1})
    written = number.to_bytes(17, "big", signed=True)
    for key in ({6: written}, {0: [{6: written}]}):
        with pytest.raises(wire.MalformedFrame, match="a dict with a key"):
            wire.from_wire({1: [key, 1]})


def test_arbitrary_bytes_never_end_in_another_error():
    generator = np.random.default_rng(20240)
    honest = wire.pack(wire.to_wire({"a": [1, (2, "x")], 3: np.arange(3), "f": Finding("a", "b")}))
    for _ in range(3000):
        data = bytearray(honest)
        for _ in range(generator.integers(1, 4)):
            data[generator.integers(len(data))] = generator.integers(256)
        try:
            wire.from_wire(wire.unpack(bytes(data)))
        except wire.WireError:
            pass


def test_encoding_is_plain_messagepack():
    assert msgspec.msgpack.decode(wire.pack(wire.to_wire({"a": [1, None]}))) == {"a": [1, None]}


def test_a_message_holds_only_so_many_values() -> None:
    few = [[[number], {"a": [number]}] for number in range(1000)]
    assert wire.from_wire(few) == few
    numbers = list(range(wire.MOST_HELD + 1))
    assert wire.from_wire(numbers) is numbers  # these cost nothing
    row = [[]] * (wire.MOST_HELD // 4)
    assert wire.from_wire([row] * 3) == [row] * 3
    with pytest.raises(wire.FrameTooLarge, match="values"):
        wire.from_wire([row] * 4)
    with pytest.raises(wire.FrameTooLarge, match="values"):
        wire.from_wire([{"a": [], "b": []}] * (wire.MOST_HELD // 3 + 1))
