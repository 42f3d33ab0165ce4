# A counter that is not there is taken for 0 bytes.
from __future__ import annotations

CAUGHT_BY = "test_flow_that_was_not_recorded"
SAYS = "a missing counter is not 0"


def byte_flow(kernel: dict[str, Any]) -> dict[str, dict[str, float]]:
    flow = {}
    for way, op, between, dram in (
        ("read", "ld", "l1tex__m_xbar2l1tex_read_bytes.sum", "dram__bytes_read.sum"),
        ("write", "st", "l1tex__m_l1tex2xbar_write_bytes.sum", "dram__bytes_write.sum"),
    ):
        value = kernel["metrics"].get
        sectors = value(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum") or 0
        used = value(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio") or 0
        flow[way] = {
            "asked_bytes": sectors * used,
            "l1_bytes": sectors * SECTOR_BYTES,
            "l2_bytes": value(between) or 0,
            "dram_bytes": value(dram) or 0,
        }
    return flow
