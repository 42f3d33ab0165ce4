from __future__ import annotations

CAUGHT_BY = "test_copies_run_ahead"
SAYS = "the device waits for its copy"


def prefetched(
    batches: Iterable[Any], copy_in: Callable[[Any], Any], depth: int = 1
) -> Iterator[Any]:
    if depth < 0:
        raise ValueError("negative")
    for batch in batches:
        yield copy_in(batch)
