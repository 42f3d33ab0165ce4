"""Machines that are not here: each is a folder that stands for "/" and canned tools."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from profiling_lab.course.doctor import Machine, frameworks, gpus
from profiling_lab.course.doctor.machine import Answer

# What torch 2.15 says where the driver's CUDA is 12.8 and where there is no driver.
OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 12080). Please update your GPU "
    "driver by downloading and installing a new version from the URL: "
    "http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org to "
    "install a PyTorch version that has been compiled with your version of the CUDA driver."
)
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and "
    "installed a driver from http://www.nvidia.com/Download/index.aspx"
)
H200 = {"name": "NVIDIA H200", "compute_capability": "9.0", "memory_bytes": 150_754_820_096}


class FakeMachine(Machine):
    """A machine whose files, programs and Python packages are given.

    programs: what each command answers, by its file name; probes: what each of the doctor's
    Python probes answers ("nvml", "torch", "triton", "jax"); an absent name is not installed.
    """

    def __init__(
        self,
        root: Path,
        *,
        platform: str = "linux",
        programs: Mapping[str, Answer | str] | None = None,
        probes: Mapping[str, Answer | dict[str, object]] | None = None,
        files: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        free_bytes: int | None = 100 * 1024**3,
    ) -> None:
        super().__init__()
        self.root, self.platform, self.environ = root, platform, environ or {}
        self.programs, self.probes = programs or {}, probes or {}
        self.free_bytes = free_bytes
        self.importer = ""
        for name, text in (files or {}).items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def system(self) -> str:
        return {"linux": "Some Linux", "darwin": "Darwin 27", "win32": "Windows 11"}[self.platform]

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def module(self, name: str) -> Path | None:
        probe = "nvml" if name == "pynvml" else name
        return self.root / name if probe in self.probes else None

    def run(self, command: Sequence[str], guard_s: float = 1.0) -> Answer:
        if command[0] == sys.executable:
            probe = next(n for n, code in PROBES.items() if code == command[2])
            answer = self.probes[probe]
            return answer if isinstance(answer, Answer) else Answer("done", json.dumps(answer))
        name = Path(command[0]).name
        if name == "nvidia-smi" and "--query-gpu" in " ".join(command):
            name = "nvidia-smi --query-gpu"
        answer = self.programs.get(name, Answer("absent"))
        return answer if isinstance(answer, Answer) else Answer("done", answer)

    def importer_trouble(self, nsys: str) -> str:
        return self.importer

    def disk_free_bytes(self) -> int | None:
        return self.free_bytes


PROBES = {
    "nvml": gpus.NVML_PROBE,
    "torch": frameworks.TORCH_PROBE,
    "triton": frameworks.TRITON_PROBE,
    "jax": frameworks.JAX_PROBE,
}
NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.2, V13.2.86"
GXX = "g++ (Debian 12.2.0-14) 12.2.0"
NSYS = "NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0"
NCU = "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880)"
NO_GPU_PROBES: dict[str, Answer | dict[str, object]] = {
    "nvml": Answer("done", "", "pynvml.NVMLError_LibraryNotFound: NVML not found", 1),
    "triton": {"version": "3.9.0"},
    "jax": {"version": "0.10.2", "backend": "cpu", "devices": ["cpu"]},
}


def torch_answer(**changes: object) -> dict[str, object]:
    """What the torch probe prints on a machine where torch 2.15 works."""
    answer: dict[str, object] = {
        "version": "2.15.0+cu132",
        "cuda": "13.2",
        "hip": None,
        "sees": True,
        "names": ["NVIDIA H200"],
        "architectures": ["sm_75", "sm_80", "sm_90"],
        "error": "",
        "warnings": [],
    }
    return answer | changes


def nvml_answer(count: int = 1, driver: str = "580.95.05", cuda: str = "13.0") -> dict[str, object]:
    """What the NVML probe prints on a machine with `count` H200s, all joined by NVLink."""
    links = {"nvlink": count * (count - 1) // 2, "p2p": 0, "none": 0}
    return {"driver": driver, "cuda": cuda, "gpus": [H200] * count, "links": links}


def device_files(count: int, admin_only: int = 0, effective: str = "0") -> dict[str, str]:
    """The system files of a Linux machine with `count` GPUs."""
    return {
        **{f"dev/nvidia{index}": "" for index in range(count)},
        "dev/nvidiactl": "",
        "dev/nvidia-uvm": "",
        "proc/driver/nvidia/params": f"Mobile: 4294967295\nRmProfilingAdminOnly: {admin_only}\n",
        "proc/self/status": f"Name:\tcat\nCapEff:\t{effective:0>16}\n",
    }


def laptop(root: Path) -> FakeMachine:
    """Linux, no GPU, everything that `uv sync` installs."""
    return FakeMachine(
        root,
        programs={"g++": GXX, "nvcc": NVCC},
        probes={**NO_GPU_PROBES, "torch": torch_answer(sees=False, names=[], error=NO_DRIVER)},
        environ={"DISPLAY": ":0"},
    )


def old_driver(root: Path) -> FakeMachine:
    """A GPU under a driver of CUDA 12.8 and a torch built for CUDA 13.2."""
    return FakeMachine(
        root,
        programs={"g++": GXX, "nvcc": NVCC, "nsys": NSYS},
        probes={
            **NO_GPU_PROBES,
            "nvml": nvml_answer(1, "570.195.03", "12.8"),
            "torch": torch_answer(sees=False, names=[], error=OLD_DRIVER, warnings=[OLD_DRIVER]),
        },
        files=device_files(1),
    )


def container(root: Path) -> FakeMachine:
    """A container on a GPU server: root inside, but not allowed to read counters."""
    return FakeMachine(
        root,
        programs={"g++": GXX, "nvcc": NVCC, "ncu": NCU},
        probes={**NO_GPU_PROBES, "nvml": nvml_answer(), "torch": torch_answer()},
        files=device_files(1, admin_only=1, effective="a80425fb")
        | {"opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys": ""},
    )


def server(root: Path) -> FakeMachine:
    """Eight GPUs, all tools, administrator's rights."""
    return FakeMachine(
        root,
        programs={"g++": GXX, "nvcc": NVCC, "nsys": NSYS, "ncu": NCU},
        probes={
            **NO_GPU_PROBES,
            "nvml": nvml_answer(8),
            "torch": torch_answer(names=["NVIDIA H200"] * 8),
        },
        files=device_files(8, admin_only=1, effective="1ffffffffff"),
    )


def macos(root: Path) -> FakeMachine:
    """A Mac: torch without CUDA, no triton, no compiler."""
    return FakeMachine(
        root,
        platform="darwin",
        probes={
            "jax": NO_GPU_PROBES["jax"],
            "nvml": NO_GPU_PROBES["nvml"],
            "torch": torch_answer(
                version="2.15.0",
                cuda=None,
                sees=False,
                names=[],
                error="Torch not compiled with CUDA enabled",
            ),
        },
    )


def windows(root: Path) -> FakeMachine:
    """Windows with a GPU and the CPU build of torch that comes from the index."""
    return FakeMachine(
        root,
        platform="win32",
        probes={
            "jax": NO_GPU_PROBES["jax"],
            "nvml": {
                "driver": "581.57",
                "cuda": "13.0",
                "gpus": [
                    {"name": "RTX 4090", "compute_capability": "8.9", "memory_bytes": 24 * 1024**3}
                ],
                "links": {},
            },
            "torch": torch_answer(version="2.15.0+cpu", cuda=None, sees=False, names=[]),
        },
        files={"Windows/System32/nvcuda.dll": ""},
    )


MACHINES = [laptop, old_driver, container, server, macos, windows]
