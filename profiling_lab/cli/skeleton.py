"""The exercise that `lab dev new` makes: an example in which every part runs, to be replaced part by part."""

from __future__ import annotations

import re
import textwrap
from pathlib import PurePosixPath

from profiling_lab.course.manifest import Course


def as_section(page: str) -> str:
    """A page as a section of another one: a title of "Hints" goes, others come one level deeper."""
    title, _, rest = page.partition("\n")
    if title == "# Hints":
        return rest.lstrip("\n")
    return re.sub(r"^#", "##", page, flags=re.MULTILINE)


def in_order(course: Course, text: str, folder: PurePosixPath, table: str) -> str:
    """The manifest's text with a new table: after the exercises of its folder and of folders before it."""
    blocks = re.split(r"^(?=\[\[exercises\]\])", text, flags=re.MULTILINE)
    earlier = [
        (exercise.folder, number)
        for number, exercise in enumerate(course.exercises, 1)
        if exercise.folder.parts[0] == folder.parts[0] and exercise.folder <= folder
    ]
    place = max(earlier)[1] + 1 if earlier else len(blocks)
    blocks[place - 1] = blocks[place - 1].rstrip("\n") + "\n\n"
    blocks.insert(place, table + ("\n" if place < len(blocks) else ""))
    return "".join(blocks)


def fill(text: str, words: dict[str, str]) -> str:
    for key, value in words.items():
        text = text.replace(f"@{key}@", value)
    return text


def _text(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


TABLE = _text(
    """

    [[exercises]]
    id = "@id@"
    title = "@title@"
    stub = "@folder@/@name@.py"
    minutes = 30
    difficulty = 1
    skills = ["@skill@"]
    tasks = [
      { name = "@task@", title = "@about@", points = @points@ },
    ]
    """
)
_LESSON = _text(
    """
    # @title@

    Begin with a question and a real capture. For how long did the host of this program stay in a call?

    ```python
    from profiling_lab import captures

    with captures.open("alloc_every_step") as recording:
        print(recording.api_calls.select("name", "start_ns", "end_ns").head(3))
    ```

    ## Your task

    Write `@task@` in `@name@.py`, then

    ```console
    uv run lab check @id@.@task@
    ```
    """
)
FILES = {
    "@folder@/README.md": _LESSON,
    "scripts/lesson_sources/@folder@/README.md": _LESSON,
    "@folder@/hints.md": _text(
        """
        # Hints

        ## @task@

        ### A question

        What does the recording keep of each call?

        ### A stronger hint

        How long one call took follows from two of these columns. Of which call is it the most?
        """
    ),
    "solutions/@folder@/@name@.py": _text(
        '''
        """@title@

        The lesson is `README.md` in this folder, hints are in `hints.md`.
        """

        from __future__ import annotations

        from profiling_lab import captures


        def @task@(capture: str) -> int:
            """How long the longest CUDA call of the host took, in ns.

            capture: name or path of a timeline with at least one call. Shapes, units and errors stand here.
            """
            with captures.open(capture) as recording:
                calls = recording.api_calls.select("start_ns", "end_ns").rows()
            return max(end_ns - start_ns for start_ns, end_ns in calls)
        '''
    ),
    "tests/@folder@/test_@name@.py": _text(
        """
        from __future__ import annotations

        import sqlite3

        from grading.checks import task
        from grading.checks.fixtures import recordings
        from profiling_lab import captures


        def judge(stub, capture) -> None:
            '''Against what SQL finds in the export itself.'''
            with sqlite3.connect(captures.file(capture, "timeline.sqlite")) as export:
                table = "CUPTI_ACTIVITY_KIND_RUNTIME"
                (want,) = export.execute(f'SELECT max("end" - start) FROM {table}').fetchone()
            got = stub.@task@(str(capture))
            assert got == want, f"@task@({capture}) returned {got}; the longest call took {want} ns"


        @task("@id@.@task@")
        @recordings("alloc_every_step", "alloc_cached")
        def test_of_recordings(stub, recording) -> None:
            judge(stub, recording)


        @task("@id@.@task@")
        def test_of_a_generated_capture(stub, generated) -> None:
            judge(stub, generated("concurrent_kernels").path)
        """
    ).replace("'''", '"""'),
    "tests/@folder@/mistakes_@name@.toml": _text(
        """
        [test_of_recordings.the_shortest]
        says = "the longest call took"
        find = 'return max('
        put = 'return min('

        [test_of_a_generated_capture.the_first]
        says = "the longest call took"
        find = 'max(end_ns - start_ns for start_ns, end_ns in calls)'
        put = 'calls[0][1] - calls[0][0]'
        """
    ),
}
