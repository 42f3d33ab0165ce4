"""What makers state about their GPUs: peak rates, bandwidth, sizes, each with its source.

    >>> from profiling_lab import devices
    >>> devices.get("H200").memory_bandwidth_bytes_per_s
    4800000000000.0
    >>> devices.get("NVIDIA H200").peak("bf16")
    989000000000000.0

The figures stand in `devices.toml`, dense and without sparsity. They are ceilings: what a good
copy or a good matrix product reaches is less. A figure on which the documents disagree is missing
here (see `Device.unsure`), so that nothing is computed from it by accident.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from profiling_lab.errors import LabError

FILE = Path(__file__).with_name("devices.toml")


class DeviceError(LabError):
    """No such device or data type, or no sure figure of it; the message lists the known ones."""


@dataclass(frozen=True)
class DType:
    """A data type of tensors: its size in memory in bytes, and what else it is called."""

    name: str
    bytes: int
    aliases: tuple[str, ...] = ()


# tfloat32 is float32 in memory: only the tensor cores round it. float8 stands for both layouts.
DTYPES: dict[str, DType] = {
    kind.name: kind
    for kind in (
        DType("float64", 8, ("fp64", "double")),
        DType("float32", 4, ("fp32", "float", "single")),
        DType("tfloat32", 4, ("tf32",)),
        DType("bfloat16", 2, ("bf16",)),
        DType("float16", 2, ("fp16", "half")),
        DType("float8", 1, ("fp8", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2")),
        DType("int8", 1, ()),
    )
}


def dtype(name: object) -> DType:
    """The data type of a name or alias: "bf16", "bfloat16", "torch.bfloat16", torch.bfloat16.

    Raises DeviceError, listing the known ones.
    """
    found = _dtypes().get(_key(str(name).removeprefix("torch.")))
    if found is None:
        raise DeviceError(f"unknown data type {name!s}; known: {', '.join(DTYPES)}")
    return found


@dataclass(frozen=True)
class Device:
    """One device, as its maker describes it.

    name, aliases: what to call it; drivers' names ("NVIDIA H200") are among the aliases.
    compute_capability: "9.0".
    memory_bandwidth_bytes_per_s: peak of the device's memory, reads and writes together.
    peak_flops_per_s: name of a data type to the dense peak of the fastest unit for it: tensor cores
        from "tfloat32" down, CUDA cores for "float32".
    l2_bytes, sm_count: None where no sure figure is known.
    memory_bytes: nominal capacity.
    host_link_bytes_per_s: peak of the link to the host, in one direction; None where no sure figure is known.
    sources: field (or "peak_flops_per_s.<dtype>") to document, place in it and address.
    unsure: field to the reason why no figure of it is given.
    compared: whether lessons that put several devices side by side show it.
    """

    name: str
    compute_capability: str
    memory_bandwidth_bytes_per_s: float
    peak_flops_per_s: dict[str, float]
    memory_bytes: int
    l2_bytes: int | None = None
    sm_count: int | None = None
    host_link_bytes_per_s: float | None = None
    aliases: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    unsure: dict[str, str] = field(default_factory=dict)
    compared: bool = False

    def peak(self, data_type: object) -> float:
        """Dense peak in operations per second for a data type, by name or alias.

        Raises DeviceError for an unknown type, and for one of which no sure peak is known here; the
        message lists the types that have one.
        """
        name = dtype(data_type).name
        if name in self.peak_flops_per_s:
            return self.peak_flops_per_s[name]
        why = self.unsure.get(f"peak_flops_per_s.{name}")
        raise DeviceError(
            f"{self.name}: no peak for {name}{f' ({why})' if why else ''};"
            f" known: {', '.join(self.peak_flops_per_s)}"
        )


def names() -> list[str]:
    """The names of the known devices, in the file's order (by architecture)."""
    return list(_devices())


def get(name: str) -> Device:
    """A device by its name or alias; upper and lower case, spaces and hyphens do not matter.

    Raises DeviceError for an unknown name, for a family that has several members ("A100": their
    bandwidths differ) and for a device of which too little is sure; the message lists what is known.
    """
    if not isinstance(name, str):
        raise DeviceError(f"a device is named by text, not {type(name).__name__}; {_known()}")
    key = _key(name)
    if found := _by_key().get(key):
        return found
    for unsure, table in _file().get("unsure", {}).items():
        if key in {_key(unsure), *map(_key, table.get("aliases", ()))}:
            why = "; ".join(f"{what}: {text}" for what, text in table.items() if what != "aliases")
            raise DeviceError(f"{unsure}: its figures are not settled ({why}); {_known()}")
    family = [known for known in _devices() if _key(known).startswith(key)] if key else []
    if len(family) > 1:
        raise DeviceError(f"{name}: which one? {', '.join(family)} differ")
    close = difflib.get_close_matches(name, _devices(), n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise DeviceError(f"unknown device {name!r}; {hint}{_known()}")


def host_link_bytes_per_s(name: str) -> float:
    """The peak of a device's link to its host, in one direction; of an unknown one the least that is known."""
    try:
        found = get(name).host_link_bytes_per_s
    except DeviceError:
        found = None
    return found or min(
        d.host_link_bytes_per_s for d in _devices().values() if d.host_link_bytes_per_s
    )


def _known() -> str:
    return f"known: {', '.join(_devices())}"


def _key(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


@cache
def _dtypes() -> dict[str, DType]:
    return {_key(name): kind for kind in DTYPES.values() for name in (kind.name, *kind.aliases)}


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def _devices() -> dict[str, Device]:
    table = _file()
    documents = table["documents"]

    def source(document: str, place: str) -> str:
        return f"{documents[document]['title']}: {place}; {documents[document]['url']}"

    return {
        name: Device(
            name=name,
            compute_capability=row["compute_capability"],
            memory_bandwidth_bytes_per_s=row["memory_bandwidth_bytes_per_s"],
            peak_flops_per_s=dict(row["peak_flops_per_s"]),
            memory_bytes=row["memory_bytes"],
            l2_bytes=row.get("l2_bytes"),
            sm_count=row.get("sm_count"),
            host_link_bytes_per_s=row.get("host_link_bytes_per_s"),
            aliases=tuple(row["aliases"]),
            sources={what: source(*where) for what, where in row["sources"].items()},
            unsure=dict(row.get("unsure", {})),
            compared=row.get("compared", False),
        )
        for name, row in table["devices"].items()
    }


@cache
def _by_key() -> dict[str, Device]:
    return {
        _key(name): device
        for device in _devices().values()
        for name in (device.name, *device.aliases)
    }
