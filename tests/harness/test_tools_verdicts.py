"""How answers of tools become verdicts (benchmarks/tools_verdicts.py), and that the page says them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import tools_verdicts
from benchmarks.tools_comparison import _rule_results, _rule_tables
from benchmarks.tools_verdicts import Statement, Verdict, verdict

SICK = {"expect": "sync_bound", "must_not": ["host_bound"]}
HEALTHY = {"expect": "healthy", "must_not": ["host_bound"]}
OF = Statement  # short


@pytest.mark.parametrize(
    ("case", "statements", "main", "anywhere"),
    [
        (SICK, [OF("a", ("sync_bound",), True)], "right", "right"),
        (SICK, [OF("a", ("launch_bound", "sync_bound"), True)], "right", "right"),
        (SICK, [OF("a", ("launch_bound",), True)], "wrong", "wrong"),
        (SICK, [OF("a", ("launch_bound",), True), OF("b", ("sync_bound",))], "wrong", "right"),
        (SICK, [OF("idle", ("sync_bound", "host_bound"))], "silent", "right"),
        (SICK, [], "silent", "silent"),
        (HEALTHY, [], "right", "right"),
        (HEALTHY, [OF("a", ("launch_bound",), True)], "wrong", "right"),
        (HEALTHY, [OF("a", ("host_bound",), True)], "wrong", "wrong"),
        (HEALTHY, [OF("a", ("host_bound",))], "right", "wrong"),
    ],
)
def test_verdict(
    case: dict[str, Any], statements: list[Statement], main: str, anywhere: str
) -> None:
    told = verdict(case, statements)
    assert (told.main, told.anywhere) == (main, anywhere)


def test_rules_of_nsys_analyze() -> None:
    text = (
        "Processing [a.sqlite] with [x/rules/cuda_api_sync.py]... \n"
        "Duration (ns),Start (ns),API Name\n70,1,cudaDeviceSynchronize\n50,9,b\n\n"
        "Processing [a.sqlite] with [x/rules/gpu_gaps.py]... \nRow#,Duration (ns)\n1,900\n"
        "Processing [a.sqlite] with [x/rules/cuda_memset_sync.py]... \nSKIPPED: /x/a.sqlite no\n"
    )
    answer = _rule_tables(text, "") | {"window_ns": 1000}
    assert answer["cuda_api_sync"]["duration_ns"] == 120
    assert answer["cuda_memset_sync"] == {"skipped": "SKIPPED: a.sqlite no"}
    told = tools_verdicts.of_nsys_analyze(answer)
    assert [(one.text, one.headline) for one in told] == [
        ("cuda_api_sync", True),
        ("gpu_gaps", False),
    ]
    small = tools_verdicts.of_nsys_analyze(answer | {"window_ns": 2000})
    assert not any(one.headline for one in small)


def test_alarms_of_nsys_ai() -> None:
    answer = {
        "findings": [
            {"severity": "info", "label": "Large H2D Transfer"},
            {"severity": "warning", "label": "GPU Idle Gap (2 ms)"},
            {"severity": "warning", "label": "Small Kernel Overhead: x"},
        ],
        "patterns": [{"severity": "critical", "pattern": "Compute-Communication Imbalance"}],
    }
    told = tools_verdicts.of_nsys_ai(answer)
    assert [one.text[:7] for one in told] == ["Compute", "GPU Idl", "Small K"]
    assert [one.headline for one in told] == [True, False, False]


def test_rules_of_nsight_compute() -> None:
    def rule(name: str, text: str, kind: str, pct: str) -> dict[str, str]:
        return {
            "rule": name,
            "type": "OPT",
            "text": text,
            "speedup_type": kind,
            "speedup_pct": pct,
        }

    rules = [
        rule("SOLBottleneck", "Start by analyzing DRAM in the section.", "", ""),
        rule("ThreadDivergence", "x", "global", "9"),
        rule("UncoalescedGlobalAccess", "x", "local", "90"),
        rule("SharedMemoryConflicts", "x", "global", "40"),
        rule("MemoryL2Compression", "x", "global", "95"),
    ]
    told = tools_verdicts.of_nsight_compute({"rules": rules})
    heads = [one.categories for one in told if one.headline]
    assert heads == [("memory_bound",), ("bank_conflicts",)]
    page = '==PROF==\n"ID","Kernel Name","Section Name","Rule Name","Rule Type","Rule Description",'
    page += '"Estimated Speedup Type","Estimated Speedup"\n"0","k","s","","","","",""\n'
    page += '"0","k","s","R","OPT","t","global","5"\n'
    assert [one["rule"] for one in _rule_results(page)["rules"]] == ["R"]


def test_breakdowns_of_hta() -> None:
    answer: dict[str, Any] = {
        "temporal_breakdown": [
            {"idle_time_pctg": 12.0, "non_compute_time_pctg": 50.0},
            {"idle_time_pctg": 1.0, "non_compute_time_pctg": 45.0},
        ],
        "kernel_types": [{"kernel_type": "COMMUNICATION", "sum": 1, "percentage": 30.0}],
        "idle_time_breakdown": [],
    }
    told = tools_verdicts.of_hta(answer)
    assert [one.text for one in told] == ["idle time", "communication alone"]
    assert told[1] == OF("communication alone", ("communication_bound",), True)
    answer["temporal_breakdown"][1]["non_compute_time_pctg"] = 5.0
    assert tools_verdicts.of_hta(answer)[1].categories == ("rank_imbalance",)


def test_timeline_of_tracelens() -> None:
    def told(*ranks: dict[str, float]) -> list[tuple[tuple[str, ...], bool]]:
        of = tools_verdicts.of_tracelens({"gpu_timeline_pct": list(ranks)})
        return [(one.categories, one.headline) for one in of]

    assert told({"idle_time": 60.0}) == [(tools_verdicts.IDLE, False)]
    assert told({"exposed_comm_time": 12.0, "exposed_memcpy_time": 30.0}) == [
        (("communication_bound",), False),
        (("transfer_bound",), True),
    ]
    apart = ({"exposed_comm_time": 5.0}, {"exposed_comm_time": 40.0})
    assert told(*apart) == [(("rank_imbalance",), True)]
    assert told({"exposed_comm_time": 9.0}) == []


def test_pairs_of_later_looks() -> None:
    programs = tools_verdicts.later_looks()
    assert len(programs) == 41 + 37 + 29 + 27
    for tool in tools_verdicts.judge_pairs().values():
        assert set(tool["verdicts"]) <= set(programs)


def test_page_says_what_the_answers_say() -> None:
    judged = tools_verdicts.judge_all()
    assert set(judged) == set(tools_verdicts.STATEMENTS)
    assert tools_verdicts.PAGE.read_text(encoding="utf-8") == "\n".join(
        [*tools_verdicts.page(judged), ""]
    ), "uv run python benchmarks/tools_comparison.py judge"
    assert all(Verdict(**v).main for tool in judged.values() for v in tool["verdicts"].values())
