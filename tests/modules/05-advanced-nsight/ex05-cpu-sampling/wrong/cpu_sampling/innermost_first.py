from __future__ import annotations

CAUGHT_BY = "test_stacks_of_drawn_samples"
SAYS = "outermost;"


def collapsed_stacks(capture: str, kind: str, thread: int | None = None) -> list[str]:
    counts = Counter(
        ";".join(name.replace(";", ",") for name in sample.frames)
        for sample in samples(capture, kind)
        if thread is None or sample.thread == thread
    )
    return sorted(f"{stack} {count}" for stack, count in counts.items())
