"""Answers the first question and forgets the others."""

from __future__ import annotations

CAUGHT_BY = "test_several_questions_at_once"
SAYS = "is missing"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    trace = "cuda,nvtx,osrt" if "os_waits" in questions else "cuda,nvtx"
    options = [f"--trace={trace}", "--sample=none", "--cpuctxsw=none"]
    options += _OPTIONS_OF_QUESTION[questions[0]]
    return ["nsys", "profile", *options, f"--output={output}", "--force-overwrite=true", *program]
