"""torch, triton and jax: whether they load, and whether they see a GPU."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from profiling_lab.course.doctor.gpus import Driver
from profiling_lab.course.doctor.item import DRIVER_PAGE, Item, driver_repair, install, major
from profiling_lab.course.doctor.machine import Machine, Probe, shorten

# A kernel is really run: a torch that sees a device may hold no code for its architecture.
TORCH_PROBE = textwrap.dedent("""
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
TRITON_PROBE = "import json, triton; print(json.dumps({'version': triton.__version__}))"
# Not the default of taking most of a GPU's memory, only to ask for its name.
JAX_PROBE = textwrap.dedent("""
    import json, os
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    devices = jax.devices()
    print(json.dumps({"version": jax.__version__, "backend": jax.default_backend(),
                      "devices": [d.device_kind for d in devices]}))
""")
OLDER_TORCH_PAGE = "https://pytorch.org/get-started/previous-versions"


def torch_item(machine: Machine, probe: Probe, driver: Driver) -> Item:
    """torch: whether it loads, and whether a kernel of it runs on the GPU."""
    without = (
        "Timelines and the rest of the recorded work do not need it; tasks that run a model do."
    )
    if probe.trouble == "absent":
        return Item("torch", "missing", "not installed", without, install(machine, "torch"))
    if not probe.data:
        found = f"does not load: {probe.trouble}"
        return Item("torch", "limited", found, without, install(machine, "torch"))
    data = probe.data
    build = _torch_build(data)
    found = f"torch {data['version']}, {build}"
    error = str(data.get("error", ""))
    if data["sees"] and not error:
        names = ", ".join(dict.fromkeys(data.get("names", ())))
        return Item("torch", "ok", f"{found}; runs on {names}", "Live PyTorch work runs here.")
    on_cpu = "Recorded work and everything on the CPU runs; torch cannot use a GPU here."
    if data["sees"]:
        code = ", ".join(data.get("architectures", ()))
        means = f"torch sees the GPU but a first kernel failed. {on_cpu}"
        if "no kernel image" in error:
            means = f"This torch has machine code for {code}, but none for this GPU. {on_cpu}"
            do = f"Install a torch that still supports this GPU ({OLDER_TORCH_PAGE})."
            return Item("torch", "limited", f"{found}; {shorten(error)}", means, do)
        return Item("torch", "limited", f"{found}; {shorten(error)}", means, driver_repair(machine))
    if not driver.gpus and not driver.trouble:
        return Item("torch", "ok", f"{found}; no GPU to see", on_cpu)
    if data.get("cuda") is None:
        do = "Install the build for CUDA from https://pytorch.org (on macOS there is none)."
        means = f"This build of torch has no CUDA in it. {on_cpu}"
        return Item("torch", "limited", found, means, do)
    old = _old_driver([error, *data.get("warnings", ())])
    if old or major(driver.cuda) < major(data["cuda"]):
        supported = old or driver.cuda
        return Item(
            "torch",
            "limited",
            f"{found}; the driver{_number(driver.version)} supports CUDA up to {supported}",
            f"The driver is too old for this torch, which is built for CUDA {data['cuda']}. {on_cpu}",
            f"Either update the driver ({DRIVER_PAGE}) to one that supports CUDA "
            f"{major(data['cuda'])}, or, in an environment of its own, install an older torch "
            f"that was built for CUDA {major(supported)} ({OLDER_TORCH_PAGE}).",
        )
    reason = shorten(error or "torch gives no reason")
    return Item(
        "torch", "limited", f"{found}; sees no GPU: {reason}", on_cpu, driver_repair(machine)
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


def _number(version: str | None) -> str:
    return f" {version}" if version else ""


def triton_item(machine: Machine, probe: Probe, driver: Driver) -> Item:
    """triton: whether it loads, and where its kernels run."""
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
        return Item("triton", "missing", "not installed", means, install(machine, "triton"))
    if not probe.data:
        means = "Tasks that run a Triton kernel will fail here."
        found = f"does not load: {probe.trouble}"
        return Item("triton", "limited", found, means, install(machine, "triton"))
    means = (
        "Triton kernels run on the GPU."
        if driver.gpus
        else "Without a GPU kernels run in Triton's interpreter, on the CPU: slowly, but correctly."
    )
    return Item("triton", "ok", f"triton {probe.data['version']}", means)


def jax_item(machine: Machine, probe: Probe) -> Item:
    """jax: whether it starts, and on what."""
    means = "Only programs that use JAX need it; recorded work does not."
    if probe.trouble == "absent":
        return Item("jax", "missing", "not installed", means, install(machine, "jax"))
    if not probe.data:
        found = f"does not start: {probe.trouble}"
        return Item("jax", "limited", found, means, install(machine, "jax"))
    backend = probe.data["backend"]
    found = f"jax {probe.data['version']}, backend {backend}"
    if backend == "cpu":
        return Item(
            "jax", "ok", found, "JAX programs run on the CPU here; recorded work does not use it."
        )
    kinds = ", ".join(dict.fromkeys(probe.data.get("devices", ())))
    return Item("jax", "ok", f"{found} ({kinds})", "JAX programs run on the device.")
