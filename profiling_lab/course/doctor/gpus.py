"""The driver and its GPUs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from profiling_lab.course.doctor.capabilities import gpu_count
from profiling_lab.course.doctor.item import DRIVER_PAGE, Item, State, driver_repair, major
from profiling_lab.course.doctor.machine import TOOL_GUARD_S, Machine, ask_python, why

NVML_PROBE = textwrap.dedent("""
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


def ask_driver(machine: Machine) -> Driver:
    """Ask NVML, then nvidia-smi, for driver and GPUs."""
    if machine.platform == "darwin":
        return Driver()
    nvml_trouble = ""
    if machine.module("pynvml"):
        probe = ask_python(machine, NVML_PROBE, TOOL_GUARD_S)
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
        quiet = not gpu_count(machine)
        return Driver(trouble="" if quiet else nvml_trouble or "nvidia-smi is not on PATH")
    query = "--query-gpu=name,compute_cap,memory.total,driver_version"
    answer = machine.run([program, query, "--format=csv,noheader,nounits"])
    if not answer.good:
        return Driver(trouble=f"nvidia-smi: {why(answer)}")
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


def gpu_item(machine: Machine, driver: Driver) -> Item:
    """The GPUs, or why none is seen."""
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
        if gpu_count(machine) == 0 and hidden is not None:
            return Item(
                "GPU",
                "limited",
                f"{found}; hidden by CUDA_VISIBLE_DEVICES={hidden!r}",
                f"Programs started here see no GPU. {recorded}",
                "Unset CUDA_VISIBLE_DEVICES.",
            )
        return Item("GPU", "ok", found, "Live checks use it: add --live.")
    if driver.trouble:
        return Item("GPU", "unknown", driver.trouble, recorded, driver_repair(machine))
    if gpu_count(machine) and machine.platform == "linux":
        return Item(
            "GPU",
            "unknown",
            "device files are here, but no driver library answers",
            recorded,
            "In a container: start it with GPU support (docker run --gpus all).",
        )
    return Item("GPU", "missing", "no NVIDIA GPU", recorded)


def driver_item(machine: Machine, driver: Driver, torch_cuda: str | None, nvcc_cuda: str) -> Item:
    """The driver, and whether it runs what is built here."""
    if driver.version:
        supports = f", supports CUDA up to {driver.cuda}" if driver.cuda else ""
        found = f"NVIDIA {driver.version}{supports}"
        built = {"torch": torch_cuda, "what nvcc builds": nvcc_cuda}
        too_new = [
            f"{name} (CUDA {cuda})"
            for name, cuda in built.items()
            if cuda and major(driver.cuda) < major(cuda)
        ]
        if too_new:
            return Item(
                "driver",
                "limited",
                found,
                f"Too old for {' and '.join(too_new)}: that cannot run on this GPU.",
                f"Update the driver ({DRIVER_PAGE}) to one that supports CUDA "
                f"{max(major(cuda) for cuda in built.values() if cuda)}.",
            )
        # Within one major release of CUDA a driver runs what a newer minor release built.
        same = f"CUDA {major(driver.cuda)} or older" if driver.cuda else "its CUDA or older"
        return Item("driver", "ok", found, f"Programs built for {same} can run.")
    if driver.trouble:
        return Item(
            "driver",
            "unknown",
            driver.trouble,
            "Without an answer from the driver nothing runs on the GPU.",
            driver_repair(machine),
        )
    return Item("driver", "missing", "no NVIDIA driver", "Needed only for live work on a GPU.")


def several_gpus(driver: Driver) -> list[Item]:
    """How several GPUs reach each other; nothing of fewer than two."""
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
