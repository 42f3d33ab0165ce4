"""What this machine has, told by its files alone: cheap, for the manifest's `needs`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Collection, Iterable, Sequence

from profiling_lab.course.doctor.machine import Machine, version_order
from profiling_lab.record.tools import NSYS_PLACES

_NSYS_ON_WINDOWS = "Program Files/NVIDIA Corporation/Nsight Systems */target-windows-x64/nsys.exe"
_NCU_PLACES = (
    "usr/local/cuda*/bin/ncu",
    "opt/nvidia/nsight-compute/*/ncu",
    "usr/local/cuda*/nsight-compute*/ncu",
    "Program Files/NVIDIA Corporation/Nsight Compute */ncu.bat",
)
CAP_SYS_ADMIN = 21  # linux/capability.h
NEEDS = frozenset(
    ["gpu", "gpus2", "counters", "nsys", "ncu", "nvcc", "cxx", "torch", "triton", "jax", "linux"]
)


def capabilities(machine: Machine | None = None, among: Collection[str] = NEEDS) -> frozenset[str]:
    """What this machine has, in the words of `needs` in the manifest; a few milliseconds.

    among: look for these only, which takes less.

    "gpu", "gpus2" (at least two), "counters" (Nsight Compute may read them), "nsys", "ncu",
    "nvcc", "cxx" (a C++ compiler of the host), "torch", "triton", "jax", "linux". Reads files
    only: nothing is started or imported, so a tool counts as here when its file is here.
    """
    machine = machine or Machine()
    here: dict[str, Callable[[], bool]] = {
        "gpu": lambda: gpu_count(machine) >= 1,
        "gpus2": lambda: gpu_count(machine) >= 2,
        "counters": lambda: gpu_count(machine) >= 1 and counters_readable(machine) is True,
        "nsys": lambda: find_nsys(machine) is not None,
        "ncu": lambda: find_ncu(machine) is not None,
        "nvcc": lambda: find_nvcc(machine) is not None,
        "cxx": lambda: find_cxx(machine) is not None,
        "torch": lambda: machine.module("torch") is not None,
        "triton": lambda: machine.module("triton") is not None,
        "jax": lambda: machine.module("jax") is not None,
        "linux": lambda: machine.platform == "linux",
    }
    return frozenset(name for name, is_here in here.items() if name in among and is_here())


def absent(names: Iterable[str]) -> list[str]:
    """What is not here, of needs of the manifest and of modules; nothing is imported."""
    names = set(names)
    can = capabilities(among=names)
    return [
        name
        for name in sorted(names)
        if name not in can and (name in NEEDS or importlib.util.find_spec(name) is None)
    ]


def find_nsys(machine: Machine | None = None) -> str | None:
    """Nsight Systems: on PATH, in a toolkit, on its own, or inside Nsight Compute's install."""
    places = [place.lstrip("/") for place in NSYS_PLACES]
    return _find(machine or Machine(), "nsys", [*places, _NSYS_ON_WINDOWS])


def find_ncu(machine: Machine | None = None) -> str | None:
    """Nsight Compute's command line: on PATH, in a toolkit, or on its own."""
    return _find(machine or Machine(), "ncu", _NCU_PLACES)


def find_nvcc(machine: Machine | None = None) -> str | None:
    """The CUDA compiler: on PATH, else from the wheels in the project's environment."""
    machine = machine or Machine()
    if on_path := machine.which("nvcc"):
        return on_path
    folder = machine.module("nvidia")
    wheels = sorted(folder.glob("cu*/bin/nvcc"), key=version_order) if folder else []
    if wheels:
        return str(wheels[-1])
    return _find(machine, "nvcc", ("usr/local/cuda*/bin/nvcc",))


def find_cxx(machine: Machine | None = None) -> str | None:
    """The C++ compiler of the host that nvcc calls: g++ or clang++, on Windows cl."""
    machine = machine or Machine()
    names = ("cl",) if machine.platform == "win32" else ("g++", "clang++", "c++")
    return next((found for name in names if (found := machine.which(name))), None)


def _find(machine: Machine, program: str, places: Sequence[str]) -> str | None:
    if on_path := machine.which(program):
        return on_path
    for pattern in places:
        if found := machine.glob(pattern):
            return str(found[-1])
    return None


def gpu_count(machine: Machine) -> int:
    """NVIDIA GPUs that a program started here may use, without asking the driver."""
    if machine.platform == "linux":
        count = sum(path.name[6:].isdigit() for path in machine.glob("dev/nvidia[0-9]*"))
        if not count and machine.glob("dev/dxg") and machine.glob("usr/lib/wsl/lib/libcuda.so*"):
            count = 1  # Windows' own Linux shows one device file for all GPUs.
    elif machine.platform == "win32":
        count = len(machine.glob("Windows/System32/nvcuda.dll"))
    else:
        count = 0
    visible = machine.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return count
    wanted = [entry.strip() for entry in visible.split(",")]
    # CUDA stops reading the list at the first entry that names no device.
    usable = 0
    for entry in wanted:
        if not entry or entry.startswith("-") or (entry.isdigit() and int(entry) >= count):
            break
        usable += 1
    return min(count, usable)


def counters_readable(machine: Machine) -> bool | None:
    """Whether performance counters may be read here; None where that cannot be known."""
    if machine.platform != "linux":
        return None
    parameters = machine.read("proc/driver/nvidia/params")
    admin_only = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", parameters or "", re.MULTILINE)
    if admin_only and admin_only.group(1) == "0":
        return True
    status = machine.read("proc/self/status")
    effective = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status or "", re.MULTILINE)
    if effective and int(effective.group(1), 16) >> CAP_SYS_ADMIN & 1:
        return True
    return False if admin_only and effective else None
