"""The recorder, against a profiler that is a script: what it keeps, what it scrubs, what it says."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import sqlite3
import stat
import sys
import textwrap
from pathlib import Path

import pytest

from profiling_lab.record import cli, leaks, scrub, tools
from profiling_lab.record.errors import RecordError

pytestmark = pytest.mark.proof  # it is authors who record

PID = 0x1000001C6000000  # a globalPid as the exporter writes it; + thread = globalTid
OTHER_PID = 0x1000000A7000000
ADA = "/home" + "/ada"  # in parts: no file of the repository spells a path of a machine
ENVIRONMENT = f"HOME={ADA}\0API_TOKEN=abc\0PATH={ADA}/bin\0"
KERNEL_NAME, LONG_NAME, CALL_NAME, MODULE, BLOB, UNUSED, THREAD, OTHER_THREAD = range(1, 9)


def dirty_export(file: Path) -> None:
    """A small database in the exporter's shape with all that must not stay in it."""
    connection = sqlite3.connect(file)
    connection.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); -- names, once
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
            start INTEGER NOT NULL, -- Event start timestamp (ns).
            end INTEGER NOT NULL, deviceId INTEGER, correlationId INTEGER, globalPid INTEGER,
            demangledName INTEGER NOT NULL, -- REFERENCES StringIds(id) -- with templates
            shortName INTEGER NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
            globalTid INTEGER, correlationId INTEGER, nameId INTEGER, callchainId INTEGER);
        CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
            nameId INTEGER NOT NULL, callchainId INTEGER NOT NULL);
        CREATE TABLE OSRT_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER);
        CREATE TABLE GPU_METRICS (rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER NOT NULL,
            metricId INTEGER NOT NULL, value INTEGER NOT NULL);
        CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, metricId INTEGER, metricName TEXT);
        CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, uuid TEXT);
        CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
        CREATE TABLE ANALYSIS_FILE (id INTEGER, filename TEXT);
        CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
        CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER);
        CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, text TEXT, globalPid INTEGER);
        CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER, name TEXT);
        CREATE TABLE ENUM_NSYS_GENERIC_EVENT_SOURCE (id INTEGER, name TEXT);
        """
    )
    many = connection.executemany
    many(
        "INSERT INTO StringIds VALUES (?, ?)",
        [
            (KERNEL_NAME, "infer"),
            (LONG_NAME, "void infer<float>(float const*, int)"),
            (CALL_NAME, "cudaLaunchKernel_v7000"),
            (MODULE, f"{ADA}/lib/libmodel.so"),
            (BLOB, ENVIRONMENT),
            (UNUSED, f"{ADA}/never-referred-to"),
            (THREAD, "python3"),
            (OTHER_THREAD, "kworker/3:0-events"),
        ],
    )
    many(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, ?, ?, ?, ?)",
        [(100 * n, 100 * n + 60, n, PID, LONG_NAME, KERNEL_NAME) for n in range(50)],
    )
    many(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, 7)",
        [(100 * n - 20, 100 * n - 10, PID + 454, n, CALL_NAME) for n in range(50)],
    )
    many("INSERT INTO OSRT_API VALUES (?, ?, ?, ?, 7)", [(5, 9, PID + 454, CALL_NAME)])
    many("INSERT INTO OSRT_CALLCHAINS VALUES (7, ?, ?)", [(CALL_NAME, MODULE)])
    many(
        "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (9, ?, ?)",
        [(0, "SMs Active [Throughput %]"), (1, "Pixel Warps in Flight [Avg]")],
    )
    many(
        "INSERT INTO GPU_METRICS VALUES (?, ?, 9, ?, ?)",
        [(10**15 + n, 100 * n, n % 2, n) for n in range(200)],
    )
    many(
        "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (?, ?)",
        [("Hostname", "node17"), ("DeviceEnvironment", ENVIRONMENT.replace("\0", ";"))],
    )
    many(
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', ?)",
        [("2b9af2b1-8ae8-52b7-8622-dcbdb674c70f",)],
    )
    many("INSERT INTO ProcessStreams VALUES (?, ?, ?)", [(PID, UNUSED, BLOB)])
    many("INSERT INTO ANALYSIS_FILE VALUES (0, ?)", [(f"{ADA}/streams/stdout.log",)])
    many(
        "INSERT INTO PROCESSES VALUES (?, ?, ?)",
        [(PID, 454, "python3"), (OTHER_PID, 167, "kworker/3:0")],
    )
    many(
        "INSERT INTO ThreadNames VALUES (?, ?)",
        [(THREAD, PID + 454), (OTHER_THREAD, OTHER_PID + 167)],
    )
    many(
        "INSERT INTO DIAGNOSTIC_EVENT VALUES (?, ?, ?)",
        [
            (1, f"Loaded CUPTI library: {ADA}/cuda/libcupti.so.13.0", PID),
            (2, "GPU Metrics [0]: Skipping metric CTC.x", PID),
            (3, "Profiling has stopped.", PID),
        ],
    )
    many(
        "INSERT INTO META_DATA_CAPTURE VALUES (?, ?)",
        [
            ("CAPTURE_EVENT_TYPE", "Cuda"),
            ("DEVICE_DISPLAY_NAME", "node17"),
            ("PROCESS_0:WORKING_DIR", ADA),
            ("PROCESS_0:ENVIRONMENT_VARIABLE", f'HOME="{ADA}"'),
            ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph"),
        ],
    )
    many(
        "INSERT INTO META_DATA_EXPORT VALUES (?, ?)",
        [
            ("EXPORT_SCHEMA_VERSION", "3.20.3"),
            ("EXPORT_HOST", "node17"),
            ("EXPORT_PARAM_INPUT_PATH_ABS", f"{ADA}/timeline.nsys-rep"),
        ],
    )
    many("INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, ?)", [("Pageable",)])
    connection.commit()
    connection.close()


def rows(file: Path, query: str) -> list[tuple]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.fixture
def export(tmp_path) -> Path:
    file = tmp_path / "timeline.sqlite"
    dirty_export(file)
    return file


class TestScrub:
    def test_the_dirty_export_is_dirty(self, export):
        found = "\n".join(leaks.find_leaks(export))
        for what in ("home folder", "environment variable", "device or session id", "NUL", "host"):
            assert what in found

    def test_nothing_is_found_afterwards(self, export):
        scrub.scrub(export)
        assert leaks.find_leaks(export, [b"node17"]) == []

    def test_what_the_course_reads_is_untouched(self, export):
        queries = (
            """SELECT start, end, deviceId, correlationId, globalPid, s.value, l.value
            FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds s ON s.id = shortName
            JOIN StringIds l ON l.id = demangledName ORDER BY start""",
            """SELECT start, end, globalTid, correlationId, s.value
            FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds s ON s.id = nameId ORDER BY start""",
            "SELECT timestamp, value FROM GPU_METRICS WHERE metricId = 0 ORDER BY timestamp",
            "SELECT name FROM TARGET_INFO_GPU",
            "SELECT * FROM ENUM_CUDA_MEM_KIND",
        )
        before = [rows(export, query) for query in queries]
        scrub.scrub(export)
        assert [rows(export, query) for query in queries] == before
        assert all(before)

    def test_only_chosen_metrics_stay(self, export):
        scrub.scrub(export)
        names = rows(export, "SELECT metricName FROM TARGET_INFO_GPU_METRICS")
        assert names == [("SMs Active [Throughput %]",)]
        assert rows(export, "SELECT DISTINCT metricId FROM GPU_METRICS") == [(0,)]

    def test_only_profiled_processes_and_threads_stay(self, export):
        scrub.scrub(export)
        assert rows(export, "SELECT name FROM PROCESSES") == [("python3",)]
        assert rows(export, "SELECT globalTid FROM ThreadNames") == [(PID + 454,)]

    def test_call_stacks_are_dropped_or_kept_without_folders(self, export, tmp_path):
        copy = tmp_path / "copy.sqlite"
        copy.write_bytes(export.read_bytes())
        scrub.scrub(export)
        assert rows(export, "SELECT callchainId FROM OSRT_API") == [(0,)]
        assert rows(export, "SELECT DISTINCT callchainId FROM CUPTI_ACTIVITY_KIND_RUNTIME") == [
            (None,)
        ]
        scrub.scrub(copy, callchains=True)
        module = "SELECT value FROM OSRT_CALLCHAINS JOIN StringIds s ON s.id = module"
        assert rows(copy, module) == [("libmodel.so",)]
        assert rows(copy, "SELECT callchainId FROM OSRT_API") == [(7,)]

    def test_texts_lose_their_folders_only(self, export):
        scrub.scrub(export)
        assert rows(export, "SELECT text FROM DIAGNOSTIC_EVENT ORDER BY timestamp") == [
            ("Loaded CUPTI library: libcupti.so.13.0",),
            ("Profiling has stopped.",),
        ]

    def test_facts_about_the_recording_stay(self, export):
        scrub.scrub(export)
        assert rows(export, "SELECT name FROM META_DATA_CAPTURE ORDER BY name") == [
            ("CAPTURE_EVENT_TYPE",),
            ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE",),
        ]
        assert rows(export, "SELECT name FROM META_DATA_EXPORT") == [("EXPORT_SCHEMA_VERSION",)]

    def test_scrubbing_twice_changes_nothing(self, export):
        scrub.scrub(export)
        once = export.read_bytes()
        scrub.scrub(export)
        assert rows(export, "PRAGMA integrity_check") == [("ok",)]
        assert len(export.read_bytes()) == len(once)


def test_ids_in_a_report_are_blanked_in_place():
    data = b"host\x12$2b9af2b1-8ae8-52b7-8622-dcbdb674c70f:6.18.44-special\0end"
    blank = leaks.neutralise_report(data, [b"6.18.44-special"])
    assert len(blank) == len(data)
    assert b"2b9af2b1" not in blank and b"special" not in blank
    assert blank.startswith(b"host\x12$00000000-") and blank.endswith(b"\0end")


# -- a course with a profiler that is a script ------------------------------------------------------

FAKE_NSYS = """\
#!{python}
import os, pathlib, shutil, subprocess, sys
log = pathlib.Path({log!r})
with log.open("a") as out:
    out.write(" ".join(sys.argv[1:]) + "\\n")
