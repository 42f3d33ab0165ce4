"""Of equal instructions takes the last."""

from __future__ import annotations

CAUGHT_BY = "test_hottest_line_on_a_slip_of_paper"
SAYS = "this line at which most samples"


def hottest_line(listing: list[dict[str, Any]]) -> dict[str, Any]:
    total = sum(_by_address(listing, "samples").values())
    if not total:
        raise ValueError("the listing has no samples: record SourceCounters, of a longer kernel")
    lines: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in listing:
        lines.setdefault((row["file"], row["line"]), []).append(row)
    sums = {line: sum(row["samples"] or 0 for row in rows) for line, rows in lines.items()}
    file, line = max(sums, key=lambda line: sums[line])
    hottest = sorted(lines[file, line], key=lambda row: row["samples"] or 0)[-1]
    return {
        "file": file,
        "line": line,
        "text": hottest["text"],
        "samples_count": sums[file, line],
        "share_ratio": sums[file, line] / total,
        "instruction": hottest["instruction"],
    }
