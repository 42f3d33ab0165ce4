"""Captures by Nsight Compute: counters of each kernel as CSV, and the report if clean."""

from __future__ import annotations

import csv
import io
import platform
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from profiling_lab.record import leaks, scrub, tools
from profiling_lab.record.errors import RecordError
from profiling_lab.record.profilers.base import Profiler, Setting, ended_well, keep, last_line

if TYPE_CHECKING:
    from profiling_lab.record.recipes import Recipe

KERNELS = "kernels.csv"
REPORT = "kernels.ncu-rep"
LOG = "ncu.log"
MOST_REPORT_BYTES = 400_000  # a report of few kernels and sections; a full one takes ten megabytes
# File of the capture to the arguments that print it from the report.
PAGES = {
    KERNELS: ("--page", "raw", "--csv", "--print-units", "auto"),
    "details.csv": ("--page", "details", "--csv", "--print-units", "auto"),
    "source.csv": ("--page", "source", "--csv", "--print-source", "cuda,sass"),
}


class NsightCompute(Profiler):
    """`options` go to `ncu`; the program runs once without it (what it reports then is its own
    time), once under it with `profiled_args` added. `pages` lists the files that are kept, of those
    in PAGES; `source_of` is a regular expression of the kernels whose source page is kept;
    `report = true` keeps the .ncu-rep where it can be shown to be clean."""

    name = "ncu"
    title = "Nsight Compute"
    keys = frozenset(("report", "pages", "source_of", "profiled_args"))
    help_texts: ClassVar[dict[str, tuple[str, ...]]] = {
        "ncu.txt": ("--help",),
        "ncu_sets.txt": ("--list-sets",),
        "ncu_sections.txt": ("--list-sections",),
    }

    def __init__(self, setting: Setting, given: str | None = None) -> None:
        super().__init__(setting, given)
        self._version = ""

    @classmethod
    def command(cls, recipe: Recipe, program: Sequence[str]) -> list[str]:
        extra = recipe.own.get("profiled_args", ())
        return ["ncu", *recipe.own.get("options", ()), *program, *extra]

    @classmethod
    def main_file(cls, recipe: Recipe) -> str:
        return KERNELS

    @classmethod
    def find(cls, given: str | None) -> Path:
        return tools.find_ncu(given)

    def version(self) -> str:
        if not self._version:
            text = self.run_tool("--version").stdout
            match = re.search(r"Version (\S+)", text)
            self._version = match[1] if match else text.strip()
        return self._version

    def profile(self, recipe: Recipe, program: Sequence[str], work: Path) -> str:
        alone = self.isolated(recipe, program, work)
        ended_well(alone, program)
        command = [str(self.tool), "--export", REPORT, "--force-overwrite"]
        command += recipe.own.get("options", ())
        command += [*program, *recipe.own.get("profiled_args", ())]
        done = self.isolated(recipe, command, work)
        (work / LOG).write_text(done.stdout, encoding="utf-8")
        if errors := re.findall(r"^==ERROR== (.*)", done.stdout, re.MULTILINE):
            raise RecordError(f"ncu: {errors[0]}")
        if not (work / REPORT).is_file():
            raise RecordError(f"ncu made no report: {last_line(done.stdout)}")
        ended_well(done, program, before="==PROF== Report")
        return alone.stdout

    def collect(self, recipe: Recipe, work: Path, fresh: Path) -> None:
        """Print the pages from the report that is kept, so that they say the same."""
        report = work / REPORT
        names = [name.encode() for name in (platform.release(),)]
        report.write_bytes(leaks.neutralise_report(report.read_bytes(), names))
        for page in recipe.own.get("pages", (KERNELS, "details.csv")):
            if page not in PAGES:
                raise RecordError(f"no page {page!r}; there are {', '.join(PAGES)}")
            try:
                text = self._page(recipe, page, work)
            except RecordError as error:
                if page == KERNELS:
                    raise
                self.setting.say(f"  {recipe.name}: {error}")
            else:
                keep(fresh, page, scrub.neutral_text(text.encode(), work, self.setting.own_names))
        # How often each kernel ran for its counters: the log says it, the report does not.
        log = (work / LOG).read_text(encoding="utf-8")
        lines = re.findall(r"^==(?:PROF|WARNING)== (.*)", log, re.MULTILINE)
        text = "".join(f"{line}\n" for line in lines).encode()
        keep(fresh, LOG, scrub.neutral_text(text, work, self.setting.own_names))
        if recipe.own.get("report"):
            found = leaks.find_leaks(report, self.setting.own_names)
            if report.stat().st_size > MOST_REPORT_BYTES:
                found = [f"it has {report.stat().st_size} bytes", *found]
            if found:
                shown = "; ".join(found[:3])
                self.setting.say(f"  {recipe.name}: the .ncu-rep is not kept: {shown}")
            else:
                shutil.copyfile(report, fresh / REPORT)

    def _page(self, recipe: Recipe, page: str, work: Path) -> str:
        arguments = ["--import", REPORT, *PAGES[page]]
        if page.startswith("source") and (chosen := recipe.own.get("source_of")):
            arguments += ["--kernel-name", f"regex:{chosen}"]
        text = self.run_tool(*arguments, folder=work).stdout
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith("==")]
        text = "".join(lines)
        rows = list(csv.reader(io.StringIO(text)))
        if len(rows) < 3:  # names, units (or the kernel's name), at least one row
            raise RecordError(f"ncu printed no {page}: {last_line(text)}")
        return text
