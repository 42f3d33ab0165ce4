"""Runs the examples of the page that $LAB_PAGE names in one session, as the page asks for; warnings are errors.

Examples may call functions that the learner has written by then: these are the reference's.

A run of the proof (`grading.proof.background_runs`): forked from a template that has the page's frameworks
imported, each of which takes seconds.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from profiling_lab.course import manifest
from profiling_lab.mine.functions import load_file


def test_examples(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(os.environ["LAB_PAGE"])
    text = page.read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    course = manifest.load(Path.cwd())
    stubs = {stub.stem: stub for exercise in course.exercises for stub in exercise.stubs}
    for name in re.findall(r"^import (\w+) as", "\n".join(examples), flags=re.MULTILINE):
        if name in stubs:
            load_file(course.solution(stubs[name]), name)
    exec(compile("\n".join(examples), str(page), "exec"), {"__name__": "__main__"})  # noqa: S102 -- our own text
    assert capsys.readouterr().out.strip(), "the examples print nothing"
