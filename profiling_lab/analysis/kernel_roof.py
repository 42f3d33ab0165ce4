"""A profiled kernel under the roofs of its own launch: operations per byte of DRAM, and operations per second."""

from __future__ import annotations

from dataclasses import dataclass

from profiling_lab.analysis.kernel_page import Kernel
from profiling_lab.kernel_causes import Missing

# Instructions of single threads, by data type: additions, multiplications, fused multiply-adds.
_OPERATIONS = {"float32": ("fadd", "fmul", "ffma"), "float64": ("dadd", "dmul", "dfma")}
_A_CYCLE = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_MOST = "sm__sass_thread_inst_executed_op_{}_pred_on.sum.peak_sustained"


@dataclass(frozen=True)
class UnderRoof:
    """A point, and the two parts of the roof above it at the clocks of the launch."""

    dtype: str
    intensity: float
    flops_per_s: float
    roof_bytes_per_s: float
    roof_flops_per_s: float


def of(kernel: Kernel) -> UnderRoof | None:
    """Where a kernel stands, by the data type it has more operations in.

    None where counters are missing (`--set full` records them), or it did no such operation, or moved nothing:
    the tensor cores' operations are in none of these counters.
    """
    try:
        clock = kernel.need("smsp__cycles_elapsed.avg.per_second")
        rates = {
            dtype: clock
            * sum(
                weight * kernel.need(_A_CYCLE.format(name))
                for name, weight in zip(names, (1, 1, 2), strict=True)
            )
            for dtype, names in _OPERATIONS.items()
        }
        dtype = max(rates, key=lambda one: rates[one])
        moved = kernel.need("dram__bytes.sum.per_second")
        roof = kernel.need("dram__bytes.sum.peak_sustained") * kernel.need(
            "dram__cycles_elapsed.avg.per_second"
        )
        most = kernel.need(_MOST.format(_OPERATIONS[dtype][-1]))
        ceiling = 2 * most * kernel.need("sm__cycles_elapsed.avg.per_second")
    except Missing:
        return None
    if not all(value > 0 for value in (rates[dtype], moved, roof, ceiling)):
        return None
    return UnderRoof(dtype, rates[dtype] / moved, rates[dtype], roof, ceiling)
