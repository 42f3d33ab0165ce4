"""`lab record`: which captures are made, kept and made again."""

from __future__ import annotations

import hashlib
import json
import sqlite3

import pytest

from profiling_lab.record import leaks, tools
from tests.harness.record.dirty_export import rows
from tests.harness.record.fake_course import PROGRAM

pytestmark = pytest.mark.proof  # it is authors who record


def test_records_what_is_missing_and_says_what_is_left(course, capsys):
    (course.captures / "first").mkdir()
    (course.captures / "first" / "README.md").write_text("# First\n\nHow long?\n")
    assert course.record() == 1
    out = capsys.readouterr().out
    assert "+ first" in out and "+ second" in out
    assert "large: needs 2 GPUs, here are 1" in out and "2 recorded, 0 failed, 1 left: large" in out

    folder = course.captures / "first"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "provenance.json",
        "stats",
        "timeline.sqlite",
    ]
    assert [path.name for path in (folder / "stats").iterdir()] == ["cuda_gpu_kern_sum.csv"]
    assert leaks.find_leaks(folder / "timeline.sqlite") == []
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["command"] == "nsys profile --trace=cuda python3 loop.py one"
    assert provenance["program"]["sha256"] == {
        "loop.py": hashlib.sha256(course.program.read_bytes()).hexdigest()
    }
    assert provenance["tool"]["schema_version"] == "3.20.3"
    assert provenance["reported_by_program"] == {"steps": 3, "checksum": 42}
    for name, expected in provenance["files"].items():
        assert tools.sha256(folder / name) == expected
    assert course.left_over() == []


def test_only_the_gpus_that_a_program_uses_are_described(course, monkeypatch):
    machine = {"gpu": [{"name": "one"}, {"name": "other"}], "driver": "1", "cuda": {"driver": "13"}}
    monkeypatch.setattr(tools, "machine", lambda: machine)
    monkeypatch.setattr(tools, "clocks", lambda: [{"sm_mhz": 1}, {"sm_mhz": 2}])
    course.record("--only", "first")
    provenance = json.loads((course.captures / "first" / "provenance.json").read_text())
    assert provenance["gpu"] == [{"name": "one"}]
    assert provenance["clocks"] == {"before": [{"sm_mhz": 1}], "after": [{"sm_mhz": 1}]}


def test_what_is_done_stays_done(course):
    course.record("--only", "first")
    before = (course.captures / "first" / "provenance.json").stat().st_mtime_ns
    assert course.calls("profile") == 1
    course.record("--missing")
    assert course.calls("profile") == 2  # the second one only
    assert (course.captures / "first" / "provenance.json").stat().st_mtime_ns == before


def test_no_time_left_leaves_the_rest_for_the_next_call(course, capsys):
    assert course.record("--missing", "--limit-s", "0") == 1
    assert "0 recorded, 0 failed, 3 left: first, second, large" in capsys.readouterr().out
    assert course.calls("profile") == 0


def test_a_program_that_runs_too_long_is_ended(course, capsys):
    course.program.write_text("import time\ntime.sleep(600)\n")
    assert course.record("--only", "first", "--limit-s", "2") == 1
    assert "still running at the time limit" in capsys.readouterr().out
    assert not (course.captures / "first").exists() and course.left_over() == []


def test_stale_means_program_or_command_changed(course, capsys):
    course.record("--only", "first", "--only", "second")
    assert course.record("--stale") == 0
    assert "nothing to record" in capsys.readouterr().out

    toml = course.captures / "captures.toml"
    toml.write_text(toml.read_text().replace('args = ["two"]', 'args = ["three"]'))
    assert course.record("--list") == 0
    out = capsys.readouterr().out
    assert "first   recorded" in out and "second  stale: its command changed" in out
    assert course.calls("profile") == 2

    course.program.write_text(PROGRAM + "# changed\n")
    course.record("--list")
    assert "first   stale: loop.py changed" in capsys.readouterr().out
    assert course.record("--stale") == 0
    assert course.calls("profile") == 4
    course.record("--list")
    assert "stale" not in capsys.readouterr().out


def test_a_failure_keeps_what_was_there(course, capsys):
    course.record("--only", "first")
    before = {path: path.read_bytes() for path in (course.captures / "first").glob("*.*")}
    course.program.write_text("raise SystemExit('out of memory')\n")
    assert course.record("--only", "first") == 1
    assert "! first: python3 loop.py one ended with status 1" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in (course.captures / "first").glob("*.*")}
    assert course.left_over() == []


def test_a_report_that_cannot_be_shown_clean_is_not_kept(course, capsys):
    assert course.record("--only", "second") == 0
    assert "second: the .nsys-rep is not kept: " in capsys.readouterr().out
    assert not (course.captures / "second" / "timeline.nsys-rep").exists()
    assert (course.captures / "second" / "timeline.sqlite").exists()


def test_a_leak_that_the_scrubber_misses_stops_the_capture(course, capsys):
    connection = sqlite3.connect(course.template)
    connection.execute("CREATE TABLE A_NEW_TABLE (note TEXT)")
    connection.execute("INSERT INTO A_NEW_TABLE VALUES ('run by ada@example.org')")
    connection.commit()
    connection.close()
    assert course.record("--only", "first") == 1
    assert "names this machine: timeline.sqlite: A_NEW_TABLE.note: e-mail" in (
        capsys.readouterr().out
    )
    assert not (course.captures / "first").exists() and course.left_over() == []


def test_a_recording_without_device_work_is_refused(course, capsys):
    connection = sqlite3.connect(course.template)
    connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
    connection.commit()
    connection.close()
    assert course.record("--only", "first") == 1
    assert "no work of the device" in capsys.readouterr().out


def test_help_texts_and_schema_are_kept_once(course):
    assert course.record("--help-texts") == 0
    folder = course.captures / "tool_help"
    assert "usage: nsys profile" in (folder / "nsys_profile.txt").read_text()
    course.record("--only", "first")
    schema = (folder / "nsys_schema.sql").read_text()
    assert "-- Event start timestamp (ns)." in schema
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["files"]["nsys_schema.sql"] == tools.sha256(folder / "nsys_schema.sql")
    definition = rows(
        course.captures / "first" / "timeline.sqlite",
        "SELECT sql FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'",
    )[0][0]
    assert "--" not in definition and "start INTEGER NOT NULL" in definition
