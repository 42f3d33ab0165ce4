# Counts instructions: a fused multiply-add is one of them, but two operations.
from __future__ import annotations

CAUGHT_BY = "test_work_of_recorded_kernels"
SAYS = "A fused multiply-add is two operations"


def counted_work(kernel: dict[str, Any]) -> dict[str, float]:
    seconds = _metric(kernel, DURATION) / 1e9
    clock = _metric(kernel, INSTRUCTION_CLOCK)
    out = {}
    for dtype, operations in OPERATIONS.items():
        a_cycle = sum(_metric(kernel, INSTRUCTIONS.format(one)) for one in operations)
        out[f"{dtype}_flops"] = a_cycle * clock * seconds
    for level, (counter, _) in BYTES.items():
        out[f"{level}_bytes"] = _metric(kernel, f"{counter}.per_second") * seconds
    return out
