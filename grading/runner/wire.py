"""What may cross between a check and the learner's code, and how it is written down.

A value is first turned into a *wire form*, plain data that msgpack can hold (`to_wire`), then into
bytes (`pack`); `unpack` and `from_wire` go the other way. Types are compared exactly
(`type(x) is int`), never with `isinstance`: a subclass of `int` may answer True to every `==`.
Exact numpy scalars become Python numbers, because they are returned by accident; everything else
that is not in the table is refused by `ForbiddenValue`, which says where it sat, what it was and
what to return instead.

What msgpack cannot tell apart is written as a map with one integer key, which no plain value
produces, since a dict with other keys than text is itself written that way:

    {0: [items]}              tuple
    {1: [k, v, k, v, ...]}    dict with keys that are not all text
    {2: [dtype, shape, data]} numpy array, little-endian, C order
    {3: [class, {field: v}]}  dataclass of `profiling_lab`
    {4: [owner, id, name]}    callable: it stays where it is, only its number crosses
    {5: text}                 path of a capture
    {6: bytes}                integer beyond 64 bits, two's complement, big-endian

(One pass of the encoder; msgpack's extension types would pack each tuple on its own.)
"""

from __future__ import annotations

# Long because writing and reading of each type stand together, and a worker in the sandbox loads it as one file.
import dataclasses
import functools
import importlib
import math
import pathlib
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

MOST_HELD = 2**21  # values in lists and dicts of a message that do not hold plain values alone
MAX_FRAME_BYTES = 256 * 2**20
MAX_DEPTH = 100
MAX_INT_BITS = 8192

_TUPLE, _DICT, _ARRAY, _DATACLASS, _CALLABLE, _PATH, _BIG_INT = range(7)

_PATH_TYPE = type(pathlib.Path())
_SCALARS = frozenset({type(None), bool, float})
_KEY_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_FUNCTION_TYPES = frozenset(
    {
        types.FunctionType,
        types.BuiltinFunctionType,
        types.MethodType,
        types.MethodWrapperType,
        functools.partial,
    }
)
_ITEM_BYTES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float16": 2,
    "float32": 4,
    "float64": 8,
}
_NUMPY_SCALARS = frozenset(_ITEM_BYTES) | {
    "bool_",
    "longlong",
    "ulonglong",
    "intc",
    "uintc",
    "str_",
}


class WireError(Exception):
    """Something on the wire is not what the contract allows."""


class ForbiddenValue(WireError, TypeError):
    """A value that may not cross; the message says where it sat and what to return instead."""


class MalformedFrame(WireError):
    """Bytes that are no message, or a message that holds what no honest sender writes."""


class FrameTooLarge(WireError):
    """A message over the size limit, by its own announcement, or of too many values."""


