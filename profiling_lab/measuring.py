"""What Lab 05 provides for its tasks: checks of arguments, nested results, memory, and the roofs of this machine.

    >>> from profiling_lab import measuring
    >>> measuring.leaves({"loss": 1, "grads": [2, (3,)]})
    [1, 2, 3]

Nothing here times a call or judges a profile, because that is the learner's task. torch is imported where it is needed.
"""

from __future__ import annotations

import collections.abc
import inspect
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from profiling_lab import devices

if TYPE_CHECKING:
    from torch import Tensor


def check_counts(**counts: int) -> None:
    """Raise ValueError, naming the argument, unless each count is an int of at least 1."""
    for name, value in counts.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is {value!r}: a whole number of at least 1 is needed")


def check_call(fn: Any, args: Any) -> None:
    """Raise TypeError unless fn can be called with args."""
    if not callable(fn):
        raise TypeError(f"{fn!r} cannot be called: pass the function, not its result")
    if not isinstance(args, tuple | list):
        raise TypeError(f"args is a {type(args).__name__}: a tuple or list is needed, such as (x,)")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins do not tell
        return
    try:
        signature.bind(*args)
    except TypeError as error:
        raise TypeError(f"fn{signature} does not take {len(args)} arguments: {error}") from None


def refuse_lazy(result: Any) -> None:
    """Raise TypeError if a result has not been computed yet."""
    if isinstance(result, collections.abc.Iterator | collections.abc.Awaitable):
        raise TypeError(
            f"fn returned a {type(result).__name__}, which has computed nothing yet: "
            "consume it inside fn"
        )


def check_layer(dtype: str, d_model: int, num_heads: int, **counts: int) -> str:
    """torch's name of a data type, if all of a layer's sizes and counts are valid.

    Raises ValueError if a count is not an int of at least 1, if the heads do not divide d_model, or if torch has no
    tensors of the data type ("tfloat32"); DeviceError for an unknown data type.
    """
    import torch

    check_counts(d_model=d_model, num_heads=num_heads, **counts)
    if d_model % num_heads:
        raise ValueError(f"d_model is {d_model}, which {num_heads} heads do not divide")
    name = devices.dtype(dtype).name
    if not isinstance(getattr(torch, name, None), torch.dtype):
        raise ValueError(f"dtype is {dtype!r}, of which torch has no tensors")
    return name


def check_profile(profile: dict[str, Any]) -> list[dict[str, Any]]:
    """The components of a profile, if it has everything that is needed and its numbers are valid."""
    needed = ("device", "dtype", "batch", "seq_len", "d_model", "num_heads", "components")
    missing = [key for key in (*needed, "whole_s", "call_floor_s") if key not in profile]
    if missing:
        raise ValueError(f"the profile lacks {', '.join(missing)}")
    if not profile["components"]:
        raise ValueError("the profile has no components")
    numbers = [("the profile", key, profile[key]) for key in ("whole_s", "call_floor_s")]
    for part in profile["components"]:
        for key in ("name", "time_s", "flops", "bytes"):
            if key not in part:
                raise ValueError(f"component {part.get('name')!r} lacks {key}")
        numbers += [(part["name"], key, part[key]) for key in ("time_s", "flops", "bytes")]
    for owner, key, value in numbers:
        if not value > 0:
            raise ValueError(f"{owner}: {key} is {value!r}, which is not above 0")
    return profile["components"]


def check_attention(q: Tensor, k: Tensor, v: Tensor, level: int) -> None:
    """Raise TypeError if the level is not an int, ValueError if it is not 0 to 4 or if the tensors do not fit.

    They need four dimensions, one floating-point data type and one device; only the number of tokens of Q may differ.
    """
    if type(level) is not int:
        raise TypeError(f"optimization_level is {level!r}: a whole number is needed")
    if level not in range(5):
        raise ValueError(f"optimization_level is {level}: levels are 0 to 4")
    for name, tensor in (("Q", q), ("K", k), ("V", v)):
        if tensor.dim() != 4:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}: (batch, heads, tokens, head_dim) is needed"
            )
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device}, Q {q.dtype} on {q.device}"
            )
    if not q.is_floating_point():
        raise ValueError(f"Q, K and V are {q.dtype}: a floating-point type is needed")
    if k.shape != v.shape:
        raise ValueError(f"K has shape {tuple(k.shape)}, V {tuple(v.shape)}: they must agree")
    if q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"Q has shape {tuple(q.shape)}, K {tuple(k.shape)}: only the tokens may differ"
        )


