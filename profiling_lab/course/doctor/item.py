"""What the doctor says about one thing."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Literal

from profiling_lab import needs
from profiling_lab.course.doctor.machine import Machine

State = Literal["ok", "missing", "limited", "unknown"]
DRIVER_PAGE = "https://www.nvidia.com/drivers"


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


def install(machine: Machine, name: str) -> str:
    """What to do to install something that a group brings; "" where none does."""
    command = needs.remedy([name], machine.platform, machine.architecture)
    return (
        f"In your clone: {command}. In a project of your own: install it there." if command else ""
    )


def driver_repair(machine: Machine) -> str:
    """What to do about a driver that does not answer."""
    if machine.platform == "linux":
        return (
            "Call nvidia-smi yourself. If it hangs or complains too, restart the machine or "
            f"install the driver again ({DRIVER_PAGE})."
        )
    return f"Install the driver again ({DRIVER_PAGE})."


def major(version: str | None) -> int:
    """13 of "13.2"; a large number where the version is not known, so that nothing is claimed."""
    match = re.match(r"\d+", version or "")
    return int(match.group()) if match else sys.maxsize
