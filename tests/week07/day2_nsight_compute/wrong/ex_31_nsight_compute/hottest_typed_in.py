"""Returns the lesson's line."""

from __future__ import annotations

CAUGHT_BY = "test_hottest_lines_of_recorded_kernels"
SAYS = "The samples of a line are those of all its instructions"


def hottest_line(listing: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "file": "memory_access.cu",
        "line": 37,
        "text": "for (int column = 0; column < kRowFloats; ++column) sum += in[row * kRowFloats + column];",
        "samples_count": 42_000,
        "share_ratio": 0.99,
        "instruction": "FADD R9, R9, R8",
    }
