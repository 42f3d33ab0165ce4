"""A stand-in for a GPU: tensors that say they are on "cuda", live on the host, and count.

While a `Device` is active, `.to("cuda")` and its relatives give an `OnDevice` tensor, and every
operation on one is counted as started on the device. What is counted is what a real device would be
asked for: copies and their bytes in both directions, waits of the host, operations. Mixing host and
device tensors fails as it does there, and what a copy with `non_blocking=True` brings back is not there
before the host has waited.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

Tensor = torch.Tensor
CUDA, HOST = torch.device("cuda:0"), torch.device("cpu")
DEVICE, IS_CUDA = (vars(torch._C.TensorBase)[name].__get__ for name in ("device", "is_cuda"))
READS = {
    *(Tensor.item, Tensor.tolist, Tensor.__bool__, Tensor.__int__, Tensor.__float__),
    *(Tensor.__index__, Tensor.__repr__, Tensor.__format__, Tensor.__contains__),
    *(torch.equal, Tensor.equal, torch.allclose, Tensor.allclose, torch.is_nonzero),
}
MAKERS = {
    *(torch.tensor, torch.as_tensor, torch.asarray),
    *(torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.linspace),
    *(torch.rand, torch.randn, torch.randint, torch.eye),
    *(torch.empty_like, torch.zeros_like, torch.ones_like, torch.full_like),
    *(Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full, Tensor.new_tensor),
}
FROM_HOST = {torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor}
SIZE_UNKNOWN = {"nonzero", "masked_select", "unique_dim", "_unique2", "unique_consecutive"}
NO_WORK = {
    "empty",
    "empty_like",
    "empty_strided",
    "detach",
    "_unsafe_view",
    "lift_fresh",
    "new_empty",
}


class OnDevice(torch.Tensor):
    """A tensor of the stand-in."""


class _Operations(TorchDispatchMode):
    """Counts operations that do work, below composite functions."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        name = func._schema.name.partition("::")[2]
        returns = func._schema.returns
        is_view = bool(returns) and returns[0].alias_info and not returns[0].alias_info.is_write
        if name in SIZE_UNKNOWN or name == "_local_scalar_dense" or _index_by_mask(name, args):
            self.device.wait()
        if not is_view and name not in NO_WORK:
            self.device.counts["operations"] += 1
        return func(*args, **(kwargs or {}))


def _index_by_mask(name: str, args: tuple) -> bool:
    places = args[1] if name in ("index", "index_put", "index_put_") else None
    return any(
        isinstance(place, Tensor) and place.dtype in (torch.bool, torch.uint8)
        for place in places or ()
    )


