"""Make what the course shows, pages, figures and notebooks, from `scripts/lesson_sources/`.

    uv run scripts/lessons.py [PATH…]            # which are not what their sources give
    uv run scripts/lessons.py --write PATH…      # make them anew

A PATH is a file that is made, or a folder for all in and below it; none means the whole course. What a
source may hold: `lesson_parts/pages.py`, `plots.py`, `notebooks.py`. Notebooks run only to be written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from profiling_lab import needs  # noqa: E402
from profiling_lab.errors import LabError  # noqa: E402
from scripts.lesson_parts import notebooks, pages, plots  # noqa: E402

PARTS = (pages, plots, notebooks)


def main() -> int:
    """Compare, or write, what is asked for; 1 if something differs, 2 for a PATH where nothing is made."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write them")
    parser.add_argument(
        "--png", type=Path, metavar="DIR", help="draw the figures as PNG too, to look"
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    arguments = parser.parse_args()
    places = [path.resolve() for path in arguments.paths] or [ROOT]
    selected = {
        part: [file for file in part.made() if any(file.is_relative_to(p) for p in places)]
        for part in PARTS
    }
    for place in places:
        if not any(file.is_relative_to(place) for files in selected.values() for file in files):
            parser.error(f"{place}: nothing is made there from {ROOT.name}/scripts/lesson_sources")
    if arguments.png:
        arguments.png.mkdir(parents=True, exist_ok=True)
        for file in selected[plots]:
            (arguments.png / f"{file.stem}.png").write_bytes(plots.draw(file, "png"))
    differ = False
    for part, files in selected.items():
        before = {file: file.read_bytes() if file.is_file() else b"" for file in files}
        if arguments.write:
            part.write(files)
        for file in files:
            name = file.relative_to(ROOT).as_posix()
            if not arguments.write:
                if why := part.difference(file):
                    differ = True
                    print(f"{name}: {why}: uv run scripts/lessons.py --write {name}")
            elif (content := file.read_bytes()) != before[file]:
                print(f"{name}: written, {len(content):,} bytes")
    return 1 if differ else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (LabError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    except ModuleNotFoundError as error:
        if not (said := needs.explain(error)):
            raise
        sys.exit(f"error: {said}")
