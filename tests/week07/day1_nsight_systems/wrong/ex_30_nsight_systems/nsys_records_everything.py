"""Switches everything on, whatever was asked."""

from __future__ import annotations

CAUGHT_BY = "test_one_question"
SAYS = "has a cost, and no question asks for it"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    trace = "cuda,nvtx,osrt" if "os_waits" in questions else "cuda,nvtx"
    options = [f"--trace={trace}", "--sample=none", "--cpuctxsw=none"]
    for added in _OPTIONS_OF_QUESTION.values():
        options += added
    return ["nsys", "profile", *options, f"--output={output}", "--force-overwrite=true", *program]
