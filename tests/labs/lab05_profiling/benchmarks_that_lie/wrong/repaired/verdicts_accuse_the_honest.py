"""Holds a wait after each call against a benchmark of single calls."""

from __future__ import annotations

CAUGHT_BY = "test_verdicts"
SAYS = "measures what it claims to"


def verdicts() -> dict[str, str]:
    return {
        "case_01": "compile_inside",
        "case_02": "honest",
        "case_03": "warm_cache",
        "case_04": "copy_inside",
        "case_05": "zeros",
        "case_06": "best_of_many",
        "case_07": "no_sync",
        "case_08": "one_after_the_other",
        "case_09": "sync_every_call",
        "case_10": "sync_every_call",
        "case_11": "same_input",
        "case_12": "side_stream",
        "case_13": "no_warm_up",
        "case_14": "wrong_unit",
        "case_15": "lazy_result",
        "case_16": "unchecked_result",
    }
