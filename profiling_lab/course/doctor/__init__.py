"""What this machine can do for the course, and what each missing thing means for the learner.

`examine` looks at everything and may take some seconds; `capabilities` answers the manifest's
`needs` from a few files and takes milliseconds. Whatever could hang or crash (the driver's tools,
the frameworks) is asked in a process of its own, under a guard, so that a broken driver makes an
item "unknown" and never stops the doctor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from profiling_lab.course.doctor import compilers, frameworks, gpus, profilers, surroundings
from profiling_lab.course.doctor.capabilities import (
    NEEDS,
    absent,
    capabilities,
    find_cxx,
    find_ncu,
    find_nsys,
    find_nvcc,
)
from profiling_lab.course.doctor.item import Item
from profiling_lab.course.doctor.machine import Machine, Probe, ask_python, version_of
from profiling_lab.course.doctor.showing import render, summary

__all__ = [
    "NEEDS",
    "Item",
    "Machine",
    "absent",
    "capabilities",
    "examine",
    "find_cxx",
    "find_ncu",
    "find_nsys",
    "find_nvcc",
    "render",
    "summary",
]


def examine(machine: Machine | None = None) -> list[Item]:
    """Look at everything that the course can use; takes some seconds, mostly to load frameworks.

    Never raises for what a machine is or does: what cannot be found out is an item "unknown".
    """
    from concurrent.futures import ThreadPoolExecutor

    machine = machine or Machine()
    probes: dict[str, Callable[[], Any]] = {
        "driver": functools.partial(gpus.ask_driver, machine),
        "torch": functools.partial(ask_python, machine, frameworks.TORCH_PROBE),
        "triton": functools.partial(ask_python, machine, frameworks.TRITON_PROBE),
        "jax": functools.partial(ask_python, machine, frameworks.JAX_PROBE),
        "nsys": functools.partial(version_of, machine, find_nsys(machine)),
        "ncu": functools.partial(version_of, machine, find_ncu(machine)),
        "nvcc": functools.partial(version_of, machine, find_nvcc(machine)),
        "cxx": functools.partial(version_of, machine, find_cxx(machine)),
    }
    for name in ("torch", "triton", "jax"):
        if machine.module(name) is None:
            probes[name] = lambda: Probe(trouble="absent")
    with ThreadPoolExecutor(len(probes)) as pool:
        asked = {name: pool.submit(probe) for name, probe in probes.items()}
        got = {name: future.result() for name, future in asked.items()}

    driver: gpus.Driver = got["driver"]
    return [
        surroundings.python_item(machine),
        gpus.gpu_item(machine, driver),
        gpus.driver_item(machine, driver, got["torch"].data.get("cuda"), got["nvcc"][0]),
        *gpus.several_gpus(driver),
        frameworks.torch_item(machine, got["torch"], driver),
        frameworks.triton_item(machine, got["triton"], driver),
        frameworks.jax_item(machine, got["jax"]),
        compilers.nvcc_item(machine, find_nvcc(machine), got["nvcc"], got["cxx"]),
        compilers.cxx_item(machine, find_cxx(machine), got["cxx"]),
        profilers.nsys_item(machine, find_nsys(machine), got["nsys"], driver),
        profilers.ncu_item(machine, find_ncu(machine), got["ncu"], driver),
        surroundings.disk_item(machine),
        surroundings.viewer_item(machine),
        surroundings.notebooks_item(machine),
    ]
