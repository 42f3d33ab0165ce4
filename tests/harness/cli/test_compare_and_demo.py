"""`lab compare`, `lab report`, `lab demo`, and what passes on to other commands."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from profiling_lab import record
from profiling_lab.course import doctor
from tests.harness.cli.small_course import SOLUTIONS, Lab, one_line


def test_compare_flags_a_regression(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    fast, slow = scenario("sync_bound", seed=3), tmp_path / "slow.sqlite"
    shutil.copy(fast, slow)
    with sqlite3.connect(slow) as connection:  # its last kernel takes 5 ms longer
        connection.execute(
            'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = "end" + 5000000 '
            "WHERE start = (SELECT MAX(start) FROM CUPTI_ACTIVITY_KIND_KERNEL)"
        )
    same = outside("compare", str(fast), str(fast))
    assert same.exit_code == 0
    assert "No change beyond the tolerance of 2.0%" in same.stdout
    better = outside("compare", str(slow), str(fast))
    assert better.exit_code == 0
    assert "faster" in better.stdout
    worse = outside("compare", str(fast), str(slow))
    assert worse.exit_code == 1
    assert "Regression" in worse.stdout
    assert "grew" in worse.stdout
    assert all(len(line) <= 80 for line in worse.stdout.splitlines())
    assert outside("compare", str(fast), str(slow), "--tolerance", "1000").exit_code == 0
    assert "tolerance" in one_line(outside("compare", str(fast), str(slow), "--tolerance", "-1"))


def test_compare_asks_the_engine_and_nobody_else(
    outside: Lab, scenario: Callable[..., Path]
) -> None:
    file = str(scenario("transfer_bound"))
    result = outside("compare", file, file)
    assert result.exit_code == 0
    assert "Window" in result.stdout
    assert "What would be saved" in result.stdout
    rows = json.loads(outside("compare", file, file, "--json").stdout)
    assert {row["group"] for row in rows["rows"]} >= {"time", "spent", "copies", "saved", "kernels"}
    assert rows["window_ratio"] == 1.0


def test_compare_totals_agree_with_sql(outside: Lab, scenario: Callable[..., Path]) -> None:
    file = scenario("transfer_bound")
    rows = json.loads(outside("compare", str(file), str(file), "--json").stdout)["rows"]
    with sqlite3.connect(file) as connection:
        expected = dict(
            connection.execute(
                'SELECT s.value, SUM(k."end" - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k '
                "JOIN StringIds AS s ON s.id = k.shortName GROUP BY s.value"
            ).fetchall()
        )
        copied = connection.execute("SELECT SUM(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY").fetchone()
    totals = {r["what"]: r["before"] for r in rows if r["group"] == "kernels" and r["unit"] == "ns"}
    assert totals == expected
    assert next(row for row in rows if row["what"] == "Bytes copied")["before"] == copied[0]


def test_report_writes_one_page(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path
) -> None:
    files = [str(scenario("sync_bound")), str(scenario("healthy"))]
    result = outside("report", *files, "--output", "page.html", "--against", SOLUTIONS)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "sync_bound" in page
    line = one_line(outside("report", *files, "--output", "nowhere/page.html"))
    assert "there is no folder" in line


def test_demo_diagnoses_two_pairs(
    outside: Lab, scenario: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    for name, source in (
        ("torch_inference_baseline", scenario("sync_bound")),
        ("torch_inference_improved", scenario("healthy")),
        ("cuda_pipeline_baseline", scenario("transfer_bound")),
        ("cuda_pipeline_improved", scenario("copies_and_kernels")),
    ):
        (shipped / name).mkdir(parents=True)
        shutil.copy(source, shipped / name / "timeline.sqlite")
    monkeypatch.setenv("LAB_CAPTURES", str(shipped))
    result = outside("demo")
    assert result.exit_code == 0, result.output
    for words in ("sync_bound", "transfer_bound", "lab-demo.html", "Next:"):
        assert words in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert (tmp_path / "lab-demo.html").stat().st_size > 10_000


def test_demo_without_captures(
    outside: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_CAPTURES", str(tmp_path / "nothing"))
    assert "none of the demo's captures is here" in one_line(outside("demo"))


def test_doctor_and_record_pass_on(outside: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    item = doctor.Item("GPU", "missing", "no NVIDIA GPU", "recorded work runs")
    monkeypatch.setattr(doctor, "examine", lambda: [item])
    result = outside("doctor")
    assert result.exit_code == 0
    assert "no NVIDIA GPU" in result.output
    assert json.loads(outside("doctor", "--json").stdout)[0]["state"] == "missing"
    seen: list = []
    monkeypatch.setattr(record, "main", lambda argv: seen.append(argv) or 0)
    assert outside("record", "--only", "name", "--help").exit_code == 0
    assert seen == [["--only", "name", "--help"]]
