"""What this machine can do for the course, and what each missing thing means for the learner.

`examine` looks at everything and may take some seconds; `capabilities` answers the manifest's
`needs` from a few files and takes milliseconds. Whatever could hang or crash (the driver's tools,
the frameworks) is asked in a process of its own, under a guard, so that a broken driver makes an
item "unknown" and never stops the doctor.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiling_lab import needs

if TYPE_CHECKING:
    from rich.console import RenderableType

State = Literal["ok", "missing", "limited", "unknown"]

# Hang guards, not limits: a cold disk takes half a minute to load torch.
TOOL_GUARD_S = 30.0
FRAMEWORK_GUARD_S = 180.0

# A trace without a capture range grows to gigabytes within minutes.
ROOM_FOR_CAPTURES_BYTES = 2 * 1024**3

PERMISSION_PAGE = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
DRIVER_PAGE = "https://www.nvidia.com/drivers"
OLDER_TORCH_PAGE = "https://pytorch.org/get-started/previous-versions"

CAP_SYS_ADMIN = 21  # linux/capability.h


@dataclass(frozen=True)
class Item:
    """One thing the doctor looked at.

    name: what was looked at. state: "ok", "missing", "limited" (there, but not fully usable) or
    "unknown" (could not be found out). found: what is here. means: what follows for the learner.
    do: how to change that; "" where there is nothing to do.
    """

    name: str
    state: State
    found: str
    means: str
    do: str = ""


@dataclass(frozen=True)
class Answer:
    """How a command ended. outcome: "done", "absent" (no such program), "hung" or "crashed"."""

    outcome: Literal["done", "absent", "hung", "crashed"]
    output: str = ""
    errors: str = ""
    code: int = 0

    @property
    def good(self) -> bool:
        """Whether the command ran to its end and reported success."""
        return self.outcome == "done" and self.code == 0


class Machine:
    """All that the doctor asks of a computer; tests put another computer in its place.

    root: the folder that stands for "/" when files of the system are read.
    """

    def __init__(self) -> None:
        self.platform: str = sys.platform
        self.architecture: str = platform.machine()
        self.python: str = platform.python_version()
        self.environ: Mapping[str, str] = os.environ
        self.root: Path = Path("/")
        self.here: Path = Path.cwd()

    def system(self) -> str:
        """The operating system with its version, in words."""
        if self.platform == "linux":
            with contextlib.suppress(OSError):
                return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
        return f"{platform.system()} {platform.release()}"

    def read(self, path: str) -> str | None:
        """The text of a system file ("proc/version"); None where it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def glob(self, pattern: str) -> list[Path]:
        """The system's files that match, the newest version last."""
        try:
            return sorted(self.root.glob(pattern), key=_version_order)
        except OSError:
            return []

    def which(self, program: str) -> str | None:
        """Where a program lies on PATH."""
        return shutil.which(program, path=self.environ.get("PATH", ""))

    def module(self, name: str) -> Path | None:
        """The folder or file of an installed top-level module, found without importing it."""
        for entry in sys.path:
            folder = Path(entry or ".") / name
            for place in (folder, folder.with_suffix(".py")):
                if place.exists():
                    return place
        return None

    def run(self, command: Sequence[str], guard_s: float = TOOL_GUARD_S) -> Answer:
        """Run a command, whatever it does: hang, crash or flood."""
        return run_guarded(command, guard_s, self.environ)

    def importer_trouble(self, nsys: str) -> str:
        """What keeps Nsight Systems from turning a recording into a report; "" where nothing."""
        from profiling_lab.record.errors import RecordError
        from profiling_lab.record.tools import check_importer

        try:
            check_importer(Path(nsys))
        except (OSError, RecordError) as error:
            return str(error)
        return ""

    def disk_free_bytes(self) -> int | None:
        """Free space where captures would be written, in bytes."""
        try:
            return shutil.disk_usage(self.here).free
        except OSError:
            return None


