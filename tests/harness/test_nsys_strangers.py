"""What recordings of other people's programs hold: managed memory, or nothing of CUDA at all."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from profiling_lab import captures
from profiling_lab.captures import inputs
from profiling_lab.errors import CaptureError
from profiling_lab.mine import limits

COPIES = Path(__file__).resolve().parents[2] / "captures" / "copy_pageable" / "timeline.sqlite"
MANAGED = "which code made managed memory move"


def test_managed_memory_that_moves_is_named_and_no_call_is_blamed(tmp_path: Path) -> None:
    file = tmp_path / "managed.sqlite"
    shutil.copyfile(COPIES, file)
    with sqlite3.connect(file) as connection:
        connection.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY "
            "SET copyKind = copyKind + 10, srcKind = 7, dstKind = 7, correlationId = 0"
        )
    before, after = captures.open(COPIES).copies, captures.open(file).copies
    assert set(before["kind"]) == {"H2D", "D2H"}
    assert after["kind"].to_list() == [f"UVM {kind}" for kind in before["kind"]]
    assert set(after["source"]) | set(after["destination"]) == {"unknown"}
    for place, said in ((COPIES, False), (file, True)):
        sentences = limits.of_run(inputs.read([str(place)]))
        assert any(MANAGED in line for line in sentences) is said


@pytest.mark.parametrize("tables", [("OSRT_API", "SCHED_EVENTS"), ()])
def test_a_recording_without_cuda_is_told_from_other_databases(
    tmp_path: Path, tables: tuple[str, ...]
) -> None:
    file = tmp_path / "run.sqlite"
    with sqlite3.connect(file) as connection:
        for table in ("StringIds", *tables):
            connection.execute(f"CREATE TABLE {table} (id INTEGER, value TEXT)")
    with pytest.raises(CaptureError, match="not an Nsight Systems export"):
        captures.open(file)
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)")
    with pytest.raises(CaptureError, match="without anything of CUDA.*--trace=cuda") as raised:
        captures.open(file)
    assert "not an" not in str(raised.value)
