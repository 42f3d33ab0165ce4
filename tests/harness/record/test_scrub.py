"""`lab record`: what the scrubber takes out of an export and a report."""

from __future__ import annotations

import pytest

from profiling_lab.record import leaks, scrub
from tests.harness.record.dirty_export import PID, rows

pytestmark = pytest.mark.proof  # it is authors who record


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