verb = sys.argv[1]
if verb == "--version":
    print("NVIDIA Nsight Systems version 2025.3.1.0-fake")
elif "--help" in sys.argv or "--help-reports" in sys.argv:
    print("usage: nsys", verb, "[<options>]")
elif verb == "profile":
    assert set(os.environ) <= {{"PATH", "HOME", "LANG", "LC_CTYPE", "MARK"}}, dict(os.environ)
    command = [word for word in sys.argv[2:] if not word.startswith("--")]
    done = subprocess.run(command)
    pathlib.Path("timeline.nsys-rep").write_bytes(b"report of " + bytes(20))
    sys.exit(done.returncode)
elif verb == "export":
    shutil.copy({template!r}, "timeline.sqlite")
elif verb == "stats":
    reports = next(word for word in sys.argv if word.startswith("--report=")).split("=")[1]
    for name in reports.split(","):
        if name != "cuda_gpu_mem_time_sum":
            pathlib.Path(f"stats_{{name}}.csv").write_text("Time (%),Name\\n100.0,infer\\n")
        else:
            print("stats.sqlite: [cuda_gpu_mem_time_sum.py] (SKIPPED) no data")
"""

PROGRAM = """\
import sys
print('RESULT {"steps": 3, "checksum": 42}')
"""


class Course:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.captures = root / "captures"
        self.log = root / "nsys.log"
        self.nsys = root / "bin" / "nsys"
        self.template = root / "template.sqlite"
        self.program = self.captures / "programs" / "loop.py"

    def calls(self, verb: str) -> int:
        text = self.log.read_text() if self.log.exists() else ""
        return sum(line.startswith(verb + " ") for line in text.splitlines())

    def record(self, *arguments: str) -> int:
        return cli.main(
            ["--captures", str(self.captures), "--nsys", str(self.nsys), "--no-isolation"]
            + list(arguments)
        )

    def left_over(self) -> list[str]:
        return [path.name for path in self.captures.iterdir() if path.name.startswith(".")]


@pytest.fixture
def course(tmp_path, monkeypatch) -> Course:
    course = Course(tmp_path / "course")
    course.program.parent.mkdir(parents=True)
    course.nsys.parent.mkdir()
    course.program.write_text(PROGRAM)
    dirty_export(course.template)
    script = FAKE_NSYS.format(
        python=sys.executable, log=str(course.log), template=str(course.template)
    )
    course.nsys.write_text(script)
    course.nsys.chmod(course.nsys.stat().st_mode | stat.S_IXUSR)
    (course.captures / "captures.toml").write_text(
        textwrap.dedent(
            """\
            [defaults.nsys]
            options = ["--trace=cuda"]
            stats = ["cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum"]

            [first]
            program = "captures/programs/loop.py"
            args = ["one"]
            question = "How long?"

            [second]
            program = "captures/programs/loop.py"
            args = ["two"]
            report = true

            [large]
            program = "captures/programs/loop.py"
            needs = { gpus = 2 }
            """
        )
    )
    monkeypatch.setattr(tools, "WORK_FOLDER", tmp_path / "work")
    monkeypatch.setattr(
        tools,
        "machine",
        lambda: {"gpu": [{"name": "a GPU"}], "driver": "1", "cuda": {"driver": "13.0"}},
    )
    monkeypatch.setattr(tools, "clocks", list)
    monkeypatch.setenv("SECRET_TOKEN", "must not reach the profiler")
    return course


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
    assert "tells of this machine: timeline.sqlite: A_NEW_TABLE.note: e-mail" in (
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


# -- counters of kernels, and what a program writes itself ------------------------------------------

FAKE_NCU = """\
#!{python}
import os, pathlib, subprocess, sys
log = pathlib.Path({log!r})
words = sys.argv[1:]
with log.open("a") as out:
    out.write(" ".join(words) + "\\n")
