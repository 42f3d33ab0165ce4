"""What a monitor saw of GPUs: readings, their summary, and the table that it prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from profiling_lab import units

# Bits of nvmlDeviceGetCurrentClocksEventReasons that mean: the clock is below what was asked for.
# "GPU is idle" and clocks set by the user are no limits. Source: nvml.h, nvmlClocksEventReasons.
LIMITS = {
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal (software)",
    0x040: "thermal (hardware)",
    0x080: "power brake",
}
# Shorter than this, few readings fall into the time: the driver renews utilization and average
# power at intervals of up to a second (nvml.h, nvmlDeviceGetUtilizationRates and
# nvmlDeviceGetPowerUsage).
SHORT_S = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one GPU; None stands for what the driver did not give.

    time_s: since the monitor started. utilization_pct: share of the driver's last sample period in
    which any kernel ran. limits: bits of LIMITS.
    """

    time_s: float
    utilization_pct: int | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    limits: int | None = None


@dataclass(frozen=True)
class DeviceSummary:
    """What one GPU did. A figure is None where the driver refused it: `refused` says which and why.

    energy_source: "counter" (the GPU's own energy counter), "power" (power integrated over the
    samples) or None. limited_pct: by reason, the share of samples in which it held the clock down.
    """

    index: int
    name: str
    sample_count: int
    utilization_mean_pct: float | None = None
    utilization_max_pct: int | None = None
    memory_start_bytes: int | None = None
    memory_max_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_mean_w: float | None = None
    power_max_w: float | None = None
    energy_j: float | None = None
    energy_source: str | None = None
    temperature_max_c: int | None = None
    sm_clock_mean_mhz: float | None = None
    limited_pct: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """What a monitor saw. Printed, it is a short table; `to_dict` is for JSON.

    message: what kept the GPUs from being read, "" if nothing did.
    """

    duration_s: float
    interval_s: float
    devices: tuple[DeviceSummary, ...] = ()
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{units.format_ns(self.duration_s * 1e9)} measured"]
        if self.message:
            lines.append(self.message)
        for device in self.devices:
            lines += _device_lines(device)
        if self.devices and self.duration_s < SHORT_S:
            lines.append(
                f"Shorter than {SHORT_S:g} s: the driver renews utilization and power too rarely for"
                " means of so short a time. Run more of the same work."
            )
        return "\n".join(lines)


def _device_lines(device: DeviceSummary) -> list[str]:
    def text(value: float | None, form: str) -> str:
        return units.MISSING if value is None else form.format(value)

    rows = [
        (
            "a kernel ran",
            f"{text(device.utilization_mean_pct, '{:.0f} %')} of the time"
            f" (most {text(device.utilization_max_pct, '{} %')})",
        ),
        (
            "memory in use",
            f"{units.format_bytes(device.memory_max_bytes)} at most, {units.format_bytes(device.memory_start_bytes)}"
            f" at the start, of {units.format_bytes(device.memory_total_bytes)}",
        ),
        (
            "power",
            f"{text(device.power_mean_w, '{:.0f} W')} on average,"
            f" {text(device.power_max_w, '{:.0f} W')} at most",
        ),
        (
            "energy",
            f"{text(device.energy_j, '{:,.1f} J')}"
            + {"counter": " (its own counter)", "power": " (power over time)"}.get(
                device.energy_source or "", ""
            ),
        ),
        (
            "SM clock",
            f"{text(device.sm_clock_mean_mhz, '{:.0f} MHz')} on average,"
            f" {text(device.temperature_max_c, '{} °C')} at most",
        ),
    ]
    held = ", ".join(f"{reason} {share:.0f} %" for reason, share in device.limited_pct.items())
    rows.append(("clock held down", f"{held} of the samples" if held else "not seen"))
    if device.refused:
        names = ", ".join(f"{name} ({why})" for name, why in device.refused.items())
        rows.append(("not to be had", names))
    head = f"GPU {device.index}, {device.name}, {device.sample_count} samples"
    return [head, *(f"  {name:<15} {value}" for name, value in rows)]
