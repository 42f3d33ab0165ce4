from __future__ import annotations

CAUGHT_BY = "test_missing_counters_are_named"
SAYS = "what was not recorded is not known to be 0"


def unit_needs(metrics: dict[str, float]) -> dict[str, float]:
    names = (
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "smsp__inst_executed.sum",
        "l1tex__data_pipe_lsu_wavefronts.sum",
        "dram__bytes.sum",
        "launch__sm_count",
        "sm__cycles_elapsed.avg.per_second",
    )
    ffma, instructions, wavefronts, dram_bytes, sms, clock_hz = (
        metrics.get(name) or 0 for name in names
    )
    if not sms > 0 or not clock_hz > 0:
        raise ValueError(f"{sms} multiprocessors at {clock_hz} Hz")
    cycle_ns = 1e9 / clock_hz / sms
    return {
        "fma": ffma / FMA_LANES * cycle_ns,
        "issue": instructions / ISSUE_SLOTS * cycle_ns,
        "l1": wavefronts / L1_WAVEFRONTS * cycle_ns,
        "dram": dram_bytes / DRAM_BYTES_PER_S * 1e9,
    }
