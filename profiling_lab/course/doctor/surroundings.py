"""The system, the disk, a screen, notebooks."""

from __future__ import annotations

import re

from profiling_lab.course.doctor.item import Item, install
from profiling_lab.course.doctor.machine import Machine

# A trace without a capture range grows to gigabytes within minutes.
ROOM_FOR_CAPTURES_BYTES = 2 * 1024**3


def python_item(machine: Machine) -> Item:
    """The operating system and Python."""
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


def disk_item(machine: Machine) -> Item:
    """Free space for captures."""
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


def viewer_item(machine: Machine) -> Item:
    """Whether there is a screen to look at reports."""
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


def notebooks_item(machine: Machine) -> Item:
    """What notebooks need."""
    absent = [name for name in ("jupyterlab", "matplotlib") if machine.module(name) is None]
    if not absent:
        return Item("notebooks", "ok", "Jupyter and Matplotlib", "Lessons' notebooks run here.")
    means = "You can read the lessons' notebooks in their folders. To run them you need more."
    found = f"no {' and no '.join(absent)}"
    return Item("notebooks", "missing", found, means, install(machine, "matplotlib"))