def leaves(value: Any) -> list[Any]:
    """The contents of nested dicts, lists and tuples, in their order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]


def on_cuda(value: Any) -> bool:
    """Whether this is a tensor of PyTorch on a CUDA device."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.is_cuda


def wait_for(args: Any, result: Any) -> None:
    """Wait for all work that was issued, by PyTorch or by JAX.

    JAX: wait for every array of the result (anything that has `block_until_ready`). PyTorch on CUDA: wait for each device
    that has a tensor of the arguments or of the result, and for the current one if this process has used CUDA at all.
    Tensors and arrays may be anywhere in nested lists, tuples and dicts. Otherwise there is nothing to wait for.
    """
    for leaf in leaves(result):
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    torch = sys.modules.get("torch")
    if torch is not None:
        for device in {tensor.device for tensor in filter(on_cuda, leaves([args, result]))}:
            torch.cuda.synchronize(device)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()


def known_device(
    profile: dict[str, Any], device: str | devices.Device | None = None
) -> devices.Device:
    """The device with which to compare a profile: the given one (a name or a Device), else the profile's own."""
    if isinstance(device, devices.Device):
        return device
    return devices.get(profile["device"] if device is None else device)


def device_name(device: str) -> str:
    """The driver's name of a CUDA device; the CPU keeps its name."""
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def with_room(call: Callable[[], Any], what: str) -> Any:
    """The result of call(). Raises MemoryError if the device has too little memory; then nothing of the call is kept.

    The message is `what` and PyTorch's own words. They say how much was asked for and, on CUDA, how much was free.
    """
    import torch

    try:
        return call()
    except RuntimeError as error:  # torch.OutOfMemoryError is one; the CPU's allocator has no own
        said = str(error)
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in said:
            raise
    # Raised out here: an exception raised above would hold the first one, whose traceback holds
    # the frames of the call and all of their tensors.
    torch.cuda.empty_cache()  # does nothing where CUDA was not used
    raise MemoryError(f"{what}: {said}")


BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")


