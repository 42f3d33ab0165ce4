"""Roofs and points: what a plot of a roofline is made of."""

from __future__ import annotations

from dataclasses import dataclass

from profiling_lab import devices


@dataclass(frozen=True)
class Roof:
    """What one device can reach in one data type."""

    device: str
    dtype: str
    bytes_per_s: float
    flops_per_s: float

    @property
    def corner(self) -> float:
        """Where its two parts meet, in operations per byte."""
        return self.flops_per_s / self.bytes_per_s


@dataclass(frozen=True)
class Point:
    """Work that was measured or predicted.

    intensity: operations per byte; flops_per_s: operations per second. kind: points of one kind look
    alike, and a legend names the kinds if there are several.
    """

    name: str
    intensity: float
    flops_per_s: float
    kind: str = "measured"


def roof(device: str, dtype: object) -> Roof:
    """The roof of a device for a data type. Raises DeviceError for what the table does not know."""
    found = devices.get(device)
    name = devices.dtype(dtype).name
    return Roof(found.name, name, found.memory_bandwidth_bytes_per_s, found.peak(name))


_RATES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def format_flops_per_s(value: float) -> str:
    """A rate as text: `format_flops_per_s(66.9e12)` is "66.9 TFLOP/s"."""
    scale, unit = next(
        (step for step in _RATES if value >= step[0]),
        (1.0, ""),
    )
    return f"{value / scale:.3g} {unit}FLOP/s"