class Device(TorchFunctionMode):
    """The stand-in; active inside `with`. counts: what it was asked for since it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = dict.fromkeys(
            ("to_device", "to_device_bytes", "to_host", "to_host_bytes", "waits", "operations"), 0
        )
        self.pinned: dict[int, Tensor] = {}  # by the address of the storage, which views share
        self.in_flight: list[Callable[[], object]] = []
        self._operations = _Operations(self)

    # -- what a device does -----------------------------------------------------------------------

    def wait(self) -> None:
        """The host waits until the device has done everything."""
        self.counts["waits"] += 1
        for finish in self.in_flight:
            finish()
        self.in_flight.clear()

    def send(self, tensor: Tensor) -> OnDevice:
        """A copy of a host tensor on the device."""
        self.counts["to_device"] += 1
        self.counts["to_device_bytes"] += tensor.numel() * tensor.element_size()
        return tensor.detach().clone().as_subclass(OnDevice)

    def fetch(self, tensor: OnDevice, non_blocking: bool = False) -> Tensor:
        """A copy of a device tensor on the host."""
        self.counts["to_host"] += 1
        self.counts["to_host_bytes"] += tensor.numel() * tensor.element_size()
        whole = tensor.as_subclass(Tensor).clone()
        if not non_blocking:
            self.wait()
            return whole
        there = torch.zeros_like(whole)
        self.in_flight.append(lambda: there.copy_(whole))
        return there

    @contextlib.contextmanager
    def active(self) -> Iterator[Device]:
        """Install it, with the few functions of torch.cuda that a simple program calls."""
        stream = types.SimpleNamespace(synchronize=self.wait)
        with (
            mock.patch.object(torch.cuda, "synchronize", lambda device=None: self.wait()),
            mock.patch.object(torch.cuda, "current_stream", lambda device=None: stream),
            mock.patch.object(torch.cuda, "is_available", lambda: True),
            self,
        ):
            yield self

    # -- what is asked ----------------------------------------------------------------------------

    def __torch_function__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204
        kwargs = dict(kwargs or {})
        args: tuple = tuple(args)
        given = _tensors((args, kwargs))
        on_device = any(isinstance(x, OnDevice) for x in given)
        if func == DEVICE:  # a new object each time, from torch 2.15 on
            return CUDA if on_device else HOST
        if func == IS_CUDA:
            return on_device
        if func in (Tensor.pin_memory, Tensor.is_pinned):
            return self._pin(func, args[0])
        if func in (Tensor.to, Tensor.cuda, Tensor.cpu):
            return self._to(func, args, kwargs)
        if func is Tensor.copy_:
            return self._copy(*args, **kwargs)
        if func in MAKERS:
            return self._make(func, args, kwargs, on_device)
        if not on_device:
            return func(*args, **kwargs)
        if func in READS:
            read = next(x for x in given if isinstance(x, OnDevice))
            self.counts["to_host"] += 1
            self.counts["to_host_bytes"] += read.numel() * read.element_size()
            self.wait()
            return func(*_plain(args), **_plain(kwargs))
        if func in (Tensor.numpy, Tensor.__array__):
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
                "to host memory first."
            )
        return self._compute(func, args, kwargs, given)

    def _compute(self, func: Any, args: tuple, kwargs: dict, given: list[Tensor]) -> Any:
        indexing = func in (Tensor.__getitem__, Tensor.__setitem__)
        for tensor in given:
            if isinstance(tensor, OnDevice) or tensor.dim() == 0:
                continue
            if not indexing:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    "cuda:0 and cpu!"
                )
            self.send(tensor)  # an index from the host is copied
        with self._operations:
            result = func(*_plain(args), **_plain(kwargs))
        return _wrapped(result)

    def _pin(self, func: Any, tensor: Tensor) -> Any:
        if func is Tensor.is_pinned:
            return _storage(tensor) in self.pinned
        pinned = tensor.clone()
        self.pinned[_storage(pinned)] = pinned
        return pinned

    def _to(self, func: Any, args: tuple, kwargs: dict) -> Tensor:
        tensor, *rest = args
        if func is Tensor.cuda:
            device, dtype, non_blocking = CUDA, None, bool(kwargs.get("non_blocking"))
        elif func is Tensor.cpu:
            device, dtype, non_blocking = HOST, None, False
        elif rest and isinstance(rest[0], Tensor):
            other = rest[0]
            device = CUDA if isinstance(other, OnDevice) else HOST
            dtype, non_blocking = other.dtype, bool(kwargs.get("non_blocking"))
        else:
            kwargs.pop("copy", None)
            device, dtype, non_blocking, _ = torch._C._nn._parse_to(*rest, **kwargs)
        there = isinstance(tensor, OnDevice)
        target = there if device is None else device.type == "cuda"
        if target and not there:  # a change of type is done on the host
            return self.send(tensor.to(dtype) if dtype else tensor)
        if there and not target:
            found = self.fetch(tensor, non_blocking)
            return found.to(dtype) if dtype else found
        if dtype is None or dtype == tensor.dtype:
            return tensor
        if not there:
            return tensor.to(dtype)
        return self._compute(Tensor.to, (tensor, dtype), {}, [tensor])

    def _copy(self, into: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        there, from_there = isinstance(into, OnDevice), isinstance(source, OnDevice)
        if there == from_there:
            if there:
                return self._compute(Tensor.copy_, (into, source), {}, [into, source])
            return into.copy_(source)
        if there:
            into.as_subclass(Tensor).copy_(self.send(source.to(into.dtype)).as_subclass(Tensor))
            return into
        whole = source.as_subclass(Tensor).clone()
        self.counts["to_host"] += 1
        self.counts["to_host_bytes"] += whole.numel() * whole.element_size()
        if non_blocking and _storage(into) in self.pinned:
            self.in_flight.append(lambda: into.copy_(whole))
        else:
            self.wait()
            into.copy_(whole)
        return into

    def _make(self, func: Any, args: tuple, kwargs: dict, on_device: bool) -> Tensor:
        asked = kwargs.pop("device", None)
        pin = kwargs.pop("pin_memory", False)
        target = on_device if asked is None else torch.device(asked).type == "cuda"
        if target and not (on_device and func not in FROM_HOST):
            made = func(*_plain(args), **_plain(kwargs))
            if func in FROM_HOST:
                return self.send(made)
            self.counts["operations"] += func is not torch.empty
            return made.as_subclass(OnDevice)
        if target:
            with self._operations:
                return _wrapped(func(*_plain(args), **_plain(kwargs)))
        made = func(*_plain(args), **_plain(kwargs))
        if pin:
            self.pinned[_storage(made)] = made
        return made


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(values: Any) -> list[Tensor]:
    """The tensors in nested lists, tuples and dicts; many times faster than tree_leaves of torch."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, tuple | list):
        return []
    return [tensor for value in values for tensor in _tensors(value)]


def _mapped(change: Callable[[Tensor], Tensor], values: Any) -> Any:
    """Values with their tensors changed; as tree_map_only of torch, which takes many times as long."""
    if isinstance(values, Tensor):
        return change(values)
    if type(values) in (tuple, list):
        return type(values)(_mapped(change, value) for value in values)
    if type(values) is dict:
        return {key: _mapped(change, value) for key, value in values.items()}
    if isinstance(values, tuple | list | dict):
        return _pytree.tree_map_only(Tensor, change, values)
    return values


def _plain(values: Any) -> Any:
    return _mapped(lambda x: x.as_subclass(Tensor) if isinstance(x, OnDevice) else x, values)


def _wrapped(values: Any) -> Any:
    return _mapped(lambda x: x if isinstance(x, OnDevice) else x.as_subclass(OnDevice), values)


def put_on_device(module: torch.nn.Module) -> None:
    """The parameters and buffers of a module onto the stand-in; nothing is counted."""
    for part in module.modules():
        kept: tuple[dict[str, Any], ...] = (part._parameters, part._buffers)
        for own in kept:
            for name, tensor in own.items():
                if tensor is not None:
                    moved = tensor.detach().as_subclass(OnDevice)
                    own[name] = moved.requires_grad_(tensor.requires_grad)