def pinned(backend: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """scaled_dot_product_attention with only one of BACKENDS allowed, during this call only.

    Raises RuntimeError if the backend does not exist for these tensors; the message names backend, data type, device and
    shape.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    try:
        with sdpa_kernel(getattr(SDPBackend, backend)), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backend that does not exist says why, at length
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise RuntimeError(
            f"no {backend} for {q.dtype} on {q.device}, shape {tuple(q.shape)}: {error}"
        ) from error


def meter(device: str) -> Any:
    """A context manager that measures what a call allocates on "cpu", "cuda", "cuda:1" …

    `allocated_bytes()`, called inside it: what is allocated beyond the amount on entry. `peak_bytes`, read after it: the
    largest such amount at any moment. Meters may be nested. A call that raises leaves nothing behind.
    CUDA: it counts what torch's allocator hands out, in that allocator's steps, including the temporary memory of operators.
    CPU: it counts the storages of all tensors that operators make, each once, in full, as long as it exists. A view or an
    in-place result has no storage of its own. It does not see when memory that existed before is freed.

    Raises ValueError for another device.
    """
    if device != "cpu" and not device.startswith("cuda"):
        raise ValueError(f"device is {device!r}: 'cpu', 'cuda' or 'cuda:<number>' is needed")
    return _cpu_meter() if device == "cpu" else _CudaMeter(device)


class _CudaMeter:
    """What one call allocates on a CUDA device. The driver keeps only one peak for all calls."""

    _open: ClassVar[list[_CudaMeter]] = []

    def __init__(self, device: str) -> None:
        self._device = device
        self._before = 0
        self._most = 0
        self.peak_bytes = 0

    def __enter__(self) -> _CudaMeter:
        import torch

        torch.cuda.synchronize(self._device)
        self._note_peak()
        torch.cuda.reset_peak_memory_stats(self._device)
        self._before = self._most = torch.cuda.memory_allocated(self._device)
        self._open.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        import torch

        torch.cuda.synchronize(self._device)
        self._note_peak()
        self._open.remove(self)
        self.peak_bytes = self._most - self._before

    def _note_peak(self) -> None:
        """Note the peak so far for every call that is being measured, each on its own device."""
        import torch

        for meter in self._open:
            meter._most = max(meter._most, torch.cuda.max_memory_allocated(meter._device))

    def allocated_bytes(self) -> int:
        import torch

        return torch.cuda.memory_allocated(self._device) - self._before


def _cpu_meter() -> Any:
    """The same for the CPU: a mode that sees every operator."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class CpuMeter(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self._made: dict[int, weakref.ref[Any]] = {}
            self.peak_bytes = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return (
                False  # else the first operator imports all of torch.compile, which takes seconds
            )

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            given = {id(storage) for storage in _storages([args, kwargs])}
            result = func(*args, **kwargs)
            for storage in _storages(result):
                if id(storage) not in given:
                    self._made[id(storage)] = weakref.ref(storage)
            self.peak_bytes = max(self.peak_bytes, self.allocated_bytes())
            return result

        def allocated_bytes(self) -> int:
            alive = {key: ref() for key, ref in self._made.items()}
            self._made = {key: self._made[key] for key, it in alive.items() if it is not None}
            return sum(storage.nbytes() for storage in alive.values() if storage is not None)

    return CpuMeter()


def _storages(value: Any) -> list[Any]:
    import torch

    return [leaf.untyped_storage() for leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


# -- the roofs of this machine --------------------------------------------------------------------

PRODUCT_SIZES = (512, 1024, 2048)
COPY_BYTES = 128 * 2**20  # of each of two tensors: more than the caches of most machines hold
TRIES = 5


def measured_device(dtype: str = "float32", device: str = "cpu") -> devices.Device:
    """This machine as a `devices.Device`: the best product and the best copy seen now, instead of a maker's figures.

    dtype: the data type of the product; a peak is known only for this one. Such a roof is a lower bound of the true one,
    so a part may be slightly above it. The measurement takes a second or two on a CPU.
    """
    import torch

    name = devices.dtype(dtype).name
    options: dict[str, Any] = {"dtype": getattr(torch, name), "device": device}
    with torch.no_grad():
        peak = max(
            2 * n**3 / _best_s(lambda a, b: a @ b, torch.randn(n, n, **options), torch.randn(n, n, **options))
            for n in PRODUCT_SIZES
        )  # fmt: skip
        source = torch.ones(COPY_BYTES, dtype=torch.uint8, device=device)
        bandwidth = (
            2 * COPY_BYTES / _best_s(lambda a, b: a.copy_(b), torch.empty_like(source), source)
        )
    return devices.Device(
        name=f"this machine ({device_name(device)}), measured",
        compute_capability="",
        memory_bandwidth_bytes_per_s=bandwidth,
        peak_flops_per_s={name: peak},
        memory_bytes=0,
        sources={"peak_flops_per_s": "products of square matrices, timed now", "memory_bandwidth_bytes_per_s": "a copy"},
    )  # fmt: skip


def _best_s(work: Callable[..., Any], *tensors: Any) -> float:
    """The shortest time of some calls in seconds, with a wait after each."""
    import torch

    found = []
    for _ in range(TRIES + 1):
        start = time.perf_counter()
        work(*tensors)
        if on_cuda(tensors[0]):
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return min(found[1:])  # the first one warms up
