"""Looks only at the last question whether it is known."""

from __future__ import annotations

CAUGHT_BY = "test_unknown_question_is_refused"
SAYS = "it must raise ValueError"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    if not questions:
        raise ValueError("no question")
    trace = ["cuda", "nvtx"] + (["osrt"] if "os_waits" in questions else [])
    sample = "process-tree" if "python_lines" in questions else "none"
    options = [f"--trace={','.join(trace)}", f"--sample={sample}", "--cpuctxsw=none"]
    if questions[-1] not in _OPTIONS_OF_QUESTION:
        raise ValueError(f"unknown question {questions[-1]!r}")
    for question in dict.fromkeys(questions):
        options += _OPTIONS_OF_QUESTION.get(question, [])
    return ["nsys", "profile", *options, f"--output={output}", "--force-overwrite=true", *program]
