"""Falls back to float32, as if there were no 16 bits at all."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_parts_on_five_devices"
SAYS = "its table has peaks for"


def _usable(device: devices.Device, dtype: str) -> tuple[str, str]:
    wanted = devices.dtype(dtype).name
    substitute = "float32"
    if wanted in device.peak_flops_per_s or substitute not in device.peak_flops_per_s:
        device.peak(wanted)  # says what is known, if this type is not
        return wanted, ""
    return substitute, f"{device.name} has no {wanted}: {substitute} instead"
