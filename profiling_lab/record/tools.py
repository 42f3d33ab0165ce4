"""What the recorder needs from the machine: Nsight Systems, the GPU's data, a quiet place to run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profiling_lab.record.errors import RecordError

WORK_FOLDER = Path("/tmp/lab-record")
CUDA_FOLDERS = ("/usr/local/cuda", "/opt/cuda")
NSYS_PLACES = (
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems/*/target-linux-x64/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/local/cuda*/nsight-systems-*/bin/nsys",
    # Nsight Compute carries an Nsight Systems of the same age.
    "/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys",
    "/usr/local/cuda*/nsight-compute-*/host/target-linux-x64/nsys",
)
NCU_PLACES = (
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda*/bin/ncu",
    "/usr/local/cuda*/nsight-compute-*/ncu",
)
DEBIAN_PACKAGES = {
    "libdw.so.1": "libdw1",
    "libelf.so.1": "libelf1",
    "libbz2.so.1": "libbz2-1.0",
    "libbz2.so.1.0": "libbz2-1.0",
}
NO_MULTICAST = {
    # A program that uses NVLink multicast can put a shared host's GPUs out of service.
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}

FRAMEWORK_VERSIONS = """
import json
versions = {}
for name in ("torch", "triton", "numpy"):
    try:
        versions[name] = __import__(name).__version__
    except ImportError:
        versions[name] = None
print(json.dumps(versions))
"""


def version_key(path: Path) -> tuple[int, ...]:
    """Sorts /…/2024.2/… before /…/2025.3.1/…."""
    numbers = re.findall(r"\d+", re.sub(r"x86_64|x64", "", str(path)))
    return tuple(int(number) for number in numbers)


def find_nsys(given: str | None = None, root: Path = Path("/")) -> Path:
    """The `nsys` to use: the given one, else from PATH, else the newest installed one.

    Raises RecordError saying where it was looked for.
    """
    return _find("nsys", given, NSYS_PLACES, root) or _lacking(
        "Nsight Systems (nsys) was not found: not on PATH, not under /opt/nvidia/nsight-systems,"
        " /usr/local/cuda or /opt/nvidia/nsight-compute; install it"
        " (https://developer.nvidia.com/nsight-systems) or name it with --nsys PATH"
    )


def find_ncu(given: str | None = None, root: Path = Path("/")) -> Path:
    """The `ncu` to use: the given one, else from PATH, else the newest installed one.

    Raises RecordError saying where it was looked for.
    """
    return _find("ncu", given, NCU_PLACES, root) or _lacking(
        "Nsight Compute (ncu) was not found: not on PATH, not under /opt/nvidia/nsight-compute or"
        " /usr/local/cuda; install it (https://developer.nvidia.com/nsight-compute) or name it with"
        " --ncu PATH"
    )


def _find(name: str, given: str | None, places: Sequence[str], root: Path) -> Path | None:
    if given is not None:
        if not os.access(given, os.X_OK) or Path(given).is_dir():
            raise RecordError(f"{given}: no such program (given with --{name})")
        return Path(given).absolute()
    if on_path := shutil.which(name):
        return Path(on_path).absolute()
    for place in places:
        found = sorted(root.glob(place.lstrip("/")), key=version_key)
        usable = [path for path in found if os.access(path, os.X_OK)]
        if usable:
            return usable[-1]
    return None


def _lacking(message: str) -> Path:
    raise RecordError(message)


def check_importer(nsys: Path) -> None:
    """Raise RecordError where the importer, which turns a recording into a report, cannot run."""
    real = nsys.resolve()
    hosts = [
        importer for folder in real.parents[1:3] for importer in folder.glob("host*/QdstrmImporter")
    ] + list(real.parent.parent.glob("linux-desktop*/QdstrmImporter"))
    if not hosts or not shutil.which("ldd"):
        return
    listing = subprocess.run(["ldd", str(hosts[0])], capture_output=True, text=True, check=False)
    missing = re.findall(r"^\s*(\S+) => not found", listing.stdout, re.MULTILINE)
    if missing:
        packages = sorted({DEBIAN_PACKAGES.get(name, name) for name in missing})
        raise RecordError(
            f"the importer of {real} lacks {', '.join(missing)}; install it"
            f" (Debian, Ubuntu: apt install {' '.join(packages)})"
        )


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@dataclass
class Deadline:
    """The time that one call of the recorder may take."""

    limit_s: float
    start: float = 0.0

    def __post_init__(self) -> None:
        self.start = time.monotonic()

    @property
    def left_s(self) -> float:
        return self.limit_s - (time.monotonic() - self.start)


def run(
    command: Sequence[str],
    *,
    deadline: Deadline,
    folder: Path,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its text; its whole process group ends with the deadline.

    Raises RecordError when it does not start or runs past the deadline.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise RecordError(f"{command[0]}: {error.strerror}") from None
    try:
        output, _ = process.communicate(timeout=max(deadline.left_s, 1.0))
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise RecordError(
                f"{Path(command[0]).name} was still running at the time limit; nothing was kept of"
                " it: run again with --missing"
            ) from None
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, "")


def neutral_environment(extra: dict[str, str]) -> dict[str, str]:
    """PATH and HOME, and nothing of the caller's own environment."""
    folders = [str(Path(sys.executable).parent)]
    folders += [f"{folder}/bin" for folder in CUDA_FOLDERS if Path(folder, "bin").is_dir()]
    folders += ["/usr/bin", "/bin"]
    path = ":".join(dict.fromkeys(folders))
    return {"PATH": path, "HOME": str(WORK_FOLDER), "LANG": "C.UTF-8", **extra}


