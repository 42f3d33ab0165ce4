"""A small database in the exporter's shape with all that must not stay in it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

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
