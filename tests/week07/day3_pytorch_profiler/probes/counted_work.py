"""Count what a piece of PyTorch code does, on whatever device: operators, bytes, operations, reads.

Used beside the learner's code, so what it counts is a claim. Numbers are of the CPU's operators; on
a GPU the same code dispatches the same or nearly the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

# Operators whose result, or its shape, depends on numbers in the input: the host must wait for it.
READING = {
    "_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "equal",
    "_unique2", "unique_dim", "unique_consecutive",
}  # fmt: skip
# Calls that read without an operator, where the tensor is on the CPU already.
READING_CALLS = {"tolist", "numpy", "__array__", "cpu"}


def tensors(values: Any) -> list[torch.Tensor]:
    """The tensors in nested lists, tuples and dicts; many times faster than tree_leaves of torch."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, tuple | list):
        return []
    return [tensor for value in values for tensor in tensors(value)]


def storage(tensor: torch.Tensor) -> int:
    """The address of a tensor's memory."""
    return tensor.untyped_storage().data_ptr()


def reads(name: str, args: Any) -> bool:
    """Whether an operator needs numbers of its input on the host."""
    if name == "index":
        return any(index.dtype in (torch.bool, torch.uint8) for index in tensors(args[1:]))
    return name in READING


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators = self.nbytes = 0
        self.reads: list[str] = []
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if reads(name, args):
            self.reads.append(name)
        result = func(*args, **(kwargs or {}))
        given, made = tensors([args, kwargs]), tensors(result)
        known = {storage(tensor) for tensor in given}
        alias = made and all(storage(tensor) in known for tensor in made)
        if made and not (alias and not func._schema.is_mutable):
            self.operators += 1
            self.names.append(name)
            self.nbytes += sum(tensor.numel() * tensor.element_size() for tensor in given + made)
        return result


class _Calls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in READING_CALLS:
            self.reads.append(name)
        return func(*args, **(kwargs or {}))


def count(run: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Run something; its result, and {"operators", "bytes", "flops": numbers, "reads", "names": lists}.

    Views are no operators. Bytes are those of all tensors that operators take and give. reads: names
    of what makes the host wait.
    """
    flops = FlopCounterMode(display=False)
    operators, calls = _Operators(), _Calls()
    with flops, operators, calls:
        result = run()
    return result, {
        "operators": operators.operators,
        "bytes": operators.nbytes,
        "flops": flops.get_total_flops(),
        "reads": operators.reads + calls.reads,
        "names": operators.names,
    }