def isolation() -> list[str]:
    """A command prefix that shows the profiler no process and no host name but its own.

    The profiler notes the environment of every process it can see. As root on Linux a process
    namespace of its own keeps the rest of the machine out of the recording; elsewhere the prefix is
    empty and the scrubber has to do.
    """
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("unshare"):
        return []
    name = 'echo recorder > /proc/sys/kernel/hostname 2>/dev/null; exec "$@"'
    prefix = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]
    prefix += ["sh", "-c", name, "sh"]
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return prefix if tried.returncode == 0 else []


def python_command() -> str:
    """`python3` where that is this interpreter, else its full path."""
    folder = Path(sys.executable).parent
    return "python3" if (folder / "python3").exists() else sys.executable


def _output(command: Sequence[str], timeout: float = 120.0) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _number(text: str) -> str | int:
    return int(text) if text.isdigit() else text


def query_gpus(fields: Sequence[str]) -> list[dict[str, str | int]]:
    """One dict per GPU of `nvidia-smi --query-gpu`; empty where there is no driver."""
    text = _output(
        ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    )
    rows = [[_number(cell.strip()) for cell in line.split(",")] for line in text.splitlines()]
    return [dict(zip(fields, row, strict=False)) for row in rows]


def clocks() -> list[dict[str, str | int]]:
    """Clocks of each GPU as the driver reports them now, in MHz."""
    fields = ("clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem")
    return [
        {
            f"{name.replace('clocks.', '').replace('.', '_')}_mhz": value
            for name, value in gpu.items()
        }
        for gpu in query_gpus(fields)
    ]


def machine() -> dict[str, object]:
    """The machine's part of a provenance: GPUs, how they are linked, driver, CUDA, frameworks."""
    gpus = query_gpus(("name", "memory.total", "compute_cap", "driver_version"))
    smi = _output(["nvidia-smi"])
    driver_cuda = re.search(r"CUDA Version:\s*([\d.]+)", smi)
    nvcc = shutil.which("nvcc") or next(
        (f"{folder}/bin/nvcc" for folder in CUDA_FOLDERS if Path(folder, "bin/nvcc").exists()), ""
    )
    toolkit = re.search(r"release ([\d.]+)", _output([nvcc, "--version"])) if nvcc else None
    topology = re.sub(r"\x1b\[[\d;]*m", "", _output(["nvidia-smi", "topo", "-m"]))
    rows = [line.split() for line in topology.splitlines() if re.match(r"\s*GPU\d", line)]
    links = {row[0]: [cell for cell in row[1:] if cell != "X"] for row in rows if len(row) > 2}
    count = len(gpus)
    frameworks = _output([sys.executable, "-c", FRAMEWORK_VERSIONS])
    return {
        "gpu": [
            {
                "name": gpu["name"],
                "memory_mib": gpu["memory.total"],
                "compute_capability": gpu["compute_cap"],
            }
            for gpu in gpus
        ],
        "topology": {
            "gpus": count,
            "links": {
                name: cells[: count - 1] for name, cells in links.items() if name[3:].isdigit()
            }
            if count > 1
            else {},
            "cpu_cores": os.cpu_count(),
        },
        "driver": gpus[0]["driver_version"] if gpus else None,
        "cuda": {
            "driver": driver_cuda[1] if driver_cuda else None,
            "toolkit": toolkit[1] if toolkit else None,
        },
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "frameworks": json.loads(frameworks) if frameworks else {},
    }
