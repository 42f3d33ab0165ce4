"""Record one capture: build, run under the profiler, export, scrub, describe, put in place."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import os
import platform
import re
import shutil
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path

from profiling_lab.record import leaks, recipes, scrub, tools
from profiling_lab.record.recipes import PROVENANCE, README, REPORT, TIMELINE, Recipe, RecordError

COMPRESS_STATS_ABOVE_BYTES = 64 * 1024
HELP_TEXTS = {
    "nsys_profile": ("profile", "--help"),
    "nsys_export": ("export", "--help"),
    "nsys_stats": ("stats", "--help"),
    "nsys_stats_reports": ("stats", "--help-reports"),
    "nsys_analyze": ("analyze", "--help"),
}


class Session:
    """One call of the recorder: the tool, the machine, the time that is left."""

    def __init__(
        self,
        captures: Path,
        nsys: Path,
        deadline: tools.Deadline,
        say: Callable[[str], None],
        isolate: bool = True,
        keep_work: bool = False,
    ) -> None:
        self.captures = captures
        self.nsys = nsys
        self.deadline = deadline
        self.say = say
        self.prefix = tools.isolation() if isolate else []
        self.keep_work = keep_work
        self.schema: dict[str, str] = {}
        self._machine: dict[str, object] | None = None
        self._version = ""

    @property
    def machine(self) -> dict[str, object]:
        if self._machine is None:
            self._machine = tools.machine()
        return self._machine

    @property
    def gpu_count(self) -> int:
        return len(self.machine["gpu"])  # type: ignore[arg-type]

    def version(self) -> str:
        if not self._version:
            text = self._tool("--version").stdout
            match = re.search(r"version (\S+)", text)
            self._version = match[1] if match else text.strip()
        return self._version

    def record(self, recipe: Recipe) -> Path:
        """Record one capture and put it in place; returns its folder.

        Everything is made in a folder of its own and moved at the end: what was there before stays
        until then. Raises RecordError.
        """
        hashes = recipes.source_hashes(recipe)
        work = tools.WORK_FOLDER / recipe.name
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        fresh = self.captures / f".{recipe.name}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        try:
            program = self._prepare(recipe, work)
            before = tools.clocks()
            output = self._profile(recipe, program, work)
            after = tools.clocks()
            self._collect(recipe, work, fresh)
            self._describe(recipe, fresh, hashes, output, {"before": before, "after": after})
            self._check(fresh)
            return self._put_in_place(recipe.name, fresh)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            if not self.keep_work:
                shutil.rmtree(work, ignore_errors=True)

    # -- steps ------------------------------------------------------------------------------------

    def _prepare(self, recipe: Recipe, work: Path) -> list[str]:
        """Copy (and build) the program; returns its command line."""
        if not recipe.is_cuda:
            shutil.copy(recipe.program, work)
            return [tools.python_command(), recipe.program.name, *recipe.args]
        for source in recipe.build_folder.iterdir():
            if source.suffix in (".cu", ".cuh", ".h") or source.name == "Makefile":
                shutil.copy(source, work)
        shutil.copy(recipe.program, work)
        built = tools.run(
            ["make", recipe.target],
            deadline=self.deadline,
            folder=work,
            environment=tools.neutral_environment({}),
        )
        if built.returncode or not (work / recipe.target).is_file():
            raise RecordError(f"make {recipe.target} failed: {_last_line(built.stdout)}")
        return [f"./{recipe.target}", *recipe.args]

    def _profile(self, recipe: Recipe, program: list[str], work: Path) -> str:
        extra = dict(recipe.environment)
        if recipe.gpus > 1:
            extra = {**tools.NO_MULTICAST, **extra}
        command = [*self.prefix, str(self.nsys), "profile", "--output=timeline"]
        command += ["--force-overwrite=true", *recipe.options, *program]
        done = tools.run(
            command,
            deadline=self.deadline,
            folder=work,
            environment=tools.neutral_environment(extra),
        )
        if not (work / REPORT).is_file():
            raise RecordError(f"nsys profile made no report: {_last_line(done.stdout)}")
        if done.returncode:
            raise RecordError(
                f"{' '.join(program)} ended with status {done.returncode}:"
                f" {_last_line(done.stdout, before='Generating')}"
            )
        return done.stdout

    def _collect(self, recipe: Recipe, work: Path, fresh: Path) -> None:
        """Export, scrub, and keep the report where it can be shown to be clean."""
        report = work / REPORT
        names = [name.encode() for name in (platform.release(),)]
        report.write_bytes(leaks.neutralise_report(report.read_bytes(), names))
        exported = self._tool(
            "export", "--type=sqlite", "--output=timeline.sqlite", "--force-overwrite=true",
            REPORT, folder=work,
        )  # fmt: skip
        timeline = work / TIMELINE
        if not timeline.is_file():
            raise RecordError(f"nsys export wrote no SQLite: {_last_line(exported.stdout)}")
        _require_device_work(timeline)
        self.schema.update(_schema(timeline))
        shutil.copyfile(timeline, fresh / TIMELINE)
        scrub.scrub(fresh / TIMELINE)
        if recipe.stats:
            self._stats(recipe, fresh / TIMELINE, work, fresh / "stats")
        if recipe.report:
            found = leaks.find_leaks(report, _own_names())
            if found:
                self.say(f"  {recipe.name}: the .nsys-rep is not kept: {'; '.join(found[:3])}")
            else:
                shutil.copyfile(report, fresh / REPORT)

    def _stats(self, recipe: Recipe, timeline: Path, work: Path, folder: Path) -> None:
        """The tool's own reports, computed from the SQLite that is kept."""
        folder.mkdir()
        scratch = work / "kept.sqlite"  # the tool writes beside its input
        shutil.copy(timeline, scratch)
        done = self._tool(
            "stats", f"--report={','.join(recipe.stats)}", "--format=csv", "--output=stats",
            "--force-overwrite=true", scratch.name, folder=work,
        )  # fmt: skip
        for name in recipe.stats:
            made = work / f"stats_{name}.csv"
            if not made.is_file():
                if f"{name}.py] (SKIPPED)" in done.stdout or "SKIPPED" in done.stdout:
                    continue
                raise RecordError(f"nsys stats {name}: {_last_line(done.stdout)}")
            data = made.read_bytes()
            if len(data) > COMPRESS_STATS_ABOVE_BYTES:
                (folder / f"{name}.csv.gz").write_bytes(gzip.compress(data, 9, mtime=0))
            elif list(csv.reader(io.StringIO(data.decode()))):
                (folder / f"{name}.csv").write_bytes(data)

    def _describe(
        self,
        recipe: Recipe,
        fresh: Path,
        hashes: dict[str, str],
        output: str,
        clocks: dict[str, object],
    ) -> None:
        result = re.search(r"^RESULT (\{.*\})", output, re.MULTILINE)
        reported: object = None
        if result:
            reported = json.loads(result[1])
        elif pairs := re.findall(r"^([a-z_]+) ([0-9a-f.]+)$", output, re.MULTILINE):
            reported = dict(pairs)
        files = {
            str(file.relative_to(fresh)): recipes.sha256(file)
            for file in sorted(fresh.rglob("*"))
            if file.is_file()
        }
        provenance = {
            "capture": recipe.name,
            "question": recipe.question,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            **self.machine,
            "clocks": clocks,
            "tool": {
                "name": "Nsight Systems",
                "version": self.version(),
                "schema_version": _schema_version(fresh / TIMELINE),
            },
            "command": " ".join(recipe.command()),
            "program": {
                "path": str(os.path.relpath(recipe.program, self.captures.resolve().parent)),
                "sha256": hashes,
            },
            "reported_by_program": reported,
            "files": files,
        }
        (fresh / PROVENANCE).write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")

    def _check(self, fresh: Path) -> None:
        found = [
            leak
            for file in sorted(fresh.rglob("*"))
            if file.is_file()
            for leak in leaks.find_leaks(file, _own_names())
        ]
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise RecordError(f"not kept, it tells of this machine: {found[0]}{more}")

    def _put_in_place(self, name: str, fresh: Path) -> Path:
        place = self.captures / name
        if (place / README).is_file():
            shutil.copy(place / README, fresh / README)
        old = self.captures / f".{name}.old"
        shutil.rmtree(old, ignore_errors=True)
        if place.exists():
            place.rename(old)
        fresh.rename(place)
        shutil.rmtree(old, ignore_errors=True)
        return place

    # -- the tool ---------------------------------------------------------------------------------

    def _tool(self, *arguments: str, folder: Path | None = None):
        return tools.run(
            [str(self.nsys), *arguments],
            deadline=self.deadline,
            folder=folder or Path("/"),
            environment=tools.neutral_environment({}),
        )

    def save_schema(self) -> None:
        """Add the tables seen in this session to `tool_help/nsys_schema.sql`."""
        file = self.captures / "tool_help" / "nsys_schema.sql"
        if not self.schema or not file.parent.is_dir():
            return
        known = dict(self.schema)
        if file.is_file():
            for sql in file.read_text(encoding="utf-8").split(";\n"):
                if match := re.search(r"CREATE TABLE \"?(\w+)", sql):
                    known.setdefault(match[1], sql.strip())
        text = "".join(f"{known[name]};\n\n" for name in sorted(known))
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        provenance_file = file.parent / PROVENANCE
        provenance = json.loads(provenance_file.read_text(encoding="utf-8"))
        provenance["files"][file.name] = recipes.sha256(file)
        provenance_file.write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")

    def save_help(self) -> Path:
        """Keep the tool's own help texts, so that options can be checked without the tool."""
        fresh = self.captures / ".tool_help.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for name, arguments in HELP_TEXTS.items():
            text = self._tool(*arguments).stdout.replace(str(self.nsys.parent), "<nsys folder>")
            (fresh / f"{name}.txt").write_text(text, encoding="utf-8")
        provenance = {
            "tool": {"name": "Nsight Systems", "version": self.version()},
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "commands": {
                f"{name}.txt": " ".join(("nsys", *arguments))
                for name, arguments in HELP_TEXTS.items()
            },
            "files": {file.name: recipes.sha256(file) for file in sorted(fresh.glob("*.txt"))},
        }
        (fresh / PROVENANCE).write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
        self._check(fresh)
        return self._put_in_place("tool_help", fresh)


def _schema(timeline: Path) -> dict[str, str]:
    """Table name to its CREATE TABLE statement, with the exporter's comments."""
    connection = sqlite3.connect(timeline)
    try:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
        return dict(connection.execute(query))
    finally:
        connection.close()


def _own_names() -> list[bytes]:
    """Names of this host and user, which no shipped byte may hold."""
    names = {socket.gethostname(), os.environ.get("USER", ""), Path.home().name}
    common = {"root", "localhost", "user", "ubuntu", "recorder"}
    return sorted(name.encode() for name in names if len(name) >= 4 and name not in common)


def _last_line(text: str, before: str | None = None) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if before:
        cut = next((i for i, line in enumerate(lines) if line.startswith(before)), len(lines))
        lines = lines[:cut]
    return lines[-1] if lines else "no output"


def _schema_version(timeline: Path) -> str:
    connection = sqlite3.connect(timeline)
    try:
        query = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"
        row = connection.execute(query).fetchone()
    except sqlite3.Error:
        row = None
    finally:
        connection.close()
    return str(row[0]) if row else "unknown"


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
