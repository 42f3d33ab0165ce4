"""Captures by Nsight Systems: a scrubbed SQLite, the tool's reports on it, the report if clean."""

from __future__ import annotations

import csv
import io
import json
import platform
import re
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from profiling_lab.record import leaks, scrub, tools
from profiling_lab.record.errors import RecordError
from profiling_lab.record.profilers.base import Profiler, Setting, ended_well, keep, last_line

if TYPE_CHECKING:
    from profiling_lab.record.recipes import Recipe

TIMELINE = "timeline.sqlite"
REPORT = "timeline.nsys-rep"
SCHEMA = "nsys_schema.sql"


class NsightSystems(Profiler):
    """`options` go to `nsys profile`; `stats` and `more_stats` name reports of `nsys stats`;
    `report = true` keeps the .nsys-rep where it can be shown to be clean; `callchains = true` keeps
    call stacks and CPU samples."""

    name = "nsys"
    title = "Nsight Systems"
    keys = frozenset(("report", "stats", "more_stats", "callchains"))
    help_texts: ClassVar[dict[str, tuple[str, ...]]] = {
        "nsys_profile.txt": ("profile", "--help"),
        "nsys_export.txt": ("export", "--help"),
        "nsys_stats.txt": ("stats", "--help"),
        "nsys_stats_reports.txt": ("stats", "--help-reports"),
        "nsys_analyze.txt": ("analyze", "--help"),
    }

    def __init__(self, setting: Setting, given: str | None = None) -> None:
        super().__init__(setting, given)
        self.schema: dict[str, str] = {}
        self._version = ""

    @classmethod
    def command(cls, recipe: Recipe, program: Sequence[str]) -> list[str]:
        return ["nsys", "profile", *recipe.own.get("options", ()), *program]

    @classmethod
    def main_file(cls, recipe: Recipe) -> str:
        return TIMELINE

    @classmethod
    def find(cls, given: str | None) -> Path:
        nsys = tools.find_nsys(given)
        tools.check_importer(nsys)
        return nsys

    def version(self) -> str:
        if not self._version:
            text = self.run_tool("--version").stdout
            match = re.search(r"version (\S+)", text)
            self._version = match[1] if match else text.strip()
        return self._version

    def schema_version(self, folder: Path) -> str:
        connection = sqlite3.connect(folder / TIMELINE)
        try:
            query = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"
            row = connection.execute(query).fetchone()
        except sqlite3.Error:
            row = None
        finally:
            connection.close()
        return str(row[0]) if row else "unknown"

    def profile(self, recipe: Recipe, program: Sequence[str], work: Path) -> str:
        command = [str(self.tool), "profile", "--output=timeline", "--force-overwrite=true"]
        done = self.isolated(recipe, [*command, *recipe.own.get("options", ()), *program], work)
        if not (work / REPORT).is_file():
            raise RecordError(f"nsys profile made no report: {last_line(done.stdout)}")
        ended_well(done, program, before="Generating")
        return done.stdout

    def collect(self, recipe: Recipe, work: Path, fresh: Path) -> None:
        """Export, scrub, and keep the report where it can be shown to be clean."""
        report = work / REPORT
        names = [name.encode() for name in (platform.release(),)]
        report.write_bytes(leaks.neutralise_report(report.read_bytes(), names))
        callchains = bool(recipe.own.get("callchains"))
        # Frames of Python are payloads of NVTX marks, which the exporter leaves out unless told.
        payloads = ["--include-json=true"] if callchains else []
        exported = self.run_tool(
            "export", "--type=sqlite", f"--output={TIMELINE}", "--force-overwrite=true", *payloads,
            REPORT, folder=work,
        )  # fmt: skip
        timeline = work / TIMELINE
        if not timeline.is_file():
            raise RecordError(f"nsys export wrote no SQLite: {last_line(exported.stdout)}")
        _require_device_work(timeline)
        self.schema.update(_schema(timeline))
        shutil.copyfile(timeline, fresh / TIMELINE)
        scrub.scrub(fresh / TIMELINE, callchains=callchains)
        if reports := (*recipe.own.get("stats", ()), *recipe.own.get("more_stats", ())):
            self._stats(reports, fresh / TIMELINE, work, fresh / "stats")
        if recipe.own.get("report"):
            if found := leaks.find_leaks(report, self.setting.own_names):
                shown = "; ".join(found[:3])
                self.setting.say(f"  {recipe.name}: the .nsys-rep is not kept: {shown}")
            else:
                shutil.copyfile(report, fresh / REPORT)

    def _stats(self, reports: Sequence[str], timeline: Path, work: Path, folder: Path) -> None:
        """The tool's own reports, computed from the SQLite that is kept."""
        folder.mkdir()
        scratch = work / "kept.sqlite"  # the tool writes beside its input
        shutil.copy(timeline, scratch)
        done = self.run_tool(
            "stats", f"--report={','.join(reports)}", "--format=csv", "--output=stats",
            "--force-overwrite=true", scratch.name, folder=work,
        )  # fmt: skip
        for name in reports:
            made = work / f"stats_{name}.csv"
            if not made.is_file():
                if f"{name}.py] (SKIPPED)" in done.stdout or "SKIPPED" in done.stdout:
                    continue
                raise RecordError(f"nsys stats {name}: {last_line(done.stdout)}")
            data = made.read_bytes()
            if list(csv.reader(io.StringIO(data.decode()))):
                keep(folder, f"{name}.csv", data)

    def finish(self) -> None:
        """Add the tables seen in this call to `tool_help/nsys_schema.sql`."""
        folder = self.setting.captures / "tool_help"
        file, provenance_file = folder / SCHEMA, folder / "provenance.json"
        if not self.schema or not provenance_file.is_file():
            return
        known = dict(self.schema)
        if file.is_file():
            for sql in file.read_text(encoding="utf-8").split(";\n"):
                if match := re.search(r"CREATE TABLE \"?(\w+)", sql):
                    known.setdefault(match[1], sql.strip())
        text = "".join(f"{known[name]};\n\n" for name in sorted(known))
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        provenance = json.loads(provenance_file.read_text(encoding="utf-8"))
        provenance["files"][file.name] = tools.sha256(file)
        provenance_file.write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")


def _schema(timeline: Path) -> dict[str, str]:
    """Table name to its CREATE TABLE statement, with the exporter's comments."""
    connection = sqlite3.connect(timeline)
    try:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
        return dict(connection.execute(query))
    finally:
        connection.close()


def _require_device_work(timeline: Path) -> None:
    """A recording without any work of the device is a failed one."""
    connection = sqlite3.connect(timeline)
    try:
        query = "SELECT name FROM sqlite_master WHERE name LIKE 'CUPTI_ACTIVITY_KIND_%'"
        tables = {name for (name,) in connection.execute(query)}
    except sqlite3.DatabaseError as error:
        raise RecordError(f"nsys export wrote no readable SQLite: {error}") from None
    finally:
        connection.close()
    wanted = {f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "GRAPH_TRACE", "MEMCPY")}
    if not tables & wanted:
        raise RecordError("the recording holds no work of the device: was the capture range run?")
