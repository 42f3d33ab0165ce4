"""The doctor on machines that are not here: each is a folder that stands for "/" and canned tools."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from profiling_lab.course import doctor
from profiling_lab.course.doctor import Item, Machine, frameworks, gpus, profilers
from profiling_lab.course.doctor.machine import Answer, run_guarded, why

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


def by_name(machine: Machine) -> dict[str, Item]:
    """The items of a machine by their names."""
    return {item.name: item for item in doctor.examine(machine)}


def words(machine: Machine, width: int = 80) -> str:
    """What a terminal of this width shows."""
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(doctor.render(doctor.examine(machine)))
    return console.export_text()


@pytest.mark.parametrize("build", MACHINES)
def test_every_machine_gets_an_answer_that_fits_80_columns(build, tmp_path: Path) -> None:
    text = words(build(tmp_path))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert text.index("What you can do") < text.index("What is here")
    assert "Recorded work, the whole week: yes" in text
    for item in doctor.examine(build(tmp_path)):
        assert item.found and item.means, item
        assert item.state in ("ok", "missing", "limited", "unknown")
        assert "Traceback" not in item.found


def test_laptop_without_gpu(tmp_path: Path) -> None:
    machine = laptop(tmp_path)
    items = by_name(machine)
    assert items["GPU"].state == "missing"
    assert "live checks will be shown as 'not run'" in items["GPU"].means
    assert items["torch"].state == "ok"
    assert items["nvcc"].state == "ok"
    assert "interpreter" in items["triton"].means
    assert "CUDA tasks: yes" in words(machine)
    assert doctor.capabilities(machine) == {"linux", "torch", "triton", "jax", "nvcc", "cxx"}


def test_what_a_first_run_leaves_out_is_named_with_its_command(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path, programs={"g++": GXX})
    said = " ".join(words(machine).split())
    assert "Tasks that need torch, triton, jax: not here; they are shown as 'not run'." in said
    items = by_name(machine)
    for name, group in (
        ("torch", "frameworks"),
        ("jax", "frameworks"),
        ("nvcc", "cuda"),
        ("notebooks", "notebooks"),
    ):
        assert items[name].state == "missing"
        assert f"uv sync --inexact --group {group}." in items[name].do


def test_old_driver_names_both_versions_and_the_way_out(tmp_path: Path) -> None:
    machine = old_driver(tmp_path)
    items = by_name(machine)
    torch = items["torch"]
    assert torch.state == "limited"
    assert "570.195.03" in torch.found and "12.8" in torch.found and "13.2" in torch.means
    assert "update the driver" in torch.do and "older torch" in torch.do
    assert "built for CUDA 12" in torch.do
    assert items["driver"].state == "limited"
    assert items["nvcc"].state == "ok"
    assert "Live checks on this GPU: not all; see driver, torch below" in words(machine)


def test_old_driver_that_does_not_answer_is_read_from_torchs_own_message(tmp_path: Path) -> None:
    machine = old_driver(tmp_path)
    machine.probes = {**machine.probes, "nvml": Answer("crashed", code=-11)}
    torch = by_name(machine)["torch"]
    assert "12.8" in torch.found and "CUDA 13" in torch.do


def test_torch_built_without_this_gpus_architecture(tmp_path: Path) -> None:
    machine = server(tmp_path)
    error = "CUDA error: no kernel image is available for execution on the device"
    machine.probes = {**machine.probes, "torch": torch_answer(error=error)}
    torch = by_name(machine)["torch"]
    assert torch.state == "limited"
    assert "sm_75, sm_80, sm_90" in torch.means


def test_torch_that_sees_no_gpu_for_another_reason_says_torchs_reason(tmp_path: Path) -> None:
    machine = server(tmp_path)
    answer = torch_answer(sees=False, names=[], error="CUDA unknown error - this may be due to …")
    machine.probes = {**machine.probes, "torch": answer}
    torch = by_name(machine)["torch"]
    assert torch.state == "limited" and "CUDA unknown error" in torch.found


def test_container_without_counters(tmp_path: Path) -> None:
    machine = container(tmp_path)
    items = by_name(machine)
    assert items["ncu"].state == "limited"
    assert "ERR_NVGPUCTRPERM" in items["ncu"].means
    assert profilers.PERMISSION_PAGE in items["ncu"].do
    assert items["nsys"].state in ("ok", "limited")
    assert "nsight-compute" in items["nsys"].found
    assert {"gpu", "ncu", "nsys"} <= doctor.capabilities(machine)
    assert not {"counters", "gpus2"} & doctor.capabilities(machine)


def test_nsys_inside_nsight_compute_newest_version_first(tmp_path: Path) -> None:
    places = [
        f"opt/nvidia/nsight-compute/{version}/host/target-linux-x64/nsys"
        for version in ("2025.3.1", "2025.10.0")
    ]
    machine = FakeMachine(tmp_path, files=dict.fromkeys(places, ""))
    assert "2025.10.0" in str(doctor.find_nsys(machine))


def test_nsys_whose_importer_lacks_a_library(tmp_path: Path) -> None:
    machine = server(tmp_path)
    machine.importer = "the importer of nsys lacks libdw.so.1; install it"
    nsys = by_name(machine)["nsys"]
    assert nsys.state == "limited" and "libdw.so.1" in nsys.do


def test_server_with_eight_gpus(tmp_path: Path) -> None:
    machine = server(tmp_path)
    items = by_name(machine)
    assert items["several GPUs"].found == "8 GPUs: 28 pairs with NVLink"
    assert items["GPU"].found.startswith("8 × NVIDIA H200, compute capability 9.0, 140 GiB")
    assert all(items[name].state == "ok" for name in ("torch", "driver", "ncu", "nsys", "nvcc"))
    assert {"gpu", "gpus2", "counters", "nsys", "ncu"} <= doctor.capabilities(machine)
    text = words(machine)
    assert "Live checks on this GPU: yes" in text and "Recording your own programs: yes" in text


def test_gpus_without_peer_access(tmp_path: Path) -> None:
    machine = server(tmp_path)
    nvml = nvml_answer(2) | {"links": {"nvlink": 0, "p2p": 0, "none": 1}}
    machine.probes = {**machine.probes, "nvml": nvml}
    item = by_name(machine)["several GPUs"]
    assert item.state == "limited" and "host's memory" in item.means


def test_macos(tmp_path: Path) -> None:
    machine = macos(tmp_path)
    items = by_name(machine)
    assert items["GPU"].state == "missing" and items["driver"].state == "missing"
    assert items["torch"].state == "ok"
    assert "Linux only" in items["triton"].means
    assert items["nvcc"].state == "missing"
    assert "'not run' and cost no points" in words(machine)
    assert doctor.capabilities(machine) == {"torch", "jax"}


def test_windows_with_a_cpu_build_of_torch(tmp_path: Path) -> None:
    machine = windows(tmp_path)
    items = by_name(machine)
    assert items["GPU"].state == "ok"
    assert items["torch"].state == "limited" and "no CUDA in it" in items["torch"].means
    assert "WSL" in items["system"].do
    assert doctor.capabilities(machine) == {"gpu", "torch", "jax"}


def test_windows_own_linux(tmp_path: Path) -> None:
    files = {"dev/dxg": "", "usr/lib/wsl/lib/libcuda.so.1": ""}
    assert "gpu" in doctor.capabilities(FakeMachine(tmp_path, files=files))


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("", set()),
        ("-1", set()),
        ("0", {"gpu"}),
        ("GPU-8932f937", {"gpu"}),
        ("3,1", {"gpu", "gpus2"}),
        ("1,9,2", {"gpu"}),
    ],
)
def test_cuda_visible_devices_is_obeyed(visible: str, names: set[str], tmp_path: Path) -> None:
    machine = server(tmp_path)
    machine.environ = {"CUDA_VISIBLE_DEVICES": visible}
    assert doctor.capabilities(machine) & {"gpu", "gpus2"} == names
    if not names:
        assert "hidden by CUDA_VISIBLE_DEVICES" in by_name(machine)["GPU"].found


@pytest.mark.parametrize(
    ("admin_only", "effective", "allowed"),
    [(0, "0", True), (1, "0", False), (1, "200000", True), (1, "a80425fb", False)],
)
def test_counters_are_allowed_to_all_or_to_administrators(
    admin_only: int, effective: str, allowed: bool, tmp_path: Path
) -> None:
    machine = FakeMachine(tmp_path, files=device_files(1, admin_only, effective))
    assert ("counters" in doctor.capabilities(machine)) is allowed


def test_nvidia_smi_is_asked_where_nvml_does_not_answer(tmp_path: Path) -> None:
    machine = server(tmp_path)
    machine.probes = {**machine.probes, "nvml": Answer("crashed", code=-11)}
    machine.programs = {
        **machine.programs,
        "nvidia-smi": "| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0 |",
        "nvidia-smi --query-gpu": "NVIDIA H200, 9.0, 143771, 580.95.05\n" * 2,
    }
    items = by_name(machine)
    assert items["GPU"].found == "2 × NVIDIA H200, compute capability 9.0, 140 GiB"
    assert "CUDA up to 13.0" in items["driver"].found
    assert items["several GPUs"].state == "unknown"


@pytest.mark.parametrize("ends", ["hung", "crashed"])
def test_a_driver_that_hangs_or_crashes_is_said_and_survived(ends, tmp_path: Path) -> None:
    machine = server(tmp_path)
    broken = Answer(ends, code=-9)
    machine.probes = dict.fromkeys(machine.probes, broken)
    machine.programs = dict.fromkeys([*machine.programs, "nvidia-smi"], broken)
    machine.programs["nvidia-smi --query-gpu"] = broken
    items = by_name(machine)
    assert items["GPU"].state == "unknown" and items["driver"].state == "unknown"
    said = "no answer within" if ends == "hung" else "crashed"
    for name in ("GPU", "driver", "torch", "triton", "jax", "nvcc", "nsys", "ncu"):
        assert said in items[name].found, items[name]
        assert items[name].state in ("unknown", "limited")
    assert "not yet; see GPU and driver" in words(machine)


def test_disk_that_a_long_recording_would_fill(tmp_path: Path) -> None:
    assert by_name(FakeMachine(tmp_path, free_bytes=1024**3))["disk"].state == "limited"
    assert by_name(FakeMachine(tmp_path, free_bytes=None))["disk"].state == "unknown"


def test_a_real_program_that_hangs_is_given_up_with_its_children() -> None:
    code = "import subprocess, sys; print('begun', flush=True); " + (
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    )
    began = time.monotonic()
    answer = run_guarded([sys.executable, "-c", code], guard_s=1)
    assert answer.outcome == "hung"
    assert time.monotonic() - began < 60


def test_real_programs_that_crash_flood_or_are_not_there() -> None:
    crash = run_guarded([sys.executable, "-c", "import os; os.abort()"], 60)
    assert crash.outcome == "crashed"
    flood = run_guarded([sys.executable, "-c", "print('x' * 5_000_000, 'end')"], 60)
    assert flood.good and len(flood.output) <= 200_000 and flood.output.endswith("end")
    assert run_guarded(["no-such-program-here"], 60).outcome == "absent"
    fails = run_guarded([sys.executable, "-c", "raise SystemExit('no device')"], 60)
    assert not fails.good and why(fails) == "no device"


def test_this_machine_capabilities_start_and_import_nothing(monkeypatch) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise AssertionError(f"started {arguments}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = {name for name in ("torch", "jax", "triton") if name in sys.modules}
    names = doctor.capabilities()
    assert names <= {
        *("gpu", "gpus2", "nsys", "ncu", "counters", "nvcc", "cxx", "torch", "triton", "jax"),
        "linux",
    }
    assert before == {name for name in ("torch", "jax", "triton") if name in sys.modules}
