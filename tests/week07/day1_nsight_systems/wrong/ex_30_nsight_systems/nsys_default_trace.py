"""Leaves what to trace to the tool's default."""

from __future__ import annotations

CAUGHT_BY = "test_one_question"
SAYS = "what to trace is not said"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    options = ["--sample=none", "--cpuctxsw=none"]
    for question in dict.fromkeys(questions):
        options += _OPTIONS_OF_QUESTION[question]
    return ["nsys", "profile", *options, f"--output={output}", "--force-overwrite=true", *program]
