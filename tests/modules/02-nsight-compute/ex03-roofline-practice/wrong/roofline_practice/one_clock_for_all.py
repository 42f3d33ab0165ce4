# The SMs' clock for every unit: DRAM and L2 have their own.
from __future__ import annotations

CAUGHT_BY = "test_roofs_of_recorded_kernels"
SAYS = "Each unit has a clock of its own"


def roofs_of(kernel: dict[str, Any]) -> dict[str, float]:
    out = {
        level: _metric(kernel, f"{counter}.peak_sustained") * _metric(kernel, FMA_CLOCK)
        for level, (counter, _) in BYTES.items()
    }
    for dtype in DTYPES:
        fma = OPERATIONS[dtype][-1]
        out[dtype] = 2 * _metric(kernel, MOST_FMA.format(fma)) * _metric(kernel, FMA_CLOCK)
    return out
