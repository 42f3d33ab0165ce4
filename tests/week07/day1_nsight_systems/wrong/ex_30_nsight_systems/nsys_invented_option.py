"""Uses an option that the tool does not have."""

from __future__ import annotations

CAUGHT_BY = "test_every_option_is_one_of_the_tool"
SAYS = "it would stop with a usage error"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    trace = "cuda,nvtx,osrt" if "os_waits" in questions else "cuda,nvtx"
    options = [f"--trace={trace}", "--sample=none", "--cpuctxsw=none"]
    for question in dict.fromkeys(questions):
        if question == "sm_activity":
            options.append("--gpu-metrics=all")
        else:
            options += _OPTIONS_OF_QUESTION[question]
    return ["nsys", "profile", *options, f"--output={output}", "--force-overwrite=true", *program]
