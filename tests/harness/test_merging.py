"""Recordings of the ranks of one job, a file each, say together what one recording of all says."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from profiling_lab import captures
from profiling_lab.captures import inputs, merging
from profiling_lab.errors import CaptureError
from profiling_lab.mine import limits
from profiling_lab.mine.functions import load_once
from profiling_lab.units import format_ns

ROOT = Path(__file__).resolve().parents[2]
BOTH = ROOT / "captures" / "ddp_timeline_straggler" / "timeline.sqlite"
EXERCISE = "modules/01-nsight-systems/ex04-multi-gpu-timeline/multi_gpu_timeline.py"
LATER_NS = 15_313_959
TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "globalPid",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "globalPid",
    "CUPTI_ACTIVITY_KIND_MEMSET": "globalPid",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "globalPid",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "globalPid",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "globalTid",
    "NVTX_EVENTS": "globalTid",
    "PROFILER_OVERHEAD": "globalTid",
}


def split(folder: Path, *, one_device_each: bool = False) -> list[Path]:
    """A recording of two ranks as each rank's own session would have written it.

    The second session begins later and has its strings under other numbers. one_device_each: as where a
    rank sees its own device only, and calls it 0.
    """
    with sqlite3.connect(BOTH) as connection:
        rows = connection.execute("SELECT pid, globalPid FROM PROCESSES ORDER BY pid").fetchall()
    out = []
    for rank, (pid, process) in enumerate(rows):
        file = folder / f"rank{rank}.sqlite"
        shutil.copyfile(BOTH, file)
        with sqlite3.connect(file) as connection:
            for table, column in TABLES.items():
                connection.execute(
                    f"DELETE FROM {table} WHERE ({column} & ~16777215) <> ?", (process,)
                )
            connection.execute("DELETE FROM TARGET_INFO_CUDA_DEVICE WHERE pid <> ?", (pid,))
            if one_device_each:
                connection.execute("DELETE FROM TARGET_INFO_GPU WHERE id <> ?", (rank,))
                connection.execute("UPDATE TARGET_INFO_GPU SET cuDevice = 0")
                connection.execute("DELETE FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId <> ?", (rank,))
                connection.execute("UPDATE TARGET_INFO_CUDA_DEVICE SET cudaId = 0")
                for table in TABLES:
                    columns = [c[1] for c in connection.execute(f"PRAGMA table_info({table})")]
                    if "deviceId" in columns:
                        connection.execute(f"UPDATE {table} SET deviceId = 0")
            if rank:
                _begin_later(connection)
        out.append(file)
    return out


def _begin_later(connection: sqlite3.Connection) -> None:
    connection.execute(
        "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + ?", (LATER_NS,)
    )
    strings = ("shortName", "demangledName", "mangledName", "nameId", "textId")
    (last,) = connection.execute("SELECT MAX(id) FROM StringIds").fetchone()
    connection.execute("UPDATE StringIds SET id = -id - 1")
    connection.execute(f"UPDATE StringIds SET id = {last} + id + 1")
    for table in TABLES:
        for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            if column in ("start", "end"):
                connection.execute(f'UPDATE {table} SET "{column}" = "{column}" - {LATER_NS}')
            elif column in strings:
                connection.execute(f"UPDATE {table} SET {column} = {last} - {column}")


@pytest.mark.parametrize("one_device_each", [False, True])
def test_files_of_two_ranks_say_what_one_recording_of_both_says(
    tmp_path: Path, one_device_each: bool
) -> None:
    files = split(tmp_path, one_device_each=one_device_each)
    (part,) = inputs.read([str(file) for file in files])
    assert part.kind == "timeline"
    assert part.name == "rank0 + rank1"
    assert part.given == tuple(map(str, files))
    whole, merged = captures.open(BOTH), captures.open(part.path)
    for table in (
        "kernels", "copies", "memsets", "api_calls", "synchronizations", "event_records",
        "nvtx_ranges", "overhead",
    ):  # fmt: skip
        one, two = getattr(whole, table), getattr(merged, table)
        if table == "synchronizations" and one_device_each:  # some of rank 1 name device 0
            one, two = one.drop("device"), two.drop("device")
        assert sorted(one.rows()) == sorted(two.rows()), table
    assert whole.devices.sort("device").equals(merged.devices.sort("device"))
    exercise = load_once(ROOT / "solutions" / EXERCISE, "merging_ex04")
    assert exercise.name_multi_gpu_bottleneck(str(part.path)) == (
        exercise.name_multi_gpu_bottleneck(str(BOTH))
    )


def test_ranks_that_nothing_names_are_numbered_in_the_order_of_the_files(tmp_path: Path) -> None:
    files = split(tmp_path)
    processes = []
    for file in files:
        with sqlite3.connect(file) as connection:
            connection.execute("DELETE FROM NVTX_EVENTS")
            query = "SELECT DISTINCT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL"
            processes.append(connection.execute(query).fetchone()[0])
    with sqlite3.connect(files[0]) as connection:
        connection.execute("DROP TABLE NVTX_EVENTS")
    for order in ([0, 1], [1, 0]):
        (part,) = inputs.read([str(files[i]) for i in order])
        merged = captures.open(part.path)
        ranges = merged.nvtx_ranges.sort("name")
        assert ranges["name"].to_list() == ["rank 0", "rank 1"]
        assert ranges["process"].to_list() == [processes[i] for i in order]
        for process, start, end in ranges.select("process", "start_ns", "end_ns").iter_rows():
            own = merged.kernels.filter(merged.kernels["process"] == process)
            assert (start, end) == (own["start_ns"].min(), own["end_ns"].max())


def without_ranges(file: Path) -> tuple[int, int]:
    """A copy of a recording in which no range tells the ranks; returns the processes."""
    shutil.copyfile(BOTH, file)
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM NVTX_EVENTS")
        query = "SELECT globalPid FROM PROCESSES ORDER BY pid"
        first, second = connection.execute(query).fetchall()
    return first[0], second[0]


DEVICE_TABLES = ("KERNEL", "MEMCPY", "MEMSET")


def test_ranks_of_one_recording_are_compared_from_where_all_are_recorded(tmp_path: Path) -> None:
    file = tmp_path / "both.sqlite"
    processes = without_ranges(file)
    with sqlite3.connect(file) as connection:
        # the second process's recording begins in the middle of its seventh collective
        starts = connection.execute(
            'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName '
            "WHERE globalPid = ? AND value GLOB 'nccl*' ORDER BY start",
            processes[1:],
        ).fetchall()
        for table in DEVICE_TABLES:
            connection.execute(
                f"DELETE FROM CUPTI_ACTIVITY_KIND_{table} WHERE globalPid = ? AND start <= ?",
                (processes[1], starts[6][0]),
            )
    (part,) = inputs.read([str(file)])
    recording = captures.open(part.path)
    ranges = recording.nvtx_ranges.sort("name")
    assert ranges["name"].to_list() == ["rank 0", "rank 1"]
    assert ranges["process"].to_list() == list(processes)
    own = recording.device_operations.filter(recording.device_operations["process"] == processes[1])
    assert ranges["start_ns"].to_list() == [own["start_ns"].min()] * 2
    everyone = recording.device_operations["start_ns"].min()
    assert isinstance(everyone, int)
    before = format_ns(ranges["start_ns"][0] - everyone)
    sentence = f"whether ranks waited for each other in the first {before}: not all of them were recorded yet"
    assert sentence in limits.of_run([part])
    whole = inputs.read([str(BOTH)])
    assert not any("recorded yet" in line for line in limits.of_run(whole))
    exercise = load_once(ROOT / "solutions" / EXERCISE, "merging_ex04")
    matched = exercise.match_collectives(str(part.path))
    assert len(matched) == len(starts) - 7
    assert matched[0]["start_ns"][1] == starts[7][0]
    assert exercise.name_multi_gpu_bottleneck(str(part.path)).category == "rank_imbalance"


@pytest.mark.parametrize(
    ("name", "kind", "tells"),
    [
        ("rank 0", 59, True),
        ("rank 0", 60, True),
        ("rank 0", 34, False),  # a mark
        ("rank 0 loads", 59, False),
        ("rank", 59, False),
        ("my rank 0", 59, False),
    ],
)
def test_only_ranges_of_these_names_tell_ranks(
    tmp_path: Path, name: str, kind: int, tells: bool
) -> None:
    file = tmp_path / "both.sqlite"
    without_ranges(file)
    with sqlite3.connect(file) as connection:
        connection.execute(
            'INSERT INTO NVTX_EVENTS (start, "end", eventType, text, globalTid) VALUES (1, 2, ?, ?, 1)',
            (kind, name),
        )
    assert (merging.with_ranks(file) is None) is tells


def test_processes_one_after_the_other_keep_all_that_they_did(tmp_path: Path) -> None:
    file = tmp_path / "both.sqlite"
    processes = without_ranges(file)
    with sqlite3.connect(file) as connection:
        for table in DEVICE_TABLES:
            connection.execute(
                f'UPDATE CUPTI_ACTIVITY_KIND_{table} SET start = start + {10**10}, "end" = "end" + '
                f"{10**10} WHERE globalPid = ?",
                processes[1:],
            )
    (part,) = inputs.read([str(file)])
    recording = captures.open(part.path)
    operations = recording.device_operations
    for process, start, end in recording.nvtx_ranges.select(
        "process", "start_ns", "end_ns"
    ).iter_rows():
        own = operations.filter(operations["process"] == process)
        assert (start, end) == (own["start_ns"].min(), own["end_ns"].max())


def test_what_is_not_of_one_job_stays_apart(tmp_path: Path) -> None:
    files = split(tmp_path)
    first, second = map(str, files)
    assert len(inputs.read([first, "two_streams"])) == 2, "no collectives"
    an_hour_ns = 3_600 * 10**9
    with sqlite3.connect(shutil.copy(second, tmp_path / "later.sqlite")) as connection:
        table = "TARGET_INFO_SESSION_START_TIME"
        connection.execute(f"UPDATE {table} SET utcEpochNs = utcEpochNs + {an_hour_ns}")
    assert len(inputs.read([first, str(tmp_path / "later.sqlite")])) == 2, "at another time"
    shutil.copy(first, tmp_path / "copy.sqlite")
    assert merging.ranks_of_one_job([files[0], tmp_path / "copy.sqlite"]) == [], "the same process"
    parts = inputs.read(["two_streams", second, "ncu_report", first])
    assert [part.name for part in parts] == ["two_streams", "rank1 + rank0", "ncu_report"]


def test_the_files_given_are_not_changed(tmp_path: Path) -> None:
    files = split(tmp_path)
    before = [file.read_bytes() for file in files]
    inputs.read([str(file) for file in files])
    assert [file.read_bytes() for file in files] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.sqlite", "rank1.sqlite"]


def test_recordings_of_different_schemas_do_not_fit(tmp_path: Path) -> None:
    files = split(tmp_path)
    with sqlite3.connect(files[1]) as connection:
        connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN gridId TO other")
    with pytest.raises(CaptureError, match=r"rank0.sqlite, rank1.sqlite: do not fit together"):
        merging.merge(files, tmp_path / "ranks.sqlite")