def run_guarded(
    command: Sequence[str], guard_s: float, environ: Mapping[str, str] | None = None
) -> Answer:
    """Run a command in a process group of its own and give up on it after `guard_s` seconds.

    Its output goes to files: a pipe stays open as long as any grandchild lives. A process stuck in
    the kernel (a wedged driver) survives SIGKILL, so the end of a killed one is not waited for.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=None if environ is None else dict(environ),
                start_new_session=os.name == "posix",
            )
        except FileNotFoundError:
            return Answer("absent")
        except OSError as error:
            return Answer("crashed", errors=str(error))
        try:
            code = process.wait(guard_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            return Answer("hung", _tail(out), _tail(err))
        outcome = "crashed" if code < 0 or code > 0x3FFFFFFF else "done"
        return Answer(outcome, _tail(out), _tail(err), code)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)


def _tail(file: Any, most_bytes: int = 200_000) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most_bytes))
    return file.read().decode("utf-8", errors="replace").strip()


def _version_order(path: Path) -> list[tuple[int, str]]:
    """Sort key under which 2025.10 comes after 2025.3."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))
    ]


# -- where tools lie ------------------------------------------------------------------------------

_NSYS_ON_WINDOWS = "Program Files/NVIDIA Corporation/Nsight Systems */target-windows-x64/nsys.exe"
_NCU_PLACES = (
    "opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "usr/local/cuda*/nsight-compute*/host/target-linux-*/nsys",
)
_NCU_PLACES = (
    "usr/local/cuda*/bin/ncu",
    "opt/nvidia/nsight-compute/*/ncu",
    "usr/local/cuda*/nsight-compute*/ncu",
    "Program Files/NVIDIA Corporation/Nsight Compute */ncu.bat",
)


def find_nsys(machine: Machine | None = None) -> str | None:
    """Nsight Systems: on PATH, in a toolkit, on its own, or inside Nsight Compute's install."""
    from profiling_lab.record.tools import NSYS_PLACES

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
    wheels = sorted(folder.glob("cu*/bin/nvcc"), key=_version_order) if folder else []
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


# -- capabilities: cheap, for the manifest's `needs` ------------------------------------------------


NEEDS = frozenset(
    ["gpu", "gpus2", "counters", "nsys", "ncu", "nvcc", "cxx", "torch", "triton", "jax", "linux"]
)


def capabilities(machine: Machine | None = None) -> frozenset[str]:
    """What this machine has, in the words of `needs` in the manifest; a few milliseconds.

    "gpu", "gpus2" (at least two), "counters" (Nsight Compute may read them), "nsys", "ncu",
    "nvcc", "cxx" (a C++ compiler of the host), "torch", "triton", "jax", "linux". Reads files
    only: nothing is started or imported, so a tool counts as here when its file is here.
    """
    machine = machine or Machine()
    gpus = _gpu_count(machine)
    here = {
        "gpu": gpus >= 1,
        "gpus2": gpus >= 2,
        "counters": gpus >= 1 and _counters(machine) is True,
        "nsys": find_nsys(machine) is not None,
        "ncu": find_ncu(machine) is not None,
        "nvcc": find_nvcc(machine) is not None,
        "cxx": find_cxx(machine) is not None,
        "torch": machine.module("torch") is not None,
        "triton": machine.module("triton") is not None,
        "jax": machine.module("jax") is not None,
        "linux": machine.platform == "linux",
    }
    return frozenset(name for name, present in here.items() if present)


def _gpu_count(machine: Machine) -> int:
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


def _counters(machine: Machine) -> bool | None:
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


# -- probes: run in processes of their own ----------------------------------------------------------

_NVML_PROBE = textwrap.dedent("""
    import json
    import pynvml as n

    def text(value):
        return value.decode() if isinstance(value, bytes) else value

    n.nvmlInit()
    cuda = n.nvmlSystemGetCudaDriverVersion()
    handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
    gpus = []
    for handle in handles:
        major, minor = n.nvmlDeviceGetCudaComputeCapability(handle)
        try:
            memory_bytes = n.nvmlDeviceGetMemoryInfo(handle).total
        except n.NVMLError:  # GPUs that share the host's memory
            memory_bytes = None
        gpus.append({
            "name": text(n.nvmlDeviceGetName(handle)),
            "compute_capability": f"{major}.{minor}",
            "memory_bytes": memory_bytes,
        })
    links = {"nvlink": 0, "p2p": 0, "none": 0}
    for i, a in enumerate(handles):
        for b in handles[i + 1:]:
            kind = "none"
            for name, index in (("nvlink", n.NVML_P2P_CAPS_INDEX_NVLINK),
                                ("p2p", n.NVML_P2P_CAPS_INDEX_READ)):
                try:
                    if n.nvmlDeviceGetP2PStatus(a, b, index) == n.NVML_P2P_STATUS_OK:
                        kind = name
                        break
                except n.NVMLError:
                    pass
            links[kind] += 1
    print(json.dumps({
        "driver": text(n.nvmlSystemGetDriverVersion()),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
        "gpus": gpus,
        "links": links,
    }))
""")

