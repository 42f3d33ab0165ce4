# Sectors are moved whole, so all of their bytes are taken for asked ones.
from __future__ import annotations

CAUGHT_BY = "test_flow_of_recorded_kernels"
SAYS = "asked_bytes is"


def byte_flow(kernel: dict[str, Any]) -> dict[str, dict[str, float]]:
    flow = {}
    for way, op, between, dram in (
        ("read", "ld", "l1tex__m_xbar2l1tex_read_bytes.sum", "dram__bytes_read.sum"),
        ("write", "st", "l1tex__m_l1tex2xbar_write_bytes.sum", "dram__bytes_write.sum"),
    ):
        sectors = _metric(kernel, f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum")
        flow[way] = {
            "asked_bytes": sectors * SECTOR_BYTES,
            "l1_bytes": sectors * SECTOR_BYTES,
            "l2_bytes": _metric(kernel, between),
            "dram_bytes": _metric(kernel, dram),
        }
    return flow
