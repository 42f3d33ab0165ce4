"""What the doctor found, in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from profiling_lab.course.doctor.item import Item

if TYPE_CHECKING:
    from rich.console import RenderableType


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
        lines.append(
            "Live checks and recordings of your own: not here, because there is no NVIDIA GPU."
        )
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
