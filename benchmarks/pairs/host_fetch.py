"""What does a host do while JAX fetches a result? Its time, and how much new memory the fetching thread takes.

python host_fetch.py        a JSON object: for arrays of 1 to 256 MiB what seven fetches take; and the rates at which NumPy
                            moves and fills 64 MiB, into memory in use and into new memory (which it asks for in large pages)

faults_bytes_ratio: page faults times 4 KiB, over the bytes that are fetched. system_ms: of the thread's time, what the
kernel of the operating system took. Runs on the machine with the GPU.
"""

from __future__ import annotations

import json
import os
import resource
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

REPEATS, MIB = 7, 1 << 20


def used(who: int) -> tuple[int, float, float]:
    """Page faults, and seconds in the program and in the system."""
    found = resource.getrusage(who)
    return found.ru_minflt, found.ru_utime, found.ru_stime


def fetched(size: int) -> list[dict[str, float]]:
    make = jax.jit(lambda scale: jnp.full((size // 4,), 1.0) * scale)
    rows = []
    for number in range(REPEATS):
        array = make(float(number))
        array.block_until_ready()
        before = used(resource.RUSAGE_THREAD), used(resource.RUSAGE_SELF)
        begun = time.perf_counter_ns()
        kept = np.asarray(array)
        row: dict[str, float] = {"ns": time.perf_counter_ns() - begun}
        after = used(resource.RUSAGE_THREAD), used(resource.RUSAGE_SELF)
        for name, old, new in zip(("thread", "process"), before, after, strict=True):
            row[f"{name}_faults_bytes_ratio"] = round((new[0] - old[0]) * 4096 / size, 2)
            row[f"{name}_user_ms"] = round((new[1] - old[1]) * 1e3, 2)
            row[f"{name}_system_ms"] = round((new[2] - old[2]) * 1e3, 2)
        rows.append(row)
        del array, kept
    return rows


def moved(size: int) -> list[dict[str, float]]:
    """Bytes a ns."""
    source, target = np.ones(size, dtype=np.uint8), np.ones(size, dtype=np.uint8)
    rows = []
    for _ in range(REPEATS):
        row = {}
        new, filled = np.empty(size, dtype=np.uint8), np.empty(size, dtype=np.uint8)
        for name, go in (
            ("in_use", lambda: np.copyto(target, source)),
            ("new", lambda new=new: np.copyto(new, source)),
            ("new_filled", lambda filled=filled: filled.fill(0)),
            ("filled_again", lambda filled=filled: filled.fill(0)),
        ):
            begun = time.perf_counter_ns()
            go()
            row[name] = round(size / (time.perf_counter_ns() - begun), 2)
        rows.append(row)
    return rows


def main() -> None:
    found = {f"{mib} MiB": fetched(mib * MIB) for mib in (1, 16, 64, 256)}
    print(json.dumps(found | {"host": moved(64 * MIB)}))


if __name__ == "__main__":
    main()