# A kernel is really run: a torch that sees a device may hold no code for its architecture.
_TORCH_PROBE = textwrap.dedent("""
    import json, warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import torch
        sees = torch.cuda.is_available()
        error = ""
        names = []
        if sees:
            try:
                names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
                if float((torch.ones(8, device="cuda") * 2).sum()) != 16:
                    error = "a multiplication on the device gave a wrong result"
            except Exception as failure:
                error = str(failure)
        else:
            try:
                torch.cuda.init()
            except Exception as failure:
                error = str(failure)
    print(json.dumps({
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "sees": sees,
        "names": names,
        "architectures": torch.cuda.get_arch_list() if sees else [],
        "error": error,
        "warnings": [str(w.message) for w in caught],
    }))
""")

_TRITON_PROBE = "import json, triton; print(json.dumps({'version': triton.__version__}))"

# Not the default of taking most of a GPU's memory, only to ask for its name.
_JAX_PROBE = textwrap.dedent("""
    import json, os
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    devices = jax.devices()
    print(json.dumps({"version": jax.__version__, "backend": jax.default_backend(),
                      "devices": [d.device_kind for d in devices]}))
""")


@dataclass(frozen=True)
class Gpu:
    """One GPU; compute_capability as "9.0"; memory_bytes None where not known."""

    name: str
    compute_capability: str
    memory_bytes: int | None


@dataclass(frozen=True)
class Driver:
    """What the NVIDIA driver says of itself and its GPUs.

    version: of the driver, None where there is none. cuda: newest CUDA that it supports ("13.0").
    links: pairs of GPUs by how they reach each other ("nvlink", "p2p", "none"); None where not
    known. trouble: why the driver did not answer; "" where it did, or where there is none.
    """

    version: str | None = None
    cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()
    links: Mapping[str, int] | None = None
    trouble: str = ""


@dataclass(frozen=True)
class _Probe:
    """The answer of one Python probe: what it printed, or why it printed nothing."""

    data: Mapping[str, Any] = field(default_factory=dict)
    trouble: str = ""


def _ask_python(machine: Machine, code: str, guard_s: float = FRAMEWORK_GUARD_S) -> _Probe:
    answer = machine.run([sys.executable, "-c", code], guard_s)
    if answer.good:
        with contextlib.suppress(ValueError, IndexError):
            data = json.loads(answer.output.splitlines()[-1])
            if isinstance(data, dict):
                return _Probe(data)
    return _Probe(trouble=_why(answer, guard_s))


def _why(answer: Answer, guard_s: float = TOOL_GUARD_S) -> str:
    """One line on why a command gave no answer."""
    if answer.outcome == "absent":
        return "no such program"
    if answer.outcome == "hung":
        return f"no answer within {guard_s:.0f} s"
    lines = [line.strip() for line in (answer.errors or answer.output).splitlines() if line.strip()]
    last = _shorten(lines[-1]) if lines else ""
    if answer.outcome == "crashed":
        ended = f"it crashed (exit status {answer.code})" if answer.code else "it could not start"
        return f"{ended}: {last}" if last else ended
    return last or f"it ended with exit status {answer.code} and no message"


def _shorten(text: str, most: int = 160) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _ask_driver(machine: Machine) -> Driver:
    """Ask NVML, then nvidia-smi, for driver and GPUs."""
    if machine.platform == "darwin":
        return Driver()
    nvml_trouble = ""
    if machine.module("pynvml"):
        probe = _ask_python(machine, _NVML_PROBE, TOOL_GUARD_S)
        data = probe.data
        if data:
            return Driver(
                data.get("driver"),
                data.get("cuda"),
                tuple(
                    Gpu(gpu["name"], gpu["compute_capability"], gpu["memory_bytes"])
                    for gpu in data.get("gpus", ())
                ),
                data.get("links"),
            )
        nvml_trouble = probe.trouble
    return _ask_nvidia_smi(machine, nvml_trouble)


