"""What the generator reads of the course: its Markdown, its notebooks and its stubs, as they lie in their folders.

On the way the command that checks a task gets the task's box, hints fold their steps, and recordings lead to
their reports. The title of a figure, `(figures/x.svg "NAME PART START END; NAME …")`, names what it shows: that part of
the recording's report stands below it (PART: timeline, kernels, roofline or memory; START and END: ns from its window's
start; all three may be left out).
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from posixpath import normpath

from profiling_lab.course.manifest import Course, Task

# Headings of the contents, each with the files whose pages stand there, or below a page of there.
CONTENTS = {
    "The week": ("week07/**/*",),
    "Labs": ("labs/**/*",),
    "Modules": ("modules/**/*",),
    "Guides": ("docs/*",),
    "Around it": ("captures/README.md", "benchmarks/README.md", "[A-Z]*.md"),
}
# What gives answers away; a link there becomes plain text.
LEFT_OUT = re.compile(
    r"solutions|tests|grading|captures/programs/case_|benchmarks/(TOOLS|ENGINE|results)|\.\."
)
TOKEN = re.compile(
    r"^(?P<mark>```+|~~~+)(?P<kind>[^\n]*)\n(?P<inside>.*?)^(?P=mark)[ \t]*$"
    r"|^(?P<heading>#+ [^\n]*)$"
    r"|(?P<live>(?:<!-- live: [^\n]+? -->\s*)+)"
    r"|(?P<code>``.+?``|`[^`\n]+(?:\n[^`\n]+)?`)"
    r"|(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<url>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
CHECK = re.compile(r"uv run lab check (\w+\.\w+)(?: --live)?")
HINT = re.compile(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
FRONT = PurePosixPath("README.md")
TITLED = re.compile(r'(\]\(figures/[^\s)]+) "([^"\n]+)"\)')
FIGURE = re.compile(r"# figure: (.+\n(?:#.*\n)*)")


class Pages:
    """The pages of a course. texts: of each file what the generator reads; shown: the recordings they lead to.

    recordings: those that have a report, and the part of it that shows a recording best.
    """

    def __init__(self, course: Course, recordings: Mapping[str, str]) -> None:
        self.course, self.root, self.recordings = course, course.root, recordings
        self.shown: set[str] = set()
        self.boxed: set[str] = set()  # tasks that have their box
        stubs = {stub for exercise in course.exercises for stub in exercise.stubs}
        self.code = {stub for stub in stubs if stub.suffix == ".py"}
        self.parts = {heading: self._found(globs) for heading, globs in CONTENTS.items()}
        self.files = [FRONT, *(file for files in self.parts.values() for file in files)]
        self.below = {heading: self._below(files) for heading, files in self.parts.items()}
        self.texts = {file: self._text(file) for file in self.files}
        self.texts |= {file: self._code(file) for file in self.code}

    def _found(self, globs: tuple[str, ...]) -> list[PurePosixPath]:
        """The texts of a part: page before sub-pages, notebook first, hints last; folders as the page above names them."""
        files = (file.relative_to(self.root) for glob in globs for file in self.root.glob(glob))
        texts = [
            PurePosixPath(f.as_posix())
            for f in files
            if f.suffix == ".md" or f.name == "lesson.ipynb"
        ]

        def order(page: PurePosixPath) -> tuple[int, int, str]:
            rank = {"lesson.ipynb": 0, "README.md": 2, "hints.md": 3}.get(page.name, 1)
            above = self.root / page.parent.parent / "README.md"
            named = above.read_text("utf-8").find(page.parent.name) if above.is_file() else -1
            return rank, named, str(page)

        return sorted((page for page in texts if page != FRONT), key=order)

    def _text(self, page: PurePosixPath) -> str:
        text = (self.root / page).read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            text = _notebook(text, self.recordings)
        else:
            text = TITLED.sub(lambda found: f"{found[1]}){_shown(found[2].split('; '))}", text)
        mentioned: set[str] = set()  # recordings since the last heading

        def token(match: re.Match[str]) -> str:
            if match["heading"]:
                mentioned.clear()
            elif match["kind"] == "console":
                return self._with_boxes(page, match["inside"].splitlines())
            elif match["live"]:
                asked = re.findall(r"live: (.+?) -->", match["live"])
                return "".join(self._live(page, not at, *a.split()) for at, a in enumerate(asked))
            elif match["url"]:
                return self._link(page, match)
            elif (name := (match["code"] or "").strip("`")) in self.recordings.keys() - mentioned:
                mentioned.add(name)
                return f'<a class="recording" href="{self._report(page, name)}"><code>{name}</code></a>'
            return match[0]

        text = TOKEN.sub(token, text)
        if page.name == "hints.md":
            return HINT.sub(_folded, text)
        if page.name != "README.md":
            return text
        rest = [task for task in self._tasks(page) if task.id not in self.boxed]
        for heading, further in (("## More tasks", False), ("## Further tasks", True)):
            boxes = [self._box(task) for task in rest if task.further == further]
            text = "\n\n".join([text, *[heading][: len(boxes)], *boxes])
        return "\n\n".join([text, *self._contents(page)])

    def _code(self, file: PurePosixPath) -> str:
        """The page of a stub or another program."""
        code = (self.root / file).read_text(encoding="utf-8", errors="replace")
        return f"---\norphan: true\n---\n\n# {file.name}\n\n`{file}`\n\n{_fence('python', code)}\n"

    # -- links and recordings ---------------------------------------------------------------------

    def _report(self, page: PurePosixPath, name: str) -> str:
        """The address of a recording's report, from a page."""
        self.shown.add(name)
        return os.path.relpath(f"reports/{name}.html", page.parent)

    def _link(self, page: PurePosixPath, match: re.Match[str]) -> str:
        """A link as it is, if the book has what it leads to; to a recording, it leads to the report."""
        path, _, anchor = match["url"].partition("#")
        if not path or ":" in path:
            return match[0]
        inside = PurePosixPath(normpath(page.parent / path))
        if (self.root / inside).is_dir():
            inside /= "README.md"
        name = inside.parent.name
        if str(inside) == f"captures/{name}/README.md" and name in self.recordings:
            return f'<a href="{self._report(page, name)}">{match["text"]}</a>'
        if LEFT_OUT.match(str(inside)) or not (self.root / inside).is_file():
            return match["text"]
        if inside.suffix == ".md" and inside not in self.files:
            return match["text"]
        if inside.suffix == ".py":
            self.code.add(inside)
        url = os.path.relpath(inside, page.parent) + "#" * bool(anchor) + anchor
        return f"{match['image']}[{match['text']}]({url})"

    def _live(
        self,
        page: PurePosixPath,
        first: bool,
        name: str,
        part: str = "",
        start: str = "",
        end: str = "",
    ) -> str:
        """A part of a recording's report, which the page's script puts into a frame."""
        if name not in self.recordings:
            return ""
        part = part or self.recordings[name]
        report = self._report(page, name) + "?" + f"start={start}&amp;end={end}&amp;" * bool(end)
        return (
            f'\n\n<details class="live"{" open" * first}><summary><code>{name}</code>, live</summary>\n'
            f'<div data-frame="{report}parts={part}" data-title="Recording {name}: {part}"></div>\n'
            f'<p><a href="{report}#{part}">The whole report at this place</a></p></details>\n\n'
        )

    # -- tasks and contents -----------------------------------------------------------------------

    def _tasks(self, page: PurePosixPath) -> list[Task]:
        here = [exercise for exercise in self.course.exercises if exercise.folder == page.parent]
        return [task for exercise in here for task in exercise.tasks]

    def _with_boxes(self, page: PurePosixPath, lines: list[str]) -> str:
        """A block of commands, with the box of each task of the page that one of them checks."""
        tasks = {task.id: task for task in self._tasks(page) if page.name == "README.md"}
        out, others = [], []
        for line in lines:
            found = CHECK.fullmatch(line)
            if found and found[1] in tasks.keys() - self.boxed:
                out.append(self._box(tasks[found[1]]))
            else:
                others.append(line)
        return "\n\n".join([*out, _fence("console", "\n".join(others))] if others else out)

    def _box(self, task: Task) -> str:
        """A task with its points, its share of the exercise's minutes, its command, stub and hints."""
        self.boxed.add(task.id)
        exercise = self.course.exercise(task.id)
        minutes = round(exercise.minutes * task.points / max(1, exercise.points))
        told = [f"{task.points} points"]
        of_all = "" if task.further else f" of {exercise.minutes}"
        told += ["live" if task.live else f"about {minutes}{of_all} minutes"]
        told += [f"needs {', '.join(sorted(task.needs))}"] * bool(task.needs)
        told += [f"[stub]({os.path.relpath(task.stub, exercise.folder)})"]
        told += [f"[hints](hints.md#{task.name})"] * self.course.hints(exercise).is_file()
        command = _fence("console", f"uv run lab check {task.id}" + " --live" * task.live)
        box = f"::::{{task}} {task.id}\n**{task.title}**\n\n{' · '.join(told)}\n\n{command}\n::::"
        apart = "Further: beside the core, with points of its own."
        return f":::::{{container}} further\n{apart}\n\n{box}\n:::::" if task.further else box

    def _contents(self, page: PurePosixPath) -> list[str]:
        """What stands below a page: all of its folder, and the folders' own pages."""
        out = []
        for heading, pages in self.below.items():
            below = [f"/{other.with_suffix('')}" for other in pages.get(page, [])]
            caption = f":caption: {heading}\n" if page == FRONT else ""
            if below:
                out.append(_fence("{toctree}", f":hidden:\n{caption}\n" + "\n".join(below)))
        return out

    def _below(self, pages: list[PurePosixPath]) -> dict[PurePosixPath, list[PurePosixPath]]:
        """By page of the contents, those of these that stand below it."""
        known = set(self.files)
        found: dict[PurePosixPath, list[PurePosixPath]] = {}
        for page in pages:
            folders = page.parents[1:] if page.name == "README.md" else page.parents
            above = next(other for folder in folders if (other := folder / "README.md") in known)
            found.setdefault(above, []).append(page)
        return found


