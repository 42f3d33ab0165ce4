"""Run Triton kernels in Triton's interpreter, count what they load and store, and guard every access.

`counted(module, run, x=x)` runs `run()`. Every `@triton.jit` function that it starts, of the learner's
file or of Triton's library, goes through the interpreter, whether or not `TRITON_INTERPRET` is set and
with or without a GPU. What is counted is what the programs ask for, lane by lane, so it is exact and the
same on every machine; it is not what caches make of it. Used beside the learner's code: a claim.

Every address is looked at before it is touched. One outside of the tensors given to the launch raises
`OutOfBounds`, where the interpreter by itself would read or overwrite whatever lies there.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch
import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import JITFunction

# PyTorch's operators that move no data: allocation and views are not counted.
FREE_OPERATORS = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "detach",
}


class OutOfBounds(IndexError):
    """A program touched an address outside of the tensors given to its launch."""


@dataclass
class Region:
    """The memory of one tensor given to a launch. start: on the host; origin: where it came from."""

    name: str
    start: int
    span_bytes: int
    itemsize: int
    tensor_bytes: int
    origin: int
    load_bytes: int = 0
    store_bytes: int = 0
    loaded: Any = None
    stored: Any = None

    def __post_init__(self) -> None:
        elements = -(-self.span_bytes // self.itemsize)
        self.loaded = np.zeros(elements, dtype=bool)
        self.stored = np.zeros(elements, dtype=bool)

    def counts(self) -> dict[str, int]:
        """What was touched, in bytes."""
        return {
            "tensor_bytes": self.tensor_bytes,
            "load_bytes": self.load_bytes,
            "store_bytes": self.store_bytes,
            "distinct_load_bytes": int(self.loaded.sum()) * self.itemsize,
            "distinct_store_bytes": int(self.stored.sum()) * self.itemsize,
        }


@dataclass
class Counter:
    """What the programs of some launches asked for."""

    regions: list[Region] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    load_bytes: int = 0
    store_bytes: int = 0
    atomic_bytes: int = 0
    masked_lanes: int = 0
    dot_flops: int = 0
    dots: set[tuple[int, str, str]] = field(default_factory=set)
    torch_operators: list[str] = field(default_factory=list)
    current: list[Region] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)  # so that no address is used twice
    running: bool = False

    # -- launches -----------------------------------------------------------------------------------

    def open_tensors(self, named: dict[str, tuple[Any, Any]]) -> None:
        """The tensors of a launch: by name, the one given and its copy on the host."""
        self.current = []
        for name, (given, host) in _flat(named):
            self.kept += [given, host]
            span = 0
            if host.numel():
                reach = sum((n - 1) * s for n, s in zip(host.shape, host.stride(), strict=True))
                span = (reach + 1) * host.element_size()
            self.current.append(self._region(name, given, host, span))

    def _region(self, name: str, given: Any, host: Any, span: int) -> Region:
        origin = given.data_ptr()
        for region in self.regions:
            if (region.origin, region.span_bytes, region.itemsize) == (
                origin,
                span,
                host.element_size(),
            ):
                region.start = host.data_ptr()
                return region
        size = host.element_size()
        region = Region(name, host.data_ptr(), span, size, host.numel() * size, origin)
        self.regions.append(region)
        return region

    # -- accesses -----------------------------------------------------------------------------------

    def touch(self, what: str, pointers: Any, mask: Any) -> None:
        """Note a load, store or atomic of these lanes; raises OutOfBounds."""
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        addresses = pointers.data
        lanes = np.broadcast_to(mask, addresses.shape)
        active = addresses.ravel() if lanes.all() else addresses[lanes]
        self.masked_lanes += addresses.size - active.size
        if not active.size:
            return
        moved = active.size * size
        if what == "load":
            self.load_bytes += moved
        elif what == "store":
            self.store_bytes += moved
        else:
            self.atomic_bytes += moved
        low, high = int(active.min()), int(active.max()) + size
        for region in self.current:
            if region.start <= low and high <= region.start + region.span_bytes:
                self._note(region, what, active, size)
                return
        for region in self.current:  # lanes of several tensors, or one outside of all
            inside = (active >= region.start) & (active + size <= region.start + region.span_bytes)
            if inside.any():
                self._note(region, what, active[inside], size)
                active = active[~inside]
        if active.size:
            raise OutOfBounds(self._outside(what, int(active[0]), size))

    @staticmethod
    def _note(region: Region, what: str, active: Any, size: int) -> None:
        places = (active - np.uint64(region.start)) // np.uint64(region.itemsize)
        if what != "store":
            region.load_bytes += active.size * size
            region.loaded[places] = True
        if what != "load":
            region.store_bytes += active.size * size
            region.stored[places] = True

    def _outside(self, what: str, address: int, size: int) -> str:
        program = interpreter.interpreter_builder.grid_idx
        head = f"program {program}: {what} of {size} bytes at an address"
        if not self.current:
            return f"{head} that belongs to no tensor: the launch was given none"

        def distance(region: Region) -> int:
            end = region.start + region.span_bytes
            return region.start - address if address < region.start else address - end

        near = min(self.current, key=distance)
        end = near.start + near.span_bytes
        if address < near.start:
            where = f"{near.start - address} bytes before the start"
        elif address >= end:
            where = f"{address - end} bytes behind the end"
        else:
            where = f"reaching over the end, {end - address} bytes before the end"
        return f"{head} {where} of {near.name} ({near.span_bytes} bytes): is a lane not masked off?"

    # -- result -------------------------------------------------------------------------------------

    def counts(self, **tensors: Any) -> dict[str, Any]:
        """All counts, as plain values. tensors: names for tensors, by where they lie."""
        by_name: dict[str, dict[str, int]] = {}
        for region in self.regions:
            name = region.name
            for given, tensor in tensors.items():
                if _holds(tensor, region):
                    name = given
                    break
            mine = region.counts()
            known = by_name.setdefault(name, dict.fromkeys(mine, 0))
            for key, value in mine.items():
                known[key] += value
        return {
            "launches": len(self.launches),
            "programs": sum(launch["programs"] for launch in self.launches),
            "kernels": self.launches,
            "load_bytes": self.load_bytes,
            "store_bytes": self.store_bytes,
            "atomic_bytes": self.atomic_bytes,
            "masked_lanes": self.masked_lanes,
            "dot_flops": self.dot_flops,
            "dots": sorted(map(list, self.dots)),
            "tensors": by_name,
            "torch_operators": self.torch_operators,
        }


def _flat(named: dict[str, tuple[Any, Any]]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The tensors in arguments: themselves, in tuples, in descriptors, in wrappers with another dtype."""
    for name, (given, host) in named.items():
        if isinstance(host, torch.Tensor):
            yield name, (given, host)
        elif isinstance(host, tuple):
            yield from _flat(
                {f"{name}[{i}]": pair for i, pair in enumerate(zip(given, host, strict=True))}
            )
        elif hasattr(host, "base"):
            yield from _flat({name: (given.base, host.base)})


