"""What one may ask of a kernel, held against what Day 2's reference makes of the same page."""

from __future__ import annotations

import pytest

from profiling_lab.kernel_counters import COUNTERS, value
from profiling_lab.mine.functions import functions_for

pytestmark = pytest.mark.proof  # it asks the reference
CAPTURES = ("ncu_memory", "ncu_shared", "ncu_compute", "ncu_parallelism", "ncu_atomics")


@pytest.mark.parametrize("capture", CAPTURES)
def test_each_says_what_the_reference_computes(capture):
    day2 = functions_for("ex_31", "solutions")
    for kernel in day2.call("read_metrics", capture):
        use, sectors, conflicts, occupancy = (
            day2.call(name, kernel)
            for name in ("unit_use", "sector_efficiency", "bank_conflicts", "occupancy_gap")
        )
        stalls = {row["reason"]: row["share_ratio"] for row in day2.call("rank_stalls", kernel)}
        expected = {
            "duration_ns": kernel["metrics"]["gpu__time_duration.sum"],
            "memory_use": max(use["dram"], use["l2"]),
            "l1_use": use["l1"],
            "waiting_ratio": stalls["long_scoreboard"],
            "needed_ratio": sectors["ideal_ratio"],
            "conflict_ratio": conflicts["conflict_ratio"] or 0.0,
            "l2_hit_ratio": sectors["l2_hit_ratio"],
            "occupancy_ratio": occupancy["theoretical_ratio"],
            "achieved_ratio": occupancy["achieved_ratio"],
            "waves": kernel["metrics"]["launch__waves_per_multiprocessor"],
        }
        found = {name: value(kernel["metrics"], name) for name in COUNTERS}
        spilled = found.pop("spilled_ratio")
        assert found == pytest.approx(expected), kernel["name"]
        assert (spilled > 0) == ("32_registers" in kernel["name"])


def test_another_name_is_refused():
    with pytest.raises(KeyError, match="dram"):
        value({}, "dram")
