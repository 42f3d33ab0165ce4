"""Limits the recording, and lets the tool end the program with it."""

from __future__ import annotations

CAUGHT_BY = "test_one_question"
SAYS = "ends the program where recording ends"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    trace = "cuda,nvtx,osrt" if "os_waits" in questions else "cuda,nvtx"
    options = [f"--trace={trace}", "--sample=none", "--cpuctxsw=none"]
    for question in dict.fromkeys(questions):
        if question == "steady_state":
            options.append("--capture-range=cudaProfilerApi")
        else:
            options += _OPTIONS_OF_QUESTION[question]
    return ["nsys", "profile", *options, f"--output={output}", "--force-overwrite=true", *program]
