"""The doctor on machines that are not here (`fake_machines.py`)."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from profiling_lab.course import doctor
from profiling_lab.course.doctor import Item, Machine, profilers
from profiling_lab.course.doctor.machine import Answer, run_guarded, why
from tests.harness.fake_machines import (
    GXX,
    MACHINES,
    FakeMachine,
    container,
    device_files,
    laptop,
    macos,
    nvml_answer,
    old_driver,
    server,
    torch_answer,
    windows,
)


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
