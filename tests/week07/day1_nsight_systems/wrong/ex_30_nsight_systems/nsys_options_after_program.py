"""Puts the options behind the program, which then gets them as its own."""

from __future__ import annotations

CAUGHT_BY = "test_program_stays_as_it_is"
SAYS = "what follows the program's name is the program's"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    options = ["--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none"]
    for question in dict.fromkeys(questions):
        options += _OPTIONS_OF_QUESTION[question]
    return ["nsys", "profile", *program, *options, f"--output={output}", "--force-overwrite=true"]
