"""Nsight Systems and Nsight Compute."""

from __future__ import annotations

from profiling_lab.course.doctor.capabilities import counters_readable
from profiling_lab.course.doctor.gpus import Driver
from profiling_lab.course.doctor.item import Item
from profiling_lab.course.doctor.machine import Machine

PERMISSION_PAGE = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"


def nsys_item(machine: Machine, path: str | None, version: tuple[str, str], driver: Driver) -> Item:
    """Nsight Systems, and whether it can turn a recording into a report."""
    number, trouble = version
    shipped = "The shipped recordings open without it"
    if path is None:
        return Item(
            "nsys",
            "missing",
            "Nsight Systems is not installed",
            f"{shipped}; recording a program of your own needs it, on a machine with a GPU.",
            "https://developer.nvidia.com/nsight-systems" if driver.gpus else "",
        )
    inside = " (inside Nsight Compute)" if "nsight-compute" in path else ""
    if trouble:
        return Item("nsys", "limited", f"{path}: {trouble}", f"{shipped}; recording will not work.")
    found = f"Nsight Systems {number}{inside}"
    if inside:
        found += f", {path}"
    if trouble := machine.importer_trouble(path):
        means = f"It records, but cannot turn a recording into a report. {shipped}."
        return Item("nsys", "limited", found, means, f"{trouble[0].upper()}{trouble[1:]}.")
    if driver.gpus:
        return Item("nsys", "ok", found, "You can record your own programs.")
    return Item(
        "nsys",
        "ok",
        found,
        f"{shipped}; yours exports and summarises reports. There is no GPU to record here.",
    )


def ncu_item(machine: Machine, path: str | None, version: tuple[str, str], driver: Driver) -> Item:
    """Nsight Compute, and whether it may read counters."""
    number, trouble = version
    shipped = "Recorded work does not need it"
    if path is None:
        return Item(
            "ncu",
            "missing",
            "Nsight Compute is not installed",
            f"{shipped}; measuring kernels of your own needs it, on a machine with a GPU.",
            "https://developer.nvidia.com/nsight-compute" if driver.gpus else "",
        )
    if trouble:
        return Item("ncu", "limited", f"{path}: {trouble}", f"{shipped}; measuring will not work.")
    found = f"Nsight Compute {number}"
    if not driver.gpus:
        return Item("ncu", "ok", found, f"{shipped}. There is no GPU to measure here.")
    allowed = counters_readable(machine)
    if allowed:
        return Item(
            "ncu", "ok", f"{found}; counters may be read", "You can measure your own kernels."
        )
    if allowed is None:
        return Item(
            "ncu",
            "unknown",
            f"{found}; whether counters may be read is not known",
            "ncu will say ERR_NVGPUCTRPERM if they may not.",
            f"If it does, see {PERMISSION_PAGE}",
        )
    return Item(
        "ncu",
        "limited",
        f"{found}; the driver lets only administrators read counters",
        f"ncu will stop with ERR_NVGPUCTRPERM. {shipped}; nsys works without counters.",
        f"Run it as administrator, in a container with --cap-add=SYS_ADMIN, or let the "
        f"administrator open the counters to all: {PERMISSION_PAGE}",
    )
