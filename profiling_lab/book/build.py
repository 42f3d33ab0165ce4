"""Build the book, and serve it while it is written."""

from __future__ import annotations

import functools
import http.server
import io
import logging
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from profiling_lab import needs
from profiling_lab.book import recordings
from profiling_lab.book.pages import FRONT, Pages
from profiling_lab.course import manifest
from profiling_lab.course.lab_folder import FOLDER
from profiling_lab.course.manifest import Course

HERE = Path(__file__).parent


def build(course: Course, output: Path) -> list[str]:
    """Write the book to a folder; what the generator complains about, a line each.

    Raises LabError where the generator is not installed.
    """
    sphinx = [needs.module(name) for name in ("furo", "myst_parser", "sphinx.application")][-1]
    known = recordings.names(course.root)
    shown = sorted(Pages(course, known).shown)
    drawn = recordings.write(course.root, shown, output / "reports")
    # What has no report has no link either.
    pages = Pages(course, {name: known[name] for name in drawn})
    texts = {str(file.with_suffix("")): text for file, text in pages.texts.items()}
    said = io.StringIO()
    given = {
        "project": course.title,
        "html_title": course.title,
        "include_patterns": [str(file) for file in pages.texts],
        # All is read again when what pages say of tasks has changed.
        "version": manifest.source_hash(course.root / manifest.MANIFEST),
    }
    app = sphinx.Sphinx(
        course.root, HERE, output, course.root / FOLDER / "book", "html",
        confoverrides=given, status=None, warning=said, parallel=2,
    )  # fmt: skip

    def read(_: object, name: str, source: list[str]) -> None:
        source[0] = texts[name]

    app.connect("source-read", read)
    app.build()
    shutil.copyfile(output / "README.html", output / "index.html")
    for name in re.findall(
        r'(?:src|srcset)="([\w./-]+)"', pages.texts[FRONT]
    ):  # its HTML stays as it is
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(course.root / name, output / name)
    return [line for line in said.getvalue().splitlines() if line.strip()]


def watched(course: Course) -> list[Path]:
    """The files and folders whose change makes another book: what its pages lie in, and the manifest."""
    tops = {file.parts[0] for file in Pages(course, {}).files} | {manifest.MANIFEST}
    return sorted(course.root / top for top in tops)


def serve(course: Course, output: Path, port: int) -> None:
    """Serve the book on this machine, and build it again when a text changes; until interrupted."""
    import watchfiles

    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    handler = functools.partial(_Quiet, directory=str(output))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for changes in watchfiles.watch(*watched(course)):
            print("building again:", *sorted({Path(file).name for _, file in changes}), flush=True)
            # In a process of its own: the generator complains of each of its parts that it finds a second time.
            command = (sys.executable, "-m", "profiling_lab.cli", "book", "--output", str(output))
            subprocess.run(command, cwd=course.root, check=False)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Not a line for each file of each page."""