def _ask_nvidia_smi(machine: Machine, nvml_trouble: str) -> Driver:
    program = machine.which("nvidia-smi")
    if program is None and machine.glob("usr/lib/wsl/lib/nvidia-smi"):
        program = str(machine.glob("usr/lib/wsl/lib/nvidia-smi")[-1])
    if program is None:
        # Without GPU and driver NVML has no library to load: nothing is wrong then.
        quiet = not _gpu_count(machine)
        return Driver(trouble="" if quiet else nvml_trouble or "nvidia-smi is not on PATH")
    query = "--query-gpu=name,compute_cap,memory.total,driver_version"
    answer = machine.run([program, query, "--format=csv,noheader,nounits"])
    if not answer.good:
        return Driver(trouble=f"nvidia-smi: {_why(answer)}")
    gpus, version = [], None
    for line in answer.output.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 4:
            memory = int(cells[2]) * 1024**2 if cells[2].isdigit() else None
            gpus.append(Gpu(cells[0], cells[1], memory))
            version = cells[3]
    header = machine.run([program])
    cuda = re.search(r"CUDA Version:\s*([\d.]+)", header.output)
    return Driver(version, cuda.group(1) if cuda else None, tuple(gpus))


# -- items ------------------------------------------------------------------------------------------


def examine(machine: Machine | None = None) -> list[Item]:
    """Look at everything that the course can use; takes some seconds, mostly to load frameworks.

    Never raises for what a machine is or does: what cannot be found out is an item "unknown".
    """
    from concurrent.futures import ThreadPoolExecutor

    machine = machine or Machine()
    probes: dict[str, Callable[[], Any]] = {
        "driver": functools.partial(_ask_driver, machine),
        "torch": functools.partial(_ask_python, machine, _TORCH_PROBE),
        "triton": functools.partial(_ask_python, machine, _TRITON_PROBE),
        "jax": functools.partial(_ask_python, machine, _JAX_PROBE),
        "nsys": functools.partial(_version_of, machine, find_nsys(machine)),
        "ncu": functools.partial(_version_of, machine, find_ncu(machine)),
        "nvcc": functools.partial(_version_of, machine, find_nvcc(machine)),
        "cxx": functools.partial(_version_of, machine, find_cxx(machine)),
    }
    for name in ("torch", "triton", "jax"):
        if machine.module(name) is None:
            probes[name] = lambda: _Probe(trouble="absent")
    with ThreadPoolExecutor(len(probes)) as pool:
        asked = {name: pool.submit(probe) for name, probe in probes.items()}
        got = {name: future.result() for name, future in asked.items()}

    driver: Driver = got["driver"]
    return [
        _python_item(machine),
        _gpu_item(machine, driver),
        _driver_item(machine, driver, got["torch"].data.get("cuda"), got["nvcc"][0]),
        *_several_gpus(driver),
        _torch_item(machine, got["torch"], driver),
        _triton_item(machine, got["triton"], driver),
        _jax_item(machine, got["jax"]),
        _nvcc_item(machine, find_nvcc(machine), got["nvcc"], got["cxx"]),
        _cxx_item(machine, find_cxx(machine), got["cxx"]),
        _nsys_item(machine, find_nsys(machine), got["nsys"], driver),
        _ncu_item(machine, find_ncu(machine), got["ncu"], driver),
        _disk_item(machine),
        _viewer_item(machine),
        _notebooks_item(machine),
    ]


def _version_of(machine: Machine, program: str | None) -> tuple[str, str]:
    """(version, "") of a program, or ("", why not); ("", "absent") where there is none."""
    if program is None:
        return "", "absent"
    # Microsoft's compiler knows no --version, and greets with its version when called bare.
    bare = Path(program).stem.lower() == "cl"
    answer = machine.run([program] if bare else [program, "--version"])
    if not answer.good and not bare:
        return "", _why(answer)
    match = re.search(r"\d+\.\d+(?:\.\d+)*", _release_line(answer.output or answer.errors))
    return (match.group(), "") if match else ("", "it did not tell its version")


def _release_line(text: str) -> str:
    """The line of a tool's --version that holds the version, from there on."""
    for mark in ("release ", "Version ", "version "):
        if mark in text:
            return text[text.index(mark) :]
    return text