def _fence(kind: str, text: str) -> str:
    return f"`````{kind}\n{text}\n`````"


def _folded(match: re.Match[str]) -> str:
    """A step of a hint, folded under its title."""
    title = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(match[1], quote=False))
    return f"<details><summary>{title}</summary>\n\n{match[2].strip()}\n\n</details>\n\n"


def _notebook(text: str, recordings: Mapping[str, str]) -> str:
    """A notebook as Markdown: its text, its code, what it showed when it was made, the recordings it drew."""
    out = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        out.append(source if cell["cell_type"] == "markdown" else _fence("python", source))
        figure = FIGURE.match(source)
        for shown in cell.get("outputs", ()):
            data = shown.get("data", {})
            if "image/png" in data:
                words = re.sub(r"[\s#\[\]]+", " ", figure[1]).strip() if figure else ""
                out.append(
                    f"![{words}](data:image/png;base64,{''.join(data['image/png']).strip()})"
                )
            else:
                out.append(_fence("text", "".join(shown.get("text") or data.get("text/plain", ""))))
        names = dict.fromkeys(re.findall(r'"(\w+)"', source)) if figure else ()
        out.append(_shown(name for name in names if name in recordings))
    return "\n\n".join(out)


def _shown(recordings: Iterable[str]) -> str:
    """Marks where live parts of recordings go, for the pass that puts them there."""
    return "\n\n" + "\n".join(f"<!-- live: {name} -->" for name in recordings)
