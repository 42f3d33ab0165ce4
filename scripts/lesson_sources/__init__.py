"""What the lessons are made from: P/ holds what gives the pages, figures and notebook at P in the course.

Markdown: a page's text, with expressions. `lesson.py`: functions for the expressions, and FIGURES, the
functions that draw. `notebook.py`: the notebook. `scripts/lessons.py` makes the pages and so on of them.
"""

from pathlib import Path
from types import ModuleType

from profiling_lab.mine.functions import load_once

SOURCES = Path(__file__).resolve().parent


def source(place: str, name: str = "lesson") -> ModuleType:
    """A module of a lesson ("week07/day1_nsight_systems"), loaded once; by default what computes it.

    Raises OSError if there is none, LabError if it fails at import.
    """
    return load_once(SOURCES / place / f"{name}.py", f"{__name__}/{place}/{name}")