def _python_item(machine: Machine) -> Item:
    found = f"{machine.system()}, {machine.architecture}, Python {machine.python}"
    version = tuple(int(part) for part in re.findall(r"\d+", machine.python)[:2])
    if version < (3, 11):
        return Item(
            "system",
            "limited",
            found,
            "The course needs Python 3.11 or newer.",
            "Run commands through `uv run`: uv fetches a Python that fits.",
        )
    if machine.platform == "linux":
        means = "All of the course can run here, as far as the items below allow."
        return Item("system", "ok", found, means)
    return Item(
        "system",
        "ok",
        found,
        "All recorded work runs here. Triton and the CUDA compiler are installed on Linux only; "
        "tasks that need them are shown as 'not run'.",
        "For those tasks use WSL 2." if machine.platform == "win32" else "",
    )


def _gpu_item(machine: Machine, driver: Driver) -> Item:
    recorded = "All of the week's recorded work runs here; live checks will be shown as 'not run'."
    if driver.gpus:
        lines = []
        for gpu in driver.gpus:
            size = f", {gpu.memory_bytes / 1024**3:.0f} GiB" if gpu.memory_bytes else ""
            lines.append(f"{gpu.name}, compute capability {gpu.compute_capability}{size}")
        counted = [
            f"{lines.count(line)} × {line}" if lines.count(line) > 1 else line
            for line in dict.fromkeys(lines)
        ]
        found = "; ".join(counted)
        hidden = machine.environ.get("CUDA_VISIBLE_DEVICES")
        if _gpu_count(machine) == 0 and hidden is not None:
            return Item(
                "GPU",
                "limited",
                f"{found}; hidden by CUDA_VISIBLE_DEVICES={hidden!r}",
                f"Programs started here see no GPU. {recorded}",
                "Unset CUDA_VISIBLE_DEVICES.",
            )
        return Item("GPU", "ok", found, "Live checks use it: add --live.")
    if driver.trouble:
        return Item("GPU", "unknown", driver.trouble, recorded, _driver_repair(machine))
    if _gpu_count(machine) and machine.platform == "linux":
        return Item(
            "GPU",
            "unknown",
            "device files are here, but no driver library answers",
            recorded,
            "In a container: start it with GPU support (docker run --gpus all).",
        )
    return Item("GPU", "missing", "no NVIDIA GPU", recorded)


def _driver_repair(machine: Machine) -> str:
    if machine.platform == "linux":
        return (
            "Call nvidia-smi yourself. If it hangs or complains too, restart the machine or "
            f"install the driver again ({DRIVER_PAGE})."
        )
    return f"Install the driver again ({DRIVER_PAGE})."


def _driver_item(machine: Machine, driver: Driver, torch_cuda: str | None, nvcc_cuda: str) -> Item:
    if driver.version:
        supports = f", supports CUDA up to {driver.cuda}" if driver.cuda else ""
        found = f"NVIDIA {driver.version}{supports}"
        built = {"torch": torch_cuda, "what nvcc builds": nvcc_cuda}
        too_new = [
            f"{name} (CUDA {cuda})"
            for name, cuda in built.items()
            if cuda and _major(driver.cuda) < _major(cuda)
        ]
        if too_new:
            return Item(
                "driver",
                "limited",
                found,
                f"Too old for {' and '.join(too_new)}: that cannot run on this GPU.",
                f"Update the driver ({DRIVER_PAGE}) to one that supports CUDA "
                f"{max(_major(cuda) for cuda in built.values() if cuda)}.",
            )
        # Within one major release of CUDA a driver runs what a newer minor release built.
        same = f"CUDA {_major(driver.cuda)} or older" if driver.cuda else "its CUDA or older"
        return Item("driver", "ok", found, f"Programs built for {same} can run.")
    if driver.trouble:
        return Item(
            "driver",
            "unknown",
            driver.trouble,
            "Without an answer from the driver nothing runs on the GPU.",
            _driver_repair(machine),
        )
    return Item("driver", "missing", "no NVIDIA driver", "Needed only for live work on a GPU.")


