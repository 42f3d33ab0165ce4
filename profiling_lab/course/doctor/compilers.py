"""The CUDA compiler, and the one of the host that it calls."""

from __future__ import annotations

from pathlib import Path

from profiling_lab import needs
from profiling_lab.course.doctor.item import Item, install
from profiling_lab.course.doctor.machine import Machine


def nvcc_item(
    machine: Machine, path: str | None, version: tuple[str, str], host: tuple[str, str]
) -> Item:
    """nvcc, and whether the compiler that it calls is here."""
    if path is None:
        means = "CUDA tasks are shown as 'not run'."
        do = install(machine, "nvcc") or "Install NVIDIA's CUDA toolkit."
        return Item("nvcc", "missing", "no CUDA compiler", means, do)
    number, trouble = version
    source = "from the project's wheels" if "site-packages" in path else path
    if trouble:
        means = "CUDA tasks cannot be compiled here."
        return Item("nvcc", "limited", f"{source}: {trouble}", means, install(machine, "nvcc"))
    found = f"CUDA {number}, {source}"
    if host[1]:
        return Item("nvcc", "limited", found, "nvcc also needs a C++ compiler for host code.")
    means = "CUDA tasks compile here, with or without a GPU."
    return Item("nvcc", "ok", found, means)


def cxx_item(machine: Machine, path: str | None, version: tuple[str, str]) -> Item:
    """The host's C++ compiler."""
    number, trouble = version
    if path is None or trouble:
        do = needs.CXX.get(machine.platform, "install a C++ compiler")
        found = "no C++ compiler" if path is None else f"{path}: {trouble}"
        means = "CUDA tasks are shown as 'not run'; everything else works."
        return Item("C++ compiler", "missing" if path is None else "limited", found, means, do)
    name = Path(path).name
    return Item("C++ compiler", "ok", f"{name} {number}", "nvcc can compile host code.")