def _holds(tensor: Any, region: Region) -> bool:
    if not isinstance(tensor, torch.Tensor) or not tensor.numel():
        return False
    storage = tensor.untyped_storage()
    return storage.data_ptr() <= region.origin < storage.data_ptr() + storage.nbytes()


class _Operators(TorchDispatchMode):
    """Names of PyTorch's operators that move or compute data, outside of launches."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and the first call would import all of Dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        result = func(*args, **(kwargs or {}))
        if not self.counter.running and name not in FREE_OPERATORS:
            known = {_storage(x) for x in tree_leaves([args, kwargs]) if _is_tensor(x)}
            made = [x for x in tree_leaves(result) if _is_tensor(x)]
            is_view = (
                made and not func._schema.is_mutable and all(_storage(x) in known for x in made)
            )
            if not is_view:
                self.counter.torch_operators.append(name)
        return result


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


# -- the interpreter ----------------------------------------------------------------------------------


@contextlib.contextmanager
def interpreted(
    module: types.ModuleType | None = None,
    config: Callable[[list[Any]], Any] | None = None,
) -> Iterator[Counter]:
    """Inside, all `@triton.jit` functions run in the interpreter; afterwards all is as it was.

    module: the learner's; it is left without the names that the interpreter puts there.
    config: chooses one of the configurations of an autotuned kernel (without: the first).
    """
    counter = Counter()
    made: dict[int, Any] = {}
    learners = vars(module) if module is not None else {}
    given = set(learners)

    def interpretation(function: Any) -> Any:
        if id(function) not in made:
            made[id(function)] = interpreter.InterpretedFunction(function.fn)
        return made[id(function)]

    def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        return interpretation(self).run(*args, grid=grid, warmup=warmup, **kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return interpretation(self)(*args, **kwargs)

    def run_one(self: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = config(self.configs) if config is not None else self.configs[0]
        self.best_config = chosen
        return self.fn.run(*args, **{**kwargs, **chosen.all_kwargs()})

    executor = interpreter.GridExecutor
    start, to_host = executor.__call__, executor._init_args_hst

    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        counter.launches.append(_launch(self.fn, kwargs))
        counter.running = True
        try:
            return start(self, *args, **kwargs)
        except InterpreterError as error:
            cause: BaseException = error
            while isinstance(cause, InterpreterError) and cause.__cause__ is not None:
                cause = cause.__cause__
            raise cause from None  # what went wrong, with the learner's line
        finally:
            counter.running = False

    def to_the_host(self: Any, args: Any, kwargs: Any) -> Any:
        hosts, by_keyword = to_host(self, args, kwargs)
        named = dict(zip(self.arg_names, zip(args, hosts, strict=False), strict=False))
        named |= {key: (value, by_keyword[key]) for key, value in kwargs.items()}
        counter.open_tensors(named)
        return hosts, by_keyword

    builder = type(interpreter.interpreter_builder)

    def around(name: str, before: Callable[..., None]) -> Any:
        method = getattr(builder, name)

        def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
            before(*args, **kwargs)
            return method(self, *args, **kwargs)

        return mock.patch.object(builder, name, wrapped)

    def dot(a: Any, b: Any, acc: Any, precision: Any, *rest: Any, **named: Any) -> None:
        counter.dot_flops += 2 * a.data.size * b.data.shape[-1]
        told = str(precision).rpartition(".")[2].lower()
        counter.dots.add((a.data.shape[-1], str(a.dtype.scalar), told))

    def grid(*dims: int) -> None:
        counter.launches[-1] |= {"grid": list(dims), "programs": int(np.prod(dims))}

    with contextlib.ExitStack() as stack:
        stack.callback(_forget, made, learners, given)
        stack.enter_context(_language())
        stack.enter_context(_bfloat16())
        stack.enter_context(_undefined_lanes())
        for owner, name, new in (
            (JITFunction, "run", run),
            (JITFunction, "__call__", call),
            (Autotuner, "run", run_one),
            (executor, "__call__", launch),
            (executor, "_init_args_hst", to_the_host),
        ):
            stack.enter_context(mock.patch.object(owner, name, new))
        for name, before in (
            ("create_masked_load", lambda p, m, *_, **__: counter.touch("load", p, m.data)),
            ("create_masked_store", lambda p, v, m, *_, **__: counter.touch("store", p, m.data)),
            ("create_atomic_rmw", lambda o, p, v, m, *_, **__: counter.touch("atomic", p, m.data)),
            ("create_atomic_cas", lambda p, *_, **__: counter.touch("atomic", p, True)),
            ("create_dot", dot),
            ("set_grid_dim", grid),
        ):
            stack.enter_context(around(name, before))
        yield counter


def counted(
    module: types.ModuleType,
    run: Callable[[], Any],
    config: Callable[[list[Any]], Any] | None = None,
    **tensors: Any,
) -> tuple[Any, dict[str, Any]]:
    """`run()` in the interpreter: its result and what was counted.

    tensors: names for the tensors that `run` uses; the result, if it is a tensor, is called "result",
    and any other tensor as the kernel's parameter. The counts:

    launches, programs: how many. kernels: for each launch {"name", "grid", "programs", "options"}.
    load_bytes, store_bytes, atomic_bytes: of all lanes that are not masked off. masked_lanes: of those
    that are. dot_flops: 2·M·N·K of every tl.dot; dots: [K, type of the factors, precision], each kind of
    tl.dot once ("fp32", "ieee"). tensors: for each name {"tensor_bytes", "load_bytes",
    "store_bytes", "distinct_load_bytes", "distinct_store_bytes"}; distinct: each byte once.
    torch_operators: names of PyTorch's operators that ran beside the kernels, without views and empties.
    """
    with interpreted(module, config) as counter, _Operators(counter):
        result = run()
    return result, counter.counts(**tensors, result=result)


def _launch(function: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    options = {
        key: value for key, value in kwargs.items() if type(value) in (bool, int, float, str)
    }
    return {"name": function.__name__, "grid": [], "programs": 0, "options": options}


@contextlib.contextmanager
def _language() -> Iterator[None]:
    """`triton.language` patched for the interpreter once, and not again at every call."""
    owners: dict[int, Any] = {}
    for home in (tl, tl.core):
        owners |= {id(home): home}
        for name in ("math", "tensor", "dtype", "condition", "tensor_descriptor", "constexpr"):
            if hasattr(home, name):
                owners[id(getattr(home, name))] = getattr(home, name)
    if hasattr(tl.core, "tensor_descriptor_base"):
        owners[id(tl.core.tensor_descriptor_base)] = tl.core.tensor_descriptor_base
    before = [(owner, dict(vars(owner))) for owner in owners.values()]
    try:
        holder = types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
        interpreter._patch_lang(holder)
        # Triton 3.6 asks NumPy for the int of an array with one element, which NumPy 2.5 refuses.
        tl.core.tensor.__index__ = lambda self: int(self.handle.data.squeeze())
        scope = types.SimpleNamespace(restore=lambda: None)
        with mock.patch.object(interpreter, "_patch_lang", lambda *_: scope):
            yield
    finally:
        for owner, attributes in before:
            for name, value in list(vars(owner).items()):
                if name not in attributes:
                    delattr(owner, name)
                elif value is not attributes[name]:
                    setattr(owner, name, attributes[name])


@contextlib.contextmanager
def _undefined_lanes() -> Iterator[None]:
    """A lane that is masked off, in a load without `other`, holds nan.

    Triton leaves it undefined, and the interpreter by itself has 0 there: what a GPU may return must not
    change the result.
    """
    builder, load = (
        interpreter.InterpreterBuilder,
        interpreter.InterpreterBuilder.create_masked_load,
    )

    def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        loaded = load(self, ptrs, mask, other, *rest, **named)
        kind = ptrs.get_element_ty()
        is_narrow = kind.is_bf16()  # kept as bits
        if other is None and not np.all(mask.data) and (is_narrow or loaded.data.dtype.kind == "f"):
            nan = np.uint16(0x7FC0) if is_narrow else loaded.data.dtype.type(np.nan)
            loaded.data = np.where(mask.data, loaded.data, nan)
        return loaded

    with mock.patch.object(builder, "create_masked_load", masked_load):
        yield


@contextlib.contextmanager
def _bfloat16() -> Iterator[None]:
    """Arithmetic in bfloat16: computed in float32 and rounded to nearest even, as GPUs do it.

    The interpreter keeps bfloat16 as the bits of an uint16, computes with these, and truncates where
    it converts (triton 3.9, runtime/interpreter.py: `binary_op`, `create_dot`, `cast_impl`).
    """
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle

    def is_narrow(value: Any) -> bool:
        return isinstance(value, handle) and value.dtype.scalar == tl.bfloat16

    def wide(value: Any) -> Any:
        if not is_narrow(value):
            return value
        return handle((value.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def narrow(value: Any) -> Any:
        bits = np.ascontiguousarray(value.data).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
        quiet = (bits >> 16) | np.uint32(0x40)
        out = np.where(np.isnan(value.data), quiet, rounded).astype(np.uint16)
        return handle(out.reshape(value.data.shape), tl.bfloat16)

    def in_float32(name: str) -> Any:
        method = getattr(builder, name)

        def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not any(is_narrow(value) for value in args):
                return method(self, *args, **kwargs)
            with np.errstate(all="ignore"):
                out = method(self, *(wide(value) for value in args), **kwargs)
            is_float = name != "create_dot" and out.data.dtype == np.float32
            return narrow(out) if is_float else out

        return mock.patch.object(builder, name, wrapped)

    cast, add_up = builder.cast_impl, interpreter.ReduceOps.sum

    def cast_impl(self: Any, source: Any, to: Any) -> Any:
        if is_narrow(source) and to.scalar != tl.bfloat16:
            return wide(source) if to.scalar == tl.float32 else cast(self, wide(source), to)
        if to.scalar == tl.bfloat16 and not is_narrow(source):
            is_wide = source.dtype.scalar == tl.float32
            return narrow(source if is_wide else cast(self, source, tl.float32))
        return cast(self, source, to)

    def reduce_sum(self: Any, value: Any) -> Any:
        if value.dtype.scalar != tl.bfloat16:
            return add_up(self, value)
        total = np.sum(wide(value.handle).data, axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(narrow(handle(np.asarray(total), tl.float32)).data, tl.bfloat16)

    with contextlib.ExitStack() as stack:
        for name in ("binary_op", "unary_op", "create_fma", "create_clampf", "create_dot"):
            if hasattr(builder, name):
                stack.enter_context(in_float32(name))
        stack.enter_context(mock.patch.object(builder, "cast_impl", cast_impl))
        stack.enter_context(mock.patch.object(interpreter.ReduceOps, "sum", reduce_sum))
        yield


def _forget(made: dict[int, Any], learners: dict[str, Any], given: set[str]) -> None:
    """Drop what the interpreter rewrote of the learner's file, and what it left in there."""
    for one in made.values():
        if one.fn.__globals__ is learners:
            interpreter.InterpretedFunction.rewritten_fn.pop(one.fn, None)
    for name, value in vars(interpreter).items():
        if name not in given and (learners.get(name) is value or name == "_patch_lang"):
            learners.pop(name, None)
