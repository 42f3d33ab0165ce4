"""Relates what waits for a bank to all wavefronts."""

from __future__ import annotations

CAUGHT_BY = "test_conflicts_of_recorded_kernels"
SAYS = "Of the waits for a bank those of atomics"


def bank_conflicts(kernel: dict[str, Any]) -> dict[str, float | None]:
    metrics = kernel["metrics"]
    wavefronts = metrics.get("memory_l1_wavefronts_shared")
    ideal = metrics.get("memory_l1_wavefronts_shared_ideal")
    conflicts = None if wavefronts is None or ideal is None else wavefronts - ideal
    share = _quotient(conflicts, wavefronts)
    use = _share(metrics, f"{SHARED_WAVEFRONTS}.sum.pct_of_peak_sustained_elapsed")
    waits = metrics.get(f"{BANK_WAITS}.sum")
    atomics = metrics.get(f"{BANK_WAITS}_op_atom.sum")
    return {
        "wavefronts_count": wavefronts,
        "conflicts_count": conflicts,
        "conflict_ratio": share,
        "pipe_ratio": _product(share, use),
        "atomics_ratio": 0.0 if waits == 0 and atomics == 0 else _quotient(atomics, wavefronts),
    }