def _several_gpus(driver: Driver) -> list[Item]:
    if len(driver.gpus) < 2:
        return []
    count = len(driver.gpus)
    if driver.links is None:
        return [
            Item(
                "several GPUs",
                "unknown",
                f"{count} GPUs; how they are connected is not known",
                "Work on several GPUs runs; its speed depends on the connection.",
                "See `nvidia-smi topo -m`.",
            )
        ]
    words = {"nvlink": "NVLink", "p2p": "peer access over PCIe", "none": "no peer access"}
    links = {name: pairs for name, pairs in driver.links.items() if pairs}
    found = ", ".join(
        f"{pairs} {'pair' if pairs == 1 else 'pairs'} with {words.get(name, name)}"
        for name, pairs in links.items()
    )
    through_host = set(links) == {"none"}
    means = (
        "Copies between these GPUs pass through the host's memory."
        if through_host
        else "GPUs with peer access copy to each other without passing through the host's memory."
    )
    state: State = "limited" if "none" in links else "ok"
    return [Item("several GPUs", state, f"{count} GPUs: {found}", means)]


def _torch_item(machine: Machine, probe: _Probe, driver: Driver) -> Item:
    without = (
        "Timelines and the rest of the recorded work do not need it; tasks that run a model do."
    )
    if probe.trouble == "absent":
        return Item("torch", "missing", "not installed", without, _install(machine, "torch"))
    if not probe.data:
        found = f"does not load: {probe.trouble}"
        return Item("torch", "limited", found, without, _install(machine, "torch"))
    data = probe.data
    build = _torch_build(data)
    found = f"torch {data['version']}, {build}"
    error = str(data.get("error", ""))
    if data["sees"] and not error:
        names = ", ".join(dict.fromkeys(data.get("names", ())))
        return Item("torch", "ok", f"{found}; runs on {names}", "Live PyTorch work runs here.")
    on_cpu = "Recorded work and everything on the CPU runs; nothing of torch's runs on a GPU here."
    if data["sees"]:
        code = ", ".join(data.get("architectures", ()))
        means = f"torch sees the GPU but a first kernel failed. {on_cpu}"
        if "no kernel image" in error:
            means = (
                f"This torch holds machine code for {code} and none that this GPU runs. {on_cpu}"
            )
            do = f"Install a torch that still supports this GPU ({OLDER_TORCH_PAGE})."
            return Item("torch", "limited", f"{found}; {_shorten(error)}", means, do)
        return Item(
            "torch", "limited", f"{found}; {_shorten(error)}", means, _driver_repair(machine)
        )
    if not driver.gpus and not driver.trouble:
        return Item("torch", "ok", f"{found}; no GPU to see", on_cpu)
    if data.get("cuda") is None:
        do = "Install the build for CUDA from https://pytorch.org (on macOS there is none)."
        means = f"This build of torch has no CUDA in it. {on_cpu}"
        return Item("torch", "limited", found, means, do)
    old = _old_driver([error, *data.get("warnings", ())])
    if old or _major(driver.cuda) < _major(data["cuda"]):
        supported = old or driver.cuda
        return Item(
            "torch",
            "limited",
            f"{found}; the driver{_number(driver.version)} supports CUDA up to {supported}",
            f"The driver is too old for this torch, which is built for CUDA {data['cuda']}. {on_cpu}",
            f"Either update the driver ({DRIVER_PAGE}) to one that supports CUDA "
            f"{_major(data['cuda'])}, or, in an environment of its own, install an older torch "
            f"that was built for CUDA {_major(supported)} ({OLDER_TORCH_PAGE}).",
        )
    reason = _shorten(error or "torch gives no reason")
    return Item(
        "torch", "limited", f"{found}; sees no GPU: {reason}", on_cpu, _driver_repair(machine)
    )


def _install(machine: Machine, name: str) -> str:
    command = needs.remedy([name], machine.platform, machine.architecture)
    return (
        f"In your clone: {command}. In a project of your own: install it there." if command else ""
    )


def _torch_build(data: Mapping[str, Any]) -> str:
    if data.get("cuda"):
        return f"built for CUDA {data['cuda']}"
    if data.get("hip"):
        return f"built for ROCm {data['hip']}"
    return "built for the CPU only"


