"""Runs the examples of the page that $LAB_PAGE names in one session, as the page asks for; warnings are errors.

A run of the proof (`grading.proof.background_runs`): forked from a template that has the page's frameworks
imported, each of which takes seconds.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest


def test_examples(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(os.environ["LAB_PAGE"])
    text = page.read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    exec(compile("\n".join(examples), str(page), "exec"), {"__name__": "__main__"})  # noqa: S102 -- our own text
    assert capsys.readouterr().out.strip(), "the examples print nothing"
