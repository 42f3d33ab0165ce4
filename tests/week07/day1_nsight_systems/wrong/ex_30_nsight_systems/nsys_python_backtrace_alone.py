"""Turns Python backtraces on and overlooks what else must be on for them."""

CAUGHT_BY = "test_one_question"
SAYS = "only while CPU sampling is on"


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    if not questions:
        raise ValueError("no question")
    for question in questions:
        if question not in _OPTIONS_OF_QUESTION:
            raise ValueError(f"unknown question {question!r}")
    trace = ["cuda", "nvtx"] + (["osrt"] if "os_waits" in questions else [])
    options = [f"--trace={','.join(trace)}", "--sample=none", "--cpuctxsw=none"]
    for question in dict.fromkeys(questions):
        options += [o for o in _OPTIONS_OF_QUESTION[question] if "cudabacktrace" not in o]
    return [
        *("nsys", "profile"),
        *options,
        f"--output={output}",
        "--force-overwrite=true",
        *program,
    ]