def _old_driver(messages: Sequence[str]) -> str | None:
    """The CUDA release that the driver supports, out of torch's complaint about an old driver.

    torch says "The NVIDIA driver on your system is too old (found version 12080)", where the
    number is 1000 × major + 10 × minor.
    """
    for message in messages:
        if match := re.search(r"driver on your system is too old \(found version (\d+)\)", message):
            number = int(match.group(1))
            return f"{number // 1000}.{number % 1000 // 10}"
    return None


def _major(version: str | None) -> int:
    """13 of "13.2"; a large number where the version is not known, so that nothing is claimed."""
    match = re.match(r"\d+", version or "")
    return int(match.group()) if match else sys.maxsize


def _number(version: str | None) -> str:
    return f" {version}" if version else ""


def _triton_item(machine: Machine, probe: _Probe, driver: Driver) -> Item:
    if probe.trouble == "absent":
        if machine.platform != "linux":
            return Item(
                "triton",
                "missing",
                "not installed",
                "Triton is published for Linux only. Recorded work runs; tasks that run a kernel are "
                "shown as 'not run'.",
            )
        means = "Recorded work runs; tasks that run a kernel are shown as 'not run'."
        return Item("triton", "missing", "not installed", means, _install(machine, "triton"))
    if not probe.data:
        means = "Tasks that run a Triton kernel will fail here."
        found = f"does not load: {probe.trouble}"
        return Item("triton", "limited", found, means, _install(machine, "triton"))
    means = (
        "Triton kernels run on the GPU."
        if driver.gpus
        else "Without a GPU kernels run in Triton's interpreter, on the CPU: slow, but right."
    )
    return Item("triton", "ok", f"triton {probe.data['version']}", means)


def _jax_item(machine: Machine, probe: _Probe) -> Item:
    means = "Only programs that use JAX need it; recorded work does not."
    if probe.trouble == "absent":
        return Item("jax", "missing", "not installed", means, _install(machine, "jax"))
    if not probe.data:
        found = f"does not start: {probe.trouble}"
        return Item("jax", "limited", found, means, _install(machine, "jax"))
    backend = probe.data["backend"]
    found = f"jax {probe.data['version']}, backend {backend}"
    if backend == "cpu":
        return Item(
            "jax", "ok", found, "JAX programs run on the CPU here; recorded work does not use it."
        )
    kinds = ", ".join(dict.fromkeys(probe.data.get("devices", ())))
    return Item("jax", "ok", f"{found} ({kinds})", "JAX programs run on the device.")


def _nvcc_item(
    machine: Machine, path: str | None, version: tuple[str, str], host: tuple[str, str]
) -> Item:
    if path is None:
        means = "CUDA tasks are shown as 'not run'."
        do = _install(machine, "nvcc") or "Install NVIDIA's CUDA toolkit."
        return Item("nvcc", "missing", "no CUDA compiler", means, do)
    number, trouble = version
    source = "from the project's wheels" if "site-packages" in path else path
    if trouble:
        means = "CUDA tasks cannot be compiled here."
        return Item("nvcc", "limited", f"{source}: {trouble}", means, _install(machine, "nvcc"))
    found = f"CUDA {number}, {source}"
    if host[1]:
        return Item("nvcc", "limited", found, "nvcc needs a C++ compiler of the host beside it.")
    means = "CUDA tasks compile here, with or without a GPU."
    return Item("nvcc", "ok", found, means)


def _cxx_item(machine: Machine, path: str | None, version: tuple[str, str]) -> Item:
    number, trouble = version
    if path is None or trouble:
        do = needs.CXX.get(machine.platform, "install a C++ compiler")
        found = "no C++ compiler" if path is None else f"{path}: {trouble}"
        means = "CUDA tasks are shown as 'not run'; everything else is untouched."
        return Item("C++ compiler", "missing" if path is None else "limited", found, means, do)
    name = Path(path).name
    return Item("C++ compiler", "ok", f"{name} {number}", "nvcc can compile host code.")


def _nsys_item(
    machine: Machine, path: str | None, version: tuple[str, str], driver: Driver
) -> Item:
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


def _ncu_item(machine: Machine, path: str | None, version: tuple[str, str], driver: Driver) -> Item:
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
    allowed = _counters(machine)
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


