"""Counts stages whole, also what was over before the request came."""

from __future__ import annotations

import re

from profiling_lab import captures
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_breakdown_of_a_simulated_pipeline"
SAYS = "Only what lies inside the range"


def request_breakdown(capture: str) -> list[dict[str, int]]:
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges.select("name", "start_ns", "end_ns").rows()
    requests, batches = [], []
    for name, start, end in ranges:
        found = re.fullmatch(r"request (\d+)", name)
        if found:
            requests.append((int(found[1]), start, end))
        elif re.fullmatch(r"batch \d+", name):
            batches.append((start, end))
    if not requests:
        raise CaptureError(f'{capture}: has no NVTX range "request <i>"')
    out = []
    for number, start, end in sorted(requests):
        batch = next(((a, b) for a, b in batches if a < end <= b), None)
        if batch is None:
            raise CaptureError(f"{capture}: request {number} ends in no batch")
        begun = max(start, batch[0])
        parts = {
            f"{stage}_ns": sum(
                b - a for name, a, b in ranges if name == stage and batch[0] <= a and b <= batch[1]
            )
            for stage in STAGES
        }
        out.append(
            {
                "request": number,
                "total_ns": end - start,
                "queue_ns": begun - start,
                **parts,
                "other_ns": end - begun - sum(parts.values()),
            }
        )
    return out
