"""A reference, and sources that are like it, or are not."""

from __future__ import annotations

STUB, CUDA = "week/ex_1.py", "week/fast.cu"

REFERENCE = '''\
"""Intervals."""

from __future__ import annotations

import math

_SLACK_NS = 5  # clocks differ


def _merged(intervals: list[tuple[int, int]]) -> list[list[int]]:
    out: list[list[int]] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1] + _SLACK_NS:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def busy(intervals: list[tuple[int, int]], window: tuple[int, int]) -> float:
    """The part of the window in which something ran."""
    first, last = window
    total = 0
    for start, end in _merged(intervals):
        total += max(0, min(end, last) - max(start, first))
    return math.fsum([total]) / (last - first)


def ratio(a: float, b: float) -> float:
    """a in units of b."""
    return a / b
'''

RENAMED = '''\
from __future__ import annotations
import math as m
TOLERANCE = 5


def busy(spans, frame):
    """My own words."""
    begin, finish = frame
    "a comment in other clothes"
    covered: int = 0
    for lo, hi in join_up(spans): covered += max(0, min(hi, finish) - max(lo, begin))
    return m.fsum([covered]) / (finish - begin)


def join_up(spans):
    # merge
    result = []
    for lo, hi in sorted(spans):
        if (result and lo <= result[-1][1] + TOLERANCE):
            result[-1][1] = max(result[-1][1], hi)
        else:
            result.append([lo, hi])
            pass
    return result


def ratio(x, y):
    return x / y
'''

OTHER = """\
def busy(intervals, window):
    events = sorted([(s, 1) for s, _ in intervals] + [(e, -1) for _, e in intervals])
    depth, since, total = 0, 0, 0
    for time, change in events:
        time = min(max(time, window[0]), window[1])
        if depth == 0:
            since = time
        depth += change
        if depth == 0:
            total += time - since
    return total / (window[1] - window[0])


def ratio(a, b):
    return a / b
"""

LESSON = """\
# Lesson

```python
rows = sorted(events, key=lambda row: (row.stream, row.start, row.end))
by_stream = {}
for row in rows:
    by_stream.setdefault(row.stream, []).append((row.start, row.end))
gaps = [b[0] - a[1] for spans in by_stream.values() for a, b in zip(spans, spans[1:])]
largest = max((gap for gap in gaps if gap > 0), default=0)
```
"""

FROM_THE_LESSON = """\
def busy(intervals, window):
    ordered = sorted(intervals, key=lambda one: (one.stream, one.start, one.end))
    streams = {}
    for one in ordered:
        streams.setdefault(one.stream, []).append((one.start, one.end))
    holes = [b[0] - a[1] for spans in streams.values() for a, b in zip(spans, spans[1:])]
    return max((hole for hole in holes if hole > 0), default=0)
"""

KERNEL = """\
#include <cstdio>

// <solution ex_1.fast>
__global__ void scale(float* data, int count) {
    __shared__ float tile[32][33];  // one more against bank conflicts
    const int row = blockIdx.x * 32 + threadIdx.y;
    for (int at = threadIdx.x; at < count; at += 32) tile[threadIdx.y][at % 32] = data[row * count + at];
    __syncthreads();
    data[row * count + threadIdx.x] = 2.0f * tile[threadIdx.x][threadIdx.y];
}
// <stub>
//| // TODO(ex_1.fast): make it fast
//| __global__ void scale(float* data, int count) {
//|     const int row = blockIdx.x * 32 + threadIdx.y;
//| }
// </solution>

int main() { return 0; }
"""