def _disk_item(machine: Machine) -> Item:
    free = machine.disk_free_bytes()
    if free is None:
        return Item("disk", "unknown", "free space not known", "Captures need some megabytes each.")
    found = f"{free / 1024**3:.1f} GiB free"
    if free < ROOM_FOR_CAPTURES_BYTES:
        return Item(
            "disk",
            "limited",
            found,
            "Enough for the course; a recording without a capture range can fill this.",
            "Free some space before you record, and always limit the recording.",
        )
    return Item("disk", "ok", found, "Enough for captures limited to the part in question.")


def _viewer_item(machine: Machine) -> Item:
    viewer = machine.which("nsys-ui")
    remote = "SSH_CONNECTION" in machine.environ
    screen = machine.platform in ("darwin", "win32") or any(
        machine.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    page = "Reports are single HTML pages that any browser opens, without a network"
    if screen and not remote:
        found = "a screen" + (", and Nsight Systems' own viewer" if viewer else "")
        do = (
            ""
            if viewer
            else "To look at .nsys-rep files, install Nsight Systems' viewer; it needs no GPU."
        )
        return Item("viewer", "ok", found, f"{page}.", do)
    return Item(
        "viewer",
        "limited",
        "no screen here" + (" (a session over SSH)" if remote else ""),
        f"Everything works in the terminal. {page}.",
        "Copy pages and .nsys-rep files to your own computer to look at them.",
    )


def _notebooks_item(machine: Machine) -> Item:
    absent = [name for name in ("jupyterlab", "matplotlib") if machine.module(name) is None]
    if not absent:
        return Item("notebooks", "ok", "Jupyter and Matplotlib", "Lessons' notebooks run here.")
    means = "Lessons' notebooks can be read where they lie; to run them needs more."
    found = f"no {' and no '.join(absent)}"
    return Item("notebooks", "missing", found, means, _install(machine, "matplotlib"))


# -- showing ----------------------------------------------------------------------------------------


def summary(items: Sequence[Item]) -> list[str]:
    """What the learner can do here, the most important first; one plain sentence each."""
    by_name = {item.name: item for item in items}

    def works(*names: str) -> bool:
        return all(by_name[name].state == "ok" for name in names if name in by_name)

    lines = [
        "Recorded work, the whole week: yes. It needs no GPU and gives the same score anywhere."
    ]
    frameworks = [by_name[name] for name in ("torch", "triton", "jax") if name in by_name]
    if absent := [item for item in frameworks if item.state == "missing"]:
        how = "".join(dict.fromkeys(f" {item.do}" for item in absent if item.do))
        names = ", ".join(item.name for item in absent)
        lines.append(f"Tasks that need {names}: not here; they are shown as 'not run'.{how}")
    compiles = works("nvcc", "C++ compiler")
    lines.append(
        "CUDA tasks: yes, compiled and judged here."
        if compiles
        else "CUDA tasks: not here; they are shown as 'not run' and cost no points."
    )
    if works("GPU"):
        blocked = [name for name in ("driver", "torch", "nvcc") if not works(name)]
        lines.append(
            f"Live checks on this GPU: not all; see {', '.join(blocked)} below."
            if blocked
            else "Live checks on this GPU: yes, with --live."
        )
        recording = "yes, with nsys" if works("nsys") else "not here; see nsys below"
        measuring = "yes, with ncu" if works("ncu") else "not here; see ncu below"
        lines.append(f"Recording your own programs: {recording}.")
        lines.append(f"Measuring your own kernels: {measuring}.")
    elif by_name["GPU"].state == "missing":
        lines.append("Live checks and recordings of your own: not here, for want of an NVIDIA GPU.")
    else:
        lines.append("Live checks and recordings of your own: not yet; see GPU and driver below.")
    return lines


def render(items: Sequence[Item]) -> RenderableType:
    """What can be done here, then the table of items; made for 80 columns."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    can = Table.grid(padding=(0, 1))
    for line in summary(items):
        can.add_row("•", Text(line))
    styles = {"ok": "green", "limited": "yellow", "missing": "dim", "unknown": "yellow"}
    table = Table(box=None, padding=(0, 1, 1, 0), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for item in items:
        words = Text(item.found)
        words.append(f"\n{item.means}", style="dim")
        if item.do:
            words.append(f"\n→ {item.do}")
        table.add_row(item.name, Text(item.state, style=styles[item.state]), words)
    return Group(
        Text("What you can do on this machine", style="bold"),
        can,
        "",
        Text("What is here, and what it means", style="bold"),
        table,
    )
