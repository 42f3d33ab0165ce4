"""Makes a command without any section."""

from __future__ import annotations

CAUGHT_BY = "test_command_without_sense_is_refused"
SAYS = "neither asks for a section"


def ncu_command(
    questions: list[str],
    program: list[str],
    output: str,
    kernel: str | None = None,
    skip: int = 0,
    count: int = 1,
    nvtx_range: str | None = None,
) -> list[str]:
    if not questions:
        raise ValueError(f"ask at least one question of: {', '.join(_QUESTIONS)}")
    for question in questions:
        if question not in _QUESTIONS:
            raise ValueError(f"unknown question {question!r}; known: {', '.join(_QUESTIONS)}")
    if skip < 0:
        raise ValueError(f"skip must not be negative, got {skip}")
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    options = [
        option
        for question, asked in _QUESTIONS.items()
        if question in questions
        for option in asked
    ]
    if False:
        raise ValueError(f"{', '.join(questions)}: no section is asked for, nothing to measure")
    filters = [f"--kernel-name={kernel}"] if kernel is not None else []
    if nvtx_range is not None:
        # A name without the slash means ranges opened with start/end, not with push/pop.
        filters += ["--nvtx", f"--nvtx-include={nvtx_range}/"]
    if skip:
        filters.append(f"--launch-skip={skip}")
    return [
        "ncu",
        *options,
        *filters,
        f"--launch-count={count}",
        f"--export={output}",
        "--force-overwrite",
        *program,
    ]