if "--version" in words:
    print("NVIDIA (R) Nsight Compute Command Line Profiler")
    print("Version 2025.3.1.0 (build 1) (public-release)")
elif words[0] in ("--help", "--list-sets", "--list-sections"):
    print("usage: ncu [options] [program] [program-arguments]")
elif "--import" in words:
    print("==PROF== a line of the tool")
    if words[words.index("--page") + 1] == "source":
        print('"Kernel Name","copy"')
        print('"#","Source","# Samples"')
        print('"0","LDG.E R1, [R2]","7"')
    else:
        print('"ID","Kernel Name","gpu__time_duration.sum"')
        print('"","","us"')
        print('"0","copy","61.5"')
else:
    assert set(os.environ) <= {{"PATH", "HOME", "LANG", "LC_CTYPE", "MARK"}}, dict(os.environ)
    if not {counters!r}:
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
        sys.exit(1)
    print('==PROF== Profiling "copy" - 0: 0%....50%....100% - 38 passes')
    command = words[words.index("python3"):] if "python3" in words else words[-3:]
    done = subprocess.run(command)
    pathlib.Path("kernels.ncu-rep").write_bytes(b"NVR" + {report!r})
    sys.exit(done.returncode)
"""

MEASURED = """\
import sys
print('RESULT {"profiled": %s}' % str("--once" in sys.argv).lower())
"""

WRITES = """\
import gzip, json, os, pickle, sys, threading
here = os.getcwd()
trace = {
    "traceName": here + "/trace.json",
    "frames": [threading.__file__, "/opt/venv/lib/python3.12/site-packages/torch/x.py(3): f"],
    "id": "2b9af2b1-8ae8-52b7-8622-dcbdb674c70f",
    "text": "x" * 100_000,
}
with gzip.open("trace.json.gz", "wt") as out:
    json.dump(trace, out)
