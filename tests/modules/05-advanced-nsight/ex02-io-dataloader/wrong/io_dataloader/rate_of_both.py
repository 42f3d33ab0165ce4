from __future__ import annotations

CAUGHT_BY = "test_costs_of_made_up_samples"
SAYS = "over the median time to read alone"


def sample_costs(
    read_ns: Sequence[float], decode_ns: Sequence[float], stored_bytes: int
) -> dict[str, float | str]:
    if not read_ns or len(read_ns) != len(decode_ns):
        raise ValueError("no samples")
    if min(*read_ns, *decode_ns, stored_bytes) <= 0:
        raise ValueError("not above 0")
    read, decode = statistics.median(read_ns), statistics.median(decode_ns)
    return {
        "sample_ns": statistics.median(map(sum, zip(read_ns, decode_ns, strict=True))),
        "read_ratio": read / (read + decode),
        "read_gb_s": stored_bytes / (read + decode),
        "larger": "read" if read > decode else "decode",
    }
