from __future__ import annotations

CAUGHT_BY = "test_stacks_of_drawn_samples"
SAYS = "one for each different stack"


def collapsed_stacks(capture: str, kind: str, thread: int | None = None) -> list[str]:
    return sorted(
        ";".join(name.replace(";", ",") for name in reversed(sample.frames)) + " 1"
        for sample in samples(capture, kind)
        if thread is None or sample.thread == thread
    )
