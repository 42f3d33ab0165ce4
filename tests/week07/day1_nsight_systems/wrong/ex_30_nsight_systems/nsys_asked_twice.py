"""Repeats the options of a question that is asked twice."""

from __future__ import annotations

CAUGHT_BY = "test_several_questions_at_once"
SAYS = "stands there twice"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    if not questions:
        raise ValueError("no question")
    for question in questions:
        if question not in _OPTIONS_OF_QUESTION:
            raise ValueError(f"unknown question {question!r}")
    trace = ["cuda", "nvtx"] + (["osrt"] if "os_waits" in questions else [])
    sample = "process-tree" if "python_lines" in questions else "none"
    options = [f"--trace={','.join(trace)}", f"--sample={sample}", "--cpuctxsw=none"]
    for question in questions:
        options += _OPTIONS_OF_QUESTION[question]
    return ["nsys", "profile", *options, f"--output={output}", "--force-overwrite=true", *program]
