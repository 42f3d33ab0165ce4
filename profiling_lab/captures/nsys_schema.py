"""Names and numbers of the SQLite schema of Nsight Systems and of CUPTI's enumerations."""

from __future__ import annotations

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CUDA_EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
DEVICE_TABLES = (KERNEL, GRAPH, MEMCPY, MEMSET)

# CUPTI's enumerations, spelled the way people say them.
COPY_KINDS = {
    1: "H2D",
    2: "D2H",
    3: "H2A",
    4: "A2H",
    5: "A2A",
    6: "A2D",
    7: "D2A",
    8: "D2D",
    9: "H2H",
    10: "P2P",
    # Managed memory that moves because it is touched, or prefetched; most belong to no call.
    11: "UVM H2D",
    12: "UVM D2H",
    13: "UVM D2D",
}
MIGRATION_CAUSES = {1: "prefetch", 2: "page fault", 3: "speculative prefetch", 4: "eviction"}
MEMORY_KINDS = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "array",
    4: "managed",
    5: "device_static",
    6: "managed_static",
    7: "unknown",
}
SYNC_KINDS = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
CUDA_BACKTRACE = 67  # the eventClass of a CUDA call's row that only carries its backtrace
NVTX_RANGES = (59, 60)  # ENUM_NSYS_EVENT_TYPE: push/pop and start/end ranges
NONE = 4294967295  # what CUPTI writes where no stream or event is meant

# globalTid = hardware id | vm id | pid (24 bits) | tid (24 bits); globalPid has the tid zeroed.
PROCESS_MASK = -16777216  # ~0xFFFFFF as a signed 64-bit integer

# Columns that many tables share: name here → expression over the table.
INTERVAL = {"start_ns": "start", "end_ns": "end", "duration_ns": '"end" - start'}
PLACE = {
    "device": "deviceId",
    "stream": "streamId",
    "correlation": "correlationId",
    "process": "globalPid",
}
CALLER = {"process": f"globalTid & {PROCESS_MASK}", "thread": "globalTid & 16777215"}
