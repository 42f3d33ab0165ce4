"""Record one capture: build, run under its profiler, collect, describe, check, put in place."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profiling_lab.record import leaks, recipes, tools
from profiling_lab.record.errors import RecordError
from profiling_lab.record.profilers import PROFILERS, Profiler, Setting
from profiling_lab.record.profilers.base import last_line
from profiling_lab.record.recipes import PROVENANCE, README, Recipe


class Session:
    """One call of the recorder: the profilers, the machine, the time that is left.

    given: name of a profiler to the path of the program to use for it.
    """

    def __init__(
        self,
        captures: Path,
        deadline: tools.Deadline,
        say: Callable[[str], None],
        given: Mapping[str, str | None] | None = None,
        isolate: bool = True,
        keep_work: bool = False,
    ) -> None:
        self.captures = captures
        self.deadline = deadline
        self.given = given or {}
        self.keep_work = keep_work
        prefix = tuple(tools.isolation() if isolate else ())
        self.setting = Setting(captures, deadline, say, prefix, tuple(_own_names()))
        self._profilers: dict[str, Profiler] = {}
        self._machine: dict[str, object] | None = None

    def profiler(self, name: str) -> Profiler:
        """The profiler of that name, found when it is first asked for. Raises RecordError."""
        if name not in self._profilers:
            self._profilers[name] = PROFILERS[name](self.setting, self.given.get(name))
        return self._profilers[name]

    @property
    def machine(self) -> dict[str, object]:
        if self._machine is None:
            self._machine = tools.machine()
        return self._machine

    @property
    def gpu_count(self) -> int:
        return len(self.machine["gpu"])  # type: ignore[arg-type]

    def record(self, recipe: Recipe) -> Path:
        """Record one capture and put it in place; returns its folder.

        Everything is made in a folder of its own and moved at the end: what was there before stays
        until then. Raises RecordError.
        """
        hashes = recipes.source_hashes(recipe)
        profiler = self.profiler(recipe.tool)
        work = tools.WORK_FOLDER / recipe.name
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        fresh = self.captures / f".{recipe.name}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        try:
            program = self._prepare(recipe, work)
            before = tools.clocks()
            output = profiler.profile(recipe, program, work)
            after = tools.clocks()
            profiler.collect(recipe, work, fresh)
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
        for source in recipe.more_sources:
            shutil.copy(source, work)
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
            raise RecordError(f"make {recipe.target} failed: {last_line(built.stdout)}")
        return [f"./{recipe.target}", *recipe.args]

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
        profiler = self.profiler(recipe.tool)
        files = {
            str(file.relative_to(fresh)): tools.sha256(file)
            for file in sorted(fresh.rglob("*"))
            if file.is_file()
        }
        provenance = {
            "capture": recipe.name,
            "question": recipe.question,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            **self.machine,
            "gpu": self._used(recipe, self.machine["gpu"]),
            "clocks": {when: self._used(recipe, found) for when, found in clocks.items()},
            "tool": {
                "name": profiler.title,
                "version": profiler.version(),
                "schema_version": profiler.schema_version(fresh),
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

    def _used(self, recipe: Recipe, gpus: Any) -> Any:
        """Of a list with an entry a GPU, those of the GPUs that the program runs on: the first ones."""
        return gpus[: recipe.gpus or None]

    def _check(self, fresh: Path) -> None:
        found = [
            leak
            for file in sorted(fresh.rglob("*"))
            if file.is_file()
            for leak in leaks.find_leaks(file, self.setting.own_names)
        ]
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise RecordError(f"not kept, because it names this machine: {found[0]}{more}")

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

    # -- help texts -------------------------------------------------------------------------------

    def save_help(self, names: list[str]) -> Path:
        """Keep the help texts of these profilers, so that options can be checked without them.

        What is kept already of another profiler stays.
        """
        place = self.captures / "tool_help"
        fresh = self.captures / ".tool_help.new"
        shutil.rmtree(fresh, ignore_errors=True)
        if place.is_dir():
            shutil.copytree(place, fresh)
        else:
            fresh.mkdir(parents=True)
        file = fresh / PROVENANCE
        provenance = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        for key in ("tools", "commands", "files"):
            provenance.setdefault(key, {})
        for name in names:
            profiler = self.profiler(name)
            provenance["tools"][name] = {
                "name": profiler.title,
                "version": profiler.version(),
                "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            }
            for text_name, arguments in profiler.help_texts.items():
                text = profiler.run_tool(*arguments).stdout
                if profiler.tool:
                    text = text.replace(str(profiler.tool.parent), f"<{name} folder>")
                (fresh / text_name).write_text(text, encoding="utf-8")
                provenance["commands"][text_name] = " ".join((name, *arguments))
        provenance["files"] = {
            path.name: tools.sha256(path) for path in sorted(fresh.iterdir()) if path != file
        }
        file.write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")
        self._check(fresh)
        return self._put_in_place("tool_help", fresh)

    def finish(self) -> None:
        for profiler in self._profilers.values():
            profiler.finish()


def _own_names() -> list[bytes]:
    """Names of this host and user, which no shipped byte may hold."""
    names = {socket.gethostname(), os.environ.get("USER", ""), Path.home().name}
    common = {"root", "localhost", "user", "ubuntu", "recorder"}
    return sorted(name.encode() for name in names if len(name) >= 4 and name not in common)
