"""Captures by the program itself: the files that it writes into its working folder."""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from profiling_lab.record import scrub
from profiling_lab.record.errors import RecordError
from profiling_lab.record.profilers.base import Profiler, ended_well, keep

if TYPE_CHECKING:
    from profiling_lab.record.recipes import Recipe

PICKLES = (".pickle", ".pkl")


class Program(Profiler):
    """`files` names what the program writes, in its working folder, and what is kept of it.

    Texts (also compressed: `.gz`) and pickles of plain values lose the folders of this machine's
    Python, its ids and its names; a large text is kept compressed.
    """

    name = "program"
    title = "the program itself"
    keys = frozenset(("files",))

    @classmethod
    def command(cls, recipe: Recipe, program: Sequence[str]) -> list[str]:
        return list(program)

    @classmethod
    def main_file(cls, recipe: Recipe) -> str:
        files = recipe.own.get("files", ())
        if not files:
            raise RecordError(f"[{recipe.name}]: tool = 'program' needs files = […]")
        return str(files[0])

    @classmethod
    def find(cls, given: str | None) -> None:
        return None

    def version(self) -> str:
        return f"Python {'.'.join(str(part) for part in sys.version_info[:3])}"

    def profile(self, recipe: Recipe, program: Sequence[str], work: Path) -> str:
        caches = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
        folders = {name: str(work / folder) for name, folder in caches.items()}
        done = self.isolated(recipe, program, work, TMPDIR=str(work), **folders)
        ended_well(done, program)
        return done.stdout

    def collect(self, recipe: Recipe, work: Path, fresh: Path) -> None:
        self.main_file(recipe)
        for name in recipe.own["files"]:
            made = work / name
            if not made.is_file():
                raise RecordError(f"the program wrote no {name} into its working folder")
            plain = Path(name).with_suffix("") if made.suffix == ".gz" else Path(name)
            data = made.read_bytes()
            if made.suffix == ".gz":
                data = gzip.decompress(data)
            if plain.suffix in PICKLES:
                data = scrub.neutral_pickle(data, work, self.setting.own_names)
            elif b"\0" in data[:8192]:  # a database, an image: only the leak check can judge it
                shutil.copyfile(made, fresh / name)
                continue
            else:
                data = scrub.neutral_text(data, work, self.setting.own_names)
            keep(fresh, str(plain), data)