with open("memory.pickle", "wb") as out:
    pickle.dump({"frames": [{"filename": here + "/loop.py", "line": 3}], "pool": (0, 1)}, out)
print('RESULT {"steps": 3}')
"""


@pytest.fixture
def kinds(course) -> Course:
    """A course whose captures are made by ncu and by programs."""
    (course.captures / "programs" / "counted.py").write_text(MEASURED)
    (course.captures / "programs" / "writes.py").write_text("import helper\n" + WRITES)
    (course.captures / "programs" / "helper.py").write_text("")
    (course.captures / "captures.toml").write_text(
        textwrap.dedent(
            """\
            [defaults.ncu]
            options = ["--clock-control", "none"]

            [counted]
            tool = "ncu"
            program = "captures/programs/counted.py"
            options = ["--set", "full"]
            profiled_args = ["--once"]
            pages = ["kernels.csv", "source.csv"]
            source_of = "copy"
            report = true

            [written]
            tool = "program"
            program = "captures/programs/writes.py"
            sources = ["captures/programs/helper.py"]
            files = ["trace.json.gz", "memory.pickle"]
            """
        )
    )
    fake_ncu(course)
    return course


def fake_ncu(course: Course, counters: bool = True, report: bytes = b" copy ") -> None:
    ncu = course.nsys.with_name("ncu")
    text = FAKE_NCU.format(
        python=sys.executable, log=str(course.log), counters=counters, report=report
    )
    ncu.write_text(text)
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)


def record_kinds(course: Course, *arguments: str) -> int:
    return course.record("--ncu", str(course.nsys.with_name("ncu")), *arguments)


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


# -- what it says -----------------------------------------------------------------------------------


def test_without_nsys_one_line_says_where_it_was_looked_for(course, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(tools, "NSYS_PLACES", ())
    assert cli.main(["--captures", str(course.captures)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nsys) was not found" in error and "--nsys PATH" in error


def test_the_newest_nsys_is_found_inside_nsight_compute(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for version in ("2024.3.2", "2025.3.1", "2025.10.0"):
        folder = tmp_path / "opt/nvidia/nsight-compute" / version / "host/target-linux-x64"
        folder.mkdir(parents=True)
        (folder / "nsys").write_text("#!/bin/sh\n")
        (folder / "nsys").chmod(0o755)
    found = tools.find_nsys(root=tmp_path)
    assert "2025.10.0" in found.parts


def test_a_missing_library_of_the_importer_is_named(tmp_path, monkeypatch, capsys):
    install = tmp_path / "nsight-compute"
    nsys = install / "host/target-linux-x64/nsys"
    importer = install / "host/linux-desktop-glibc_2_11_3-x64/QdstrmImporter"
    for file in (nsys, importer):
        file.parent.mkdir(parents=True)
        file.write_text("")
    ldd = tmp_path / "bin/ldd"
    ldd.parent.mkdir()
    ldd.write_text("#!/bin/sh\necho '\tlibdw.so.1 => not found'\n")
    ldd.chmod(0o755)
    monkeypatch.setenv("PATH", str(ldd.parent))
    with pytest.raises(RecordError, match=r"lacks libdw\.so\.1; .*apt install libdw1"):
        tools.check_importer(nsys)


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        (None, "no such file"),
        ("[a\n", "captures.toml"),
        ("[a]\nargs = []\n", "needs at least program"),
        ("[a]\nprogram = 'x.py'\ncolour = 'red'\n", "unknown key colour"),
        ("[A-1]\nprogram = 'x.py'\n", "lower case"),
        ("[a]\nprogram = 'x.py'\ntool = 'perf'\n", "no recorder for tool = 'perf'; there are nsys"),
        ("[a]\nprogram = 'x.py'\ntool = 'program'\n", "needs files"),
        ("[a]\nprogram = 'x.py'\ntool = 'ncu'\nstats = []\n", "unknown key stats"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys, toml, says):
    if toml is not None:
        (tmp_path / "captures.toml").write_text(toml)
    assert cli.main(["--captures", str(tmp_path), "--list"]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_an_unknown_name_lists_those_that_exist(course, capsys):
    assert course.record("--only", "third") == 2
    assert "no capture named third" in capsys.readouterr().err
