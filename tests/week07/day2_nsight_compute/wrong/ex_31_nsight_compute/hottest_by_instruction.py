"""Takes the line of the hottest instruction."""

from __future__ import annotations

CAUGHT_BY = "test_hottest_lines_of_recorded_kernels"
SAYS = "those of all its instructions"


def hottest_line(listing: list[dict[str, Any]]) -> dict[str, Any]:
    total = sum(_by_address(listing, "samples").values())
    if not total:
        raise ValueError("the listing has no samples: record SourceCounters, of a longer kernel")
    lines: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in listing:
        lines.setdefault((row["file"], row["line"]), []).append(row)
    hottest = max(lines.values(), key=lambda rows: max(row["samples"] or 0 for row in rows))
    samples = sum(row["samples"] or 0 for row in hottest)
    return {
        "file": hottest[0]["file"],
        "line": hottest[0]["line"],
        "text": hottest[0]["text"],
        "samples_count": samples,
        "share_ratio": samples / total,
        "instruction": max(hottest, key=lambda row: row["samples"] or 0)["instruction"],
    }
