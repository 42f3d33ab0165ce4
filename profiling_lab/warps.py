"""A small stand-in for a block of threads: what its memory accesses come to, and whether its warps race.

    >>> from profiling_lab import warps
    >>> steps = [{"operation": "load", "at": list(range(1024))}]
    >>> warps.requests(steps, "load")[0][:4]
    [0, 1, 2, 3]

A program is a list of steps, as `transpose_block` of `ex_31` describes it. At each step every thread of the block does
the same with an address of its own; a warp does it in one request. Between two barriers the warps may be at different
steps. What this cannot show: time, registers, caches, and accesses wider than one element.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

BLOCK_THREADS = 1024
WARP_LANES = 32
SHARED_WORDS = 12_288  # 48 KiB, what a block gets without asking for more
OPERATIONS = ("load", "put", "barrier", "get", "store")

Step = Mapping[str, Any]
BARRIER: Step = {"operation": "barrier"}


def problem(steps: Sequence[Any]) -> str:
    """What of a program cannot be run, in words; "" if all can be."""
    for place, step in enumerate(steps):
        operation = step.get("operation") if type(step) is dict else None
        if operation not in OPERATIONS:
            return f"step {place} is no dictionary with an operation of {', '.join(OPERATIONS)}"
        if operation == "barrier":
            if set(step) != {"operation"}:
                return f"step {place}: all threads take part in a barrier, it has no addresses"
            continue
        at = step.get("at")
        if set(step) != {"operation", "at"} or type(at) is not list or len(at) != BLOCK_THREADS:
            return (
                f"step {place} ({operation}) needs a list of {BLOCK_THREADS} addresses under 'at'"
            )
        for thread, address in enumerate(at):
            if address is not None and (type(address) is not int or address < 0):
                return f"step {place} ({operation}): thread {thread} has the address {address!r}"
            if address is not None and operation in ("put", "get") and address >= SHARED_WORDS:
                return f"step {place} ({operation}): shared memory has {SHARED_WORDS:,} words, not a word {address:,}"
    return ""


def requests(steps: Sequence[Step], operation: str) -> list[list[int | None]]:
    """The requests of all warps for an operation: for each lane the element or word that it asks for."""
    return [
        step["at"][first : first + WARP_LANES]
        for step in steps
        if step["operation"] == operation
        for first in range(0, BLOCK_THREADS, WARP_LANES)
    ]


def run(steps: Sequence[Step], source: Sequence[Any]) -> dict[int, Any]:
    """What the block stores: element of the result → value; None where a thread had nothing to store.

    source: the elements that it loads from. Raises IndexError for a load beyond them.
    """
    register: list[Any] = [None] * BLOCK_THREADS
    shared: dict[int, Any] = {}
    out: dict[int, Any] = {}
    for step in steps:
        for thread, address in enumerate(step.get("at", ())):
            if address is None:
                continue
            if step["operation"] == "load":
                register[thread] = source[address]
            elif step["operation"] == "put":
                shared[address] = register[thread]
            elif step["operation"] == "get":
                register[thread] = shared.get(address)
            else:
                out[address] = register[thread]
    return out


def race(steps: Sequence[Step]) -> str:
    """Two accesses to one word of shared memory that nothing orders, in words; "" if there are none."""
    puts: dict[int, set[int]] = defaultdict(set)  # word → warps, since the last barrier
    gets: dict[int, set[int]] = defaultdict(set)
    for step in [*steps, BARRIER]:
        operation = step["operation"]
        if operation == "barrier":
            for word, writers in puts.items():
                others = (writers | gets.get(word, set())) - {min(writers)}
                if others:
                    return (
                        f"warp {min(writers)} puts word {word} of shared memory, and warp {min(others)} uses it with no "
                        "barrier between them: either may come first"
                    )
            puts.clear()
            gets.clear()
            continue
        if operation not in ("put", "get"):
            continue
        seen: set[tuple[int, int]] = set()
        at: list[int | None] = step["at"]
        for thread, word in enumerate(at):
            if word is None:
                continue
            warp = thread // WARP_LANES
            if operation == "put" and (warp, word) in seen:
                return f"two lanes of warp {warp} put word {word} of shared memory at once: one of the values is lost"
            seen.add((warp, word))
            (puts if operation == "put" else gets)[word].add(warp)
    return ""
