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
from typing import TYPE_CHECKING, Any

from profiling_lab import needs
from profiling_lab.book import recordings
from profiling_lab.book.pages import FRONT, Pages
from profiling_lab.course import manifest
from profiling_lab.course.lab_folder import FOLDER
from profiling_lab.course.manifest import Course

if TYPE_CHECKING:
    from sphinx.application import Sphinx

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
    _contents_once(app)
    app.build()
    shutil.copyfile(output / "README.html", output / "index.html")
    for name in re.findall(
        r'(?:src|srcset)="([\w./-]+)"', pages.texts[FRONT]
    ):  # its HTML stays as it is
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(course.root / name, output / name)
    return [line for line in said.getvalue().splitlines() if line.strip()]


def _contents_once(app: Sphinx) -> None:
    """Let the generator do once what it does for each page, a fifth of a build, to show the contents there.

    It compiles the patterns of files, and copies the headings of all pages, of which it keeps the titles.
    """
    titles: dict[str, Any] = {}

    def all_are_read(app: Sphinx, _: object) -> None:
        app.config.include_patterns = ["**"]
        for name, headings in app.env.tocs.items():
            titles[name] = headings.deepcopy()
            for title in titles[name].children:
                below = [part for part in title.findall() if part.tagname == "toctree"]
                title[1:] = [type(title.parent)("", *below)] if below else []

    def shown(
        app: Sphinx, _name: str, _template: str, context: dict[str, Any], _doctree: object
    ) -> None:
        resolve, headings = context["toctree"], app.env.tocs

        def contents(**options: Any) -> str:
            app.env.tocs = titles
            try:
                return resolve(**options)
            finally:
                app.env.tocs = headings

        context["toctree"] = contents

    app.connect("write-started", all_are_read)
    app.connect("html-page-context", shown, priority=0)  # before the theme asks for them


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