class RemoteCallable:
    """A function that lives on the other side; calling it sends a message there and waits."""

    __slots__ = ("__name__", "__qualname__", "_identity", "_table")

    def __init__(self, table: Callables, identity: int, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._identity = identity
        self._table = table

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return self._table.call_remote(self._identity, self.__name__, args, kwargs)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"


class Callables:
    """The functions that one side has let the other call, and the other side's that it holds.

    side: "check" or "stub", the owner's name written with each number.
    call_remote(identity, name, args, kwargs): runs a function of the other side.
    """

    def __init__(
        self, side: str, call_remote: Callable[[int, str, tuple, dict], Any] | None = None
    ) -> None:
        if side not in ("check", "stub"):
            raise ValueError(side)
        self.side = side
        self.other = "stub" if side == "check" else "check"
        self.call_remote = call_remote or _no_remote
        self._own: list[Callable[..., Any]] = []
        self._number: dict[int, int] = {}
        self._held: dict[int, RemoteCallable] = {}

    def number(self, function: Callable[..., Any]) -> int:
        """The number under which the other side may call `function`, the same each time."""
        found = self._number.get(id(function))
        if found is None:
            found = len(self._own)
            self._own.append(function)  # kept alive, so that its id is not given away again
            self._number[id(function)] = found
        return found

    def own(self, number: Any) -> Callable[..., Any]:
        """The function of this side that has this number."""
        if type(number) is not int or not 0 <= number < len(self._own):
            raise MalformedFrame(f"no function has the number {number!r}")
        return self._own[number]

    def held(self, number: Any, name: str) -> RemoteCallable:
        """A stand-in for the other side's function of this number, the same object each time."""
        if type(number) is not int or not 0 <= number < 2**53:
            raise MalformedFrame(f"{number!r} is not the number of a function")
        if number not in self._held:
            self._held[number] = RemoteCallable(self, number, name)
        return self._held[number]


def _no_remote(identity: int, name: str, args: tuple, kwargs: dict) -> Any:
    raise RuntimeError(f"{name} cannot be called from here")


# --- values to wire form -------------------------------------------------------------------------


def to_wire(value: Any, callables: Callables | None = None, where: str = "result") -> Any:
    """The wire form of `value`: plain data for `pack`.

    where: what messages call the value itself (`result`, `argument 1`).
    Raises ForbiddenValue, naming the place inside the value.
    """
    try:
        return _Writer(callables).write(value, 0)
    except _Refused as refused:
        place = where + "".join(reversed(refused.path))
        raise ForbiddenValue(refused.sentence.replace("{place}", place)) from None


class _Refused(Exception):
    """A refusal on its way out; each container that it passes adds where it came from."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        self.path: list[str] = []


def _refuse(what: str, instead: str) -> _Refused:
    return _Refused(f"{{place}} is {what}, which cannot be handed over; {instead}")


class _Writer:
    def __init__(self, callables: Callables | None) -> None:
        self.callables = callables

    def write(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _SCALARS or kind is bytes:
            return value
        if kind is int:
            return _integer(value)
        if kind is str:
            return _text(value)
        if depth >= MAX_DEPTH:
            raise _Refused(
                f"the value contains itself or is nested deeper than {MAX_DEPTH} levels, "
                "which cannot be handed over; return a flatter one"
            )
        if kind is list:
            return self.items(value, depth)
        if kind is tuple:
            return {_TUPLE: self.items(value, depth)}
        if kind is dict:
            return self.mapping(value, depth)
        module = kind.__module__
        if module == "numpy":
            return self.numpy(value)
        if kind is _PATH_TYPE:
            return {_PATH: _text(str(value))}
        if kind is RemoteCallable or kind in _FUNCTION_TYPES:
            return self.function(value)
        if type(module) is str and (module + ".").startswith("profiling_lab."):
            written = self.dataclass(value, depth)
            if written is not None:
                return written
        raise _refuse(*_advice(value))

    def items(self, value: list | tuple, depth: int) -> list:
        if _are_plain(value):
            return list(value)
        written: list[Any] = []
        try:
            for item in value:
                written.append(self.write(item, depth + 1))
        except _Refused as refused:
            refused.path.append(f"[{len(written)}]")
            raise
        return written

    def mapping(self, value: dict, depth: int) -> dict:
        key = None
        try:
            if set(map(type, value)) <= {str}:
                if "".join(value).isascii() and _are_plain(value.values()):
                    return dict(value)
                written = {}
                for key, item in value.items():
                    written[_text(key)] = self.write(item, depth + 1)
                return written
            flat = []
            for key, item in value.items():
                flat += [self.key(key), self.write(item, depth + 1)]
            return {_DICT: flat}
        except _Refused as refused:
            refused.path.append(f"[{_short(key)}]")
            raise

    def key(self, key: Any) -> Any:
        kind = type(key)
        if kind is int and not -(2**63) <= key < 2**64:
            raise _refuse(
                f"a key of {key.bit_length()} bits", "an int that is a key may have 64 bits"
            )
        if kind in _KEY_SCALARS:
            return self.write(key, 0)
        if kind is tuple:
            return {_TUPLE: [self.key(part) for part in key]}
        if kind.__module__ == "numpy" and kind.__name__ in _NUMPY_SCALARS:
            return self.numpy(key)
        raise _Refused(
            f"the key of {{place}} is {_article(kind)}, which cannot be handed over; "
            "use text, a number or a tuple of them as the key"
        )

    def numpy(self, value: Any) -> Any:
        import numpy as np

        kind = type(value)
        if kind is np.ndarray:
            name = value.dtype.name
            if name not in _ITEM_BYTES:
                raise _refuse(
                    f"a numpy array of dtype {value.dtype}", _array_advice(value.dtype.kind)
                )
            plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            return {_ARRAY: [name, list(value.shape), plain.tobytes()]}
        if kind.__name__ in _NUMPY_SCALARS and issubclass(kind, np.generic):
            return self.write(value.item(), 0)
        raise _refuse(*_advice(value))

    def function(self, value: Any) -> Any:
        if self.callables is None:
            raise _refuse("a function", "return its result, not the function itself")
        name = str(getattr(value, "__name__", type(value).__name__))
        if type(value) is RemoteCallable and value._table is self.callables:
            return {_CALLABLE: [self.callables.other, value._identity, name]}
        return {_CALLABLE: [self.callables.side, self.callables.number(value), name]}

    def dataclass(self, value: Any, depth: int) -> Any:
        kind = type(value)
        found: Any = sys.modules.get(kind.__module__)
        for part in kind.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is not kind or not dataclasses.is_dataclass(kind):
            return None
        fields = {}
        for field in dataclasses.fields(kind):
            if not field.init:
                continue
            try:
                item = getattr(value, field.name)
                fields[field.name] = self.write(item, depth + 1)
                wanted = _field_types(kind)[field.name]
                if wanted and not _fits(item, wanted):
                    raise _Refused(
                        f"{{place}} is {_article(type(item))}; "
                        f"{kind.__name__}.{field.name} must be {_names(wanted)}"
                    )
            except _Refused as refused:
                refused.path.append(f".{field.name}")
                raise
        return {_DATACLASS: [f"{kind.__module__}:{kind.__qualname__}", fields]}


def _are_plain(values: Collection[Any]) -> bool:
    """Whether each of these crosses as it is; told of those of one type without a Python step for each."""
    kinds = set(map(type, values))
    if not kinds <= _KEY_SCALARS:
        return False

    def of(kind: type) -> Collection[Any]:
        return values if len(kinds) == 1 else [value for value in values if type(value) is kind]

    if str in kinds and not "".join(of(str)).isascii():
        return False
    return int not in kinds or (min(of(int)) >= -(2**63) and max(of(int)) < 2**64)


def _integer(value: int) -> Any:
    if -(2**63) <= value < 2**64:
        return value
    if value.bit_length() > MAX_INT_BITS:
        raise _refuse(
            f"an int of {value.bit_length()} bits",
            f"an int may have {MAX_INT_BITS} bits; return a float or text",
        )
    return {_BIG_INT: value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)}


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refuse(
                "text with half a character in it (a lone surrogate)",
                'decode the bytes with errors="replace"',
            ) from None
    return value


# --- wire form to values -------------------------------------------------------------------------


def from_wire(form: Any, callables: Callables | None = None) -> Any:
    """The value that `to_wire` wrote. Raises MalformedFrame on what no honest sender writes.

    Raises FrameTooLarge for more than MOST_HELD values in lists and maps that hold more than plain numbers
    and texts: a frame of empty lists would take this side half a minute.
    """
    global _left
    _left = MOST_HELD
    return _read(form, callables, 0)


_left = MOST_HELD


def _spend(count: int) -> None:
    global _left
    _left -= count
    if _left < 0:
        raise FrameTooLarge(f"more than {MOST_HELD:,} values in lists and dicts of lists and dicts")


def _read(form: Any, callables: Callables | None, depth: int) -> Any:
    kind = type(form)
    if kind in _KEY_SCALARS:
        return form
    # A tagged value takes two levels of data for one of the value, dict keys one more.
    if depth > 2 * MAX_DEPTH + 8:
        raise MalformedFrame(f"a value nested deeper than {MAX_DEPTH} levels")
    if kind is list:
        if set(map(type, form)) <= _KEY_SCALARS:
            return form
        _spend(len(form))
        return [_read(item, callables, depth + 1) for item in form]
    if kind is not dict:
        raise MalformedFrame(f"a value of the unexpected type {kind.__name__}")
    if set(map(type, form)) <= {str}:
        if set(map(type, form.values())) <= _KEY_SCALARS:
            return form
        _spend(len(form))
        return {key: _read(item, callables, depth + 1) for key, item in form.items()}
    if len(form) != 1:
        raise MalformedFrame("a map whose keys are not all text")
    ((tag, body),) = form.items()
    if type(tag) is not int or not 0 <= tag < len(_READERS):
        raise MalformedFrame(f"a value with the unknown tag {tag!r}")
    return _READERS[tag](body, callables, depth + 1)


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise MalformedFrame(what)


def _read_tuple(body: Any, callables: Callables | None, depth: int) -> tuple:
    _expect(type(body) is list, "a tuple that is not written as a list")
    return tuple(_read(body, callables, depth))


def _read_dict(body: Any, callables: Callables | None, depth: int) -> dict:
    _expect(type(body) is list and len(body) % 2 == 0, "a dict that is not written as pairs")
    pairs = _read(body, callables, depth)
    keys = pairs[::2]
    _expect(all(map(_is_key, keys)), "a dict with a key that is no text, number or tuple")
    return dict(zip(keys, pairs[1::2], strict=True))


def _is_key(key: Any) -> bool:
    # Larger integers can be chosen so that they all hash alike, and a dict of them takes hours.
    if type(key) is int:
        return -(2**63) <= key < 2**64
    return type(key) in _KEY_SCALARS or (type(key) is tuple and all(map(_is_key, key)))


def _read_array(body: Any, callables: Callables | None, depth: int) -> Any:
    import numpy as np

    _expect(type(body) is list and len(body) == 3, "an array without dtype, shape and data")
    name, shape, data = body
    _expect(type(name) is str and name in _ITEM_BYTES, f"an array of dtype {name!r}")
    _expect(
        type(shape) is list
        and len(shape) <= 32
        and all(type(n) is int and 0 <= n < 2**48 for n in shape),
        f"an array of shape {shape!r}",
    )
    _expect(type(data) is bytes, "an array whose data are not bytes")
    expected = math.prod(shape) * _ITEM_BYTES[name]
    _expect(
        len(data) == expected,
        f"an array of shape {shape} and dtype {name} with {len(data)} bytes, not {expected}",
    )
    little = np.dtype(name).newbyteorder("<")
    try:
        # A copy in the machine's own byte order, because frombuffer's result cannot be written to.
        return np.frombuffer(data, dtype=little).reshape(shape).astype(name, copy=True)
    except ValueError as error:
        raise MalformedFrame(f"an array of shape {shape}: {error}") from None


def _read_dataclass(body: Any, callables: Callables | None, depth: int) -> Any:
    _expect(
        type(body) is list and len(body) == 2 and type(body[0]) is str and type(body[1]) is dict,
        "a dataclass without class and fields",
    )
    name, fields = body
    kind = _dataclass_named(name)
    wanted = {field.name for field in dataclasses.fields(kind) if field.init}
    _expect(fields.keys() == wanted, f"a {name} with other fields than {sorted(wanted)}")
    values = _read(fields, callables, depth)
    for field, item in values.items():
        types_ = _field_types(kind)[field]
        _expect(not types_ or _fits(item, types_), f"{name}.{field} of type {type(item).__name__}")
    try:
        return kind(**values)
    except Exception as error:  # noqa: BLE001 -- whatever its __post_init__ raises
        raise MalformedFrame(f"a {name} that its own class refuses: {error}") from None


@functools.cache
def _dataclass_named(name: str) -> Any:
    module_name, _, qualified = name.partition(":")
    # The pattern leaves out __main__ modules, whose import would run them.
    if re.fullmatch(r"profiling_lab(\.[a-z][a-z0-9_]*)*", module_name):
        try:
            found: Any = importlib.import_module(module_name)
            for part in qualified.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            found = None
        if (
            type(found) is type
            and dataclasses.is_dataclass(found)
            and (found.__module__, found.__qualname__) == (module_name, qualified)
        ):
            return found
    raise MalformedFrame(f"{name!r} is not a dataclass of profiling_lab")


def _read_callable(body: Any, callables: Callables | None, depth: int) -> Any:
    _expect(
        type(body) is list and len(body) == 3 and type(body[2]) is str,
        "a function without owner, number and name",
    )
    owner, number, name = body
    if callables is None:
        raise MalformedFrame("a function where none may stand")
    if owner == callables.side:
        return callables.own(number)
    _expect(owner == callables.other, f"a function of the unknown owner {owner!r}")
    return callables.held(number, name)


def _read_path(body: Any, callables: Callables | None, depth: int) -> pathlib.Path:
    _expect(type(body) is str and "\0" not in body, "a path that is not text")
    return pathlib.Path(body)


def _read_big_int(body: Any, callables: Callables | None, depth: int) -> int:
    _expect(type(body) is bytes and len(body) <= MAX_INT_BITS // 8 + 1, "an int that is too long")
    return int.from_bytes(body, "big", signed=True)


_READERS = (
    _read_tuple,
    _read_dict,
    _read_array,
    _read_dataclass,
    _read_callable,
    _read_path,
    _read_big_int,
)


# --- bytes and frames ----------------------------------------------------------------------------


def pack(form: Any) -> bytes:
    """Wire form to bytes."""
    return msgspec.msgpack.encode(form)


def unpack(data: bytes) -> Any:
    """Bytes to wire form. Raises MalformedFrame."""
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError, MemoryError) as error:
        raise MalformedFrame(f"bytes that are no message ({error})") from None


def frame(body: bytes, limit_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """`body` with its length before it: 4 bytes, big-endian. Raises FrameTooLarge."""
    check_size(len(body), limit_bytes)
    return len(body).to_bytes(4, "big") + body


def frame_length(header: bytes, limit_bytes: int = MAX_FRAME_BYTES) -> int:
    """The length that the first 4 bytes of a frame announce. Raises FrameTooLarge."""
    length = int.from_bytes(header, "big")
    check_size(length, limit_bytes)
    return length


def check_size(size_bytes: int, limit_bytes: int) -> None:
    """Raises FrameTooLarge if a message of this size may not cross."""
    if size_bytes > min(limit_bytes, 2**32 - 1):
        raise FrameTooLarge(
            f"{_megabytes(size_bytes)}, and {_megabytes(limit_bytes)} is the most that may cross"
        )


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.3g} MB"


# --- words ---------------------------------------------------------------------------------------


@functools.cache
def _field_types(kind: type) -> dict[str, tuple[type, ...]]:
    """The plain types that each field of a dataclass may have; () where nothing simple is said."""
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001 -- a name that exists for type checkers only
        hints = {}
    return {
        field.name: tuple(_plain_types(hints.get(field.name, Any)))
        for field in dataclasses.fields(kind)
    }


def _plain_types(hint: Any) -> Iterator[type]:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        parts = [tuple(_plain_types(part)) for part in typing.get_args(hint)]
        if all(parts):
            for part in parts:
                yield from part
        return
    plain = origin or hint
    if plain in (type(None), bool, int, float, str, bytes, list, tuple, dict):
        yield plain
        if plain is float:
            yield int


def _fits(value: Any, wanted: tuple[type, ...]) -> bool:
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(value, "item") and kind.__name__ != "ndarray":
        kind = type(value.item())
    return kind in wanted


def _names(wanted: tuple[type, ...]) -> str:
    return " or ".join(dict.fromkeys(kind.__name__ for kind in wanted))


def _short(key: Any) -> str:
    kind = type(key)
    if kind is str:
        text = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return text if len(text) <= 40 else text[:37] + '…"'
    if kind in _KEY_SCALARS or kind is tuple:
        text = repr(key)
        return text if len(text) <= 40 else text[:37] + "…"
    return kind.__name__


def _article(kind: type) -> str:
    name = kind.__name__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__.partition('.')[0]} {name}"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _array_advice(dtype_kind: str) -> str:
    return {
        "O": "give it a number type, or return .tolist()",
        "U": "return .tolist()",
        "S": "return .tolist()",
        "M": 'return .astype("int64"), times in ns',
        "m": 'return .astype("int64"), times in ns',
        "c": "return the real and the imaginary part as two arrays",
        "V": "return one array for each field",
    }.get(dtype_kind, "return a bool, int or float array of at most 64 bits")


_BY_NAME = {
    ("polars", "DataFrame"): "for a dict: dict(frame.iter_rows()); else .to_dicts() or .to_list()",
    ("polars", "LazyFrame"): "return .collect().to_dicts(), or one column as a list",
    ("polars", "Series"): "return .to_list() or .to_numpy()",
    ("polars", "Expr"): "evaluate it with .select(...) and return the values",
    ("pandas", "DataFrame"): 'return .to_dict("records"), or one column as .tolist()',
    ("pandas", "Series"): "return .tolist() or .to_numpy()",
    ("torch", "Tensor"): "return .item(), .tolist() or .cpu().numpy()",
    ("torch", "Parameter"): "return .tolist() or .detach().cpu().numpy()",
    ("decimal", "Decimal"): "return float(...)",
    ("fractions", "Fraction"): "return float(...)",
    ("datetime", "timedelta"): "return an int in ns",
    ("datetime", "datetime"): "return an int in ns",
    ("array", "array"): "return .tolist()",
    ("functools", "cached_property"): "return its value",
}
_BY_BUILTIN: dict[type, str] = {
    set: "return sorted(...), a list in a fixed order",
    frozenset: "return sorted(...), a list in a fixed order",
    bytearray: "return bytes(...)",
    memoryview: "return bytes(...)",
    complex: "return the real and the imaginary part",
    range: "return list(...)",
    type: "return an object, not the class itself",
    types.ModuleType: "return a value out of it",
    types.GeneratorType: "return list(...); a generator has not computed anything yet",
    types.CoroutineType: "run it with asyncio.run(...) and return its result",
    types.SimpleNamespace: "return a dict",
    types.MappingProxyType: "return dict(...)",
}


def _advice(value: Any) -> tuple[str, str]:
    """What a value is, and what to return instead."""
    kind = type(value)
    what = _article(kind)
    if kind in _BY_BUILTIN:
        return what, _BY_BUILTIN[kind]
    named = _BY_NAME.get((kind.__module__.partition(".")[0], kind.__name__))
    if named:
        return what, named
    bases = type.mro(kind) if kind is not type else []
    names = {base.__name__ for base in bases if base.__module__ != "builtins"}
    if "Enum" in names:
        return f"a member of the Enum {kind.__name__}", "return its .value"
    if "ndarray" in names:
        return f"a {kind.__name__}, a subclass of a numpy array", "return numpy.asarray(...)"
    if kind.__module__ == "numpy":
        if kind.__name__ in ("datetime64", "timedelta64"):
            return what, 'return int(x.astype("int64")), times in ns'
        return what, "return float(...)"
    for base in (str, int, float, bytes, list, tuple, dict, set, frozenset):
        if base in bases:
            instead = "sorted" if base in (set, frozenset) else base.__name__
            article = "an" if base is int else "a"
            return (
                f"{article} {base.__name__} of the subclass {kind.__name__}",
                f"return {instead}(...)",
            )
    if "PurePath" in names:
        return what, "return pathlib.Path(...)"
    if dataclasses.is_dataclass(kind):
        return (
            f"a {kind.__name__}, a dataclass of your own",
            "return dataclasses.asdict(...) or what the docstring asks for",
        )
    if any("__next__" in vars(base) for base in bases):
        return f"{what}, an iterator", "return list(...)"
    if kind.__module__ == "builtins" and kind.__name__.startswith("dict_"):
        return what, "return list(...)"
    return (
        what,
        "return plain values: numbers, text, lists, tuples, dicts, numpy arrays or Findings",
    )
