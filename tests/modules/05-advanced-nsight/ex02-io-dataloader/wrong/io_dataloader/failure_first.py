from __future__ import annotations

CAUGHT_BY = "test_a_failure_comes_in_its_turn"
SAYS = "are good"


def prefetched(
    batches: Iterable[Any], copy_in: Callable[[Any], Any], depth: int = 1
) -> Iterator[Any]:
    if depth < 0:
        raise ValueError("negative")
    begun: deque[Any] = deque()
    for batch in batches:
        begun.append(copy_in(batch))
        if len(begun) > depth:
            yield begun.popleft()
    yield from begun
