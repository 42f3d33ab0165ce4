"""`lab record`: counters of kernels, and what a program writes itself."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import pytest

from profiling_lab.record import cli, scrub, tools
from profiling_lab.record.errors import RecordError
from tests.harness.record.dirty_export import ADA
from tests.harness.record.fake_course import fake_ncu, record_kinds

pytestmark = pytest.mark.proof  # it is authors who record


def test_counters_are_printed_from_the_report_that_is_kept(kinds):
    assert record_kinds(kinds, "--only", "counted") == 0
    folder = kinds.captures / "counted"
    assert sorted(path.name for path in folder.iterdir()) == [
        "kernels.csv",
        "kernels.ncu-rep",
        "ncu.log",
        "provenance.json",
        "source.csv",
    ]
    assert (folder / "kernels.csv").read_text().splitlines()[1] == '"","","us"'
    assert "38 passes" in (folder / "ncu.log").read_text()
    record = json.loads((folder / "provenance.json").read_text())
    assert record["command"] == ("ncu --clock-control none --set full python3 counted.py --once")
    assert record["tool"] == {
        "name": "Nsight Compute",
        "version": "2025.3.1.0",
        "schema_version": None,
    }
    assert record["reported_by_program"] == {"profiled": False}, "times are those without ncu"
    assert "--kernel-name regex:copy" in kinds.log.read_text()
    assert record_kinds(kinds, "--list") == 0


def test_a_report_of_counters_that_tells_of_the_machine_is_not_kept(kinds, capsys):
    fake_ncu(kinds, report=f" {ADA}/kernel.cu ".encode())
    assert record_kinds(kinds, "--only", "counted") == 0
    assert "counted: the .ncu-rep is not kept: " in capsys.readouterr().out
    assert not (kinds.captures / "counted" / "kernels.ncu-rep").exists()


def test_without_the_right_to_counters_it_says_so(kinds, capsys):
    fake_ncu(kinds, counters=False)
    assert record_kinds(kinds, "--only", "counted") == 1
    assert "! counted: ncu: ERR_NVGPUCTRPERM" in capsys.readouterr().out


def test_what_a_program_writes_loses_the_folders_of_the_machine(kinds):
    assert record_kinds(kinds, "--only", "written") == 0
    folder = kinds.captures / "written"
    trace = json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))
    assert trace["traceName"] == "trace.json"
    assert trace["frames"][0].startswith("python3.") and trace["frames"][0].endswith(
        "/threading.py"
    )
    assert trace["frames"][1] == "site-packages/torch/x.py(3): f"
    assert trace["id"] == "00000000-0000-0000-0000-000000000000"
    memory = pickle.loads((folder / "memory.pickle").read_bytes())
    assert memory == {"frames": [{"filename": "loop.py", "line": 3}], "pool": (0, 1)}
    record = json.loads((folder / "provenance.json").read_text())
    assert record["command"] == "python3 writes.py"
    assert set(record["program"]["sha256"]) == {"writes.py", "helper.py"}
    assert record["reported_by_program"] == {"steps": 3}


def test_a_helper_that_changed_makes_a_capture_stale(kinds, capsys):
    record_kinds(kinds, "--only", "written")
    (kinds.captures / "programs" / "helper.py").write_text("# changed\n")
    kinds.record("--list")
    assert "written  stale: helper.py changed" in capsys.readouterr().out


def test_a_program_that_does_not_write_its_file_is_named(kinds, capsys):
    (kinds.captures / "programs" / "writes.py").write_text("print('nothing')\n")
    assert record_kinds(kinds, "--only", "written") == 1
    assert "wrote no trace.json.gz into its working folder" in capsys.readouterr().out


def test_a_pickle_that_would_run_something_is_refused():
    data = pickle.dumps(Path("x"))
    with pytest.raises(RecordError, match=r"asks for pathlib"):
        scrub.neutral_pickle(data, Path("/nowhere"))
    with pytest.raises(RecordError, match="cannot be read"):
        scrub.neutral_pickle(pickle.dumps({"a": 1})[:-3], Path("/nowhere"))


def test_help_of_the_tools_that_are_here_is_kept_beside_the_rest(kinds, monkeypatch):
    kinds.record("--help-texts", "--ncu", str(kinds.nsys.with_name("ncu")))
    folder = kinds.captures / "tool_help"
    before = (folder / "nsys_profile.txt").read_bytes()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(tools, "NSYS_PLACES", ())
    ncu = str(kinds.nsys.with_name("ncu"))
    assert cli.main(["--captures", str(kinds.captures), "--ncu", ncu, "--help-texts"]) == 0
    assert (folder / "nsys_profile.txt").read_bytes() == before
    record = json.loads((folder / "provenance.json").read_text())
    assert set(record["tools"]) == {"nsys", "ncu"}
    assert record["commands"]["ncu_sets.txt"] == "ncu --list-sets"
