"""The tables of an Nsight Systems export, as the tool writes them, without the column comments.

Schema 3.20 (Nsight Systems 2025.3), read from an export of that version. `REMOVED_IN_2023` lists the
columns that exports of schema 3.1 (2023) did not have yet.
"""

from __future__ import annotations

# Long because it is a table.

# One line a column: name, type, constraint.
TABLES: dict[str, str] = {
    "StringIds": """
        id INTEGER NOT NULL PRIMARY KEY,
        value TEXT NOT NULL
    """,
    "ANALYSIS_DETAILS": """
        globalVid INTEGER NOT NULL,
        duration INTEGER NOT NULL,
        startTime INTEGER NOT NULL,
        stopTime INTEGER NOT NULL
    """,
    "DIAGNOSTIC_EVENT": """
        timestamp INTEGER NOT NULL,
        timestampType INTEGER NOT NULL,
        source INTEGER NOT NULL,
        severity INTEGER NOT NULL,
        text TEXT NOT NULL,
        globalPid INTEGER
    """,
    "CUDA_GPU_MEMORY_USAGE_EVENTS": """
        start INTEGER NOT NULL,
        globalPid INTEGER NOT NULL,
        deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        address INTEGER NOT NULL,
        pc INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        memKind INTEGER NOT NULL,
        memoryOperationType INTEGER NOT NULL,
        name TEXT,
        correlationId INTEGER,
        streamId INTEGER,
        localMemoryPoolAddress INTEGER,
        localMemoryPoolReleaseThreshold INTEGER,
        localMemoryPoolSize INTEGER,
        localMemoryPoolUtilizedSize INTEGER,
        importedMemoryPoolAddress INTEGER,
        importedMemoryPoolProcessId INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_RUNTIME": """
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        eventClass INTEGER NOT NULL,
        globalTid INTEGER,
        correlationId INTEGER,
        nameId INTEGER NOT NULL,
        returnValue INTEGER NOT NULL,
        callchainId INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_KERNEL": """
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        greenContextId INTEGER,
        streamId INTEGER NOT NULL,
        correlationId INTEGER,
        globalPid INTEGER,
        demangledName INTEGER NOT NULL,
        shortName INTEGER NOT NULL,
        mangledName INTEGER,
        launchType INTEGER,
        cacheConfig INTEGER,
        registersPerThread INTEGER NOT NULL,
        gridX INTEGER NOT NULL,
        gridY INTEGER NOT NULL,
        gridZ INTEGER NOT NULL,
        blockX INTEGER NOT NULL,
        blockY INTEGER NOT NULL,
        blockZ INTEGER NOT NULL,
        staticSharedMemory INTEGER NOT NULL,
        dynamicSharedMemory INTEGER NOT NULL,
        localMemoryPerThread INTEGER NOT NULL,
        localMemoryTotal INTEGER NOT NULL,
        gridId INTEGER NOT NULL,
        sharedMemoryExecuted INTEGER,
        graphNodeId INTEGER,
        sharedMemoryLimitConfig INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": """
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        greenContextId INTEGER,
        streamId INTEGER NOT NULL,
        correlationId INTEGER,
        globalPid INTEGER,
        graphId INTEGER NOT NULL,
        graphExecId INTEGER NOT NULL
    """,
    "CUPTI_ACTIVITY_KIND_MEMCPY": """
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        greenContextId INTEGER,
        streamId INTEGER NOT NULL,
        correlationId INTEGER,
        globalPid INTEGER,
        bytes INTEGER NOT NULL,
        copyKind INTEGER NOT NULL,
        deprecatedSrcId INTEGER,
        srcKind INTEGER,
        dstKind INTEGER,
        srcDeviceId INTEGER,
        srcContextId INTEGER,
        dstDeviceId INTEGER,
        dstContextId INTEGER,
        migrationCause INTEGER,
        graphNodeId INTEGER,
        virtualAddress INTEGER,
        copyCount INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_MEMSET": """
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        greenContextId INTEGER,
        streamId INTEGER NOT NULL,
        correlationId INTEGER,
        globalPid INTEGER,
        value INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        graphNodeId INTEGER,
        memKind INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": """
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        greenContextId INTEGER,
        streamId INTEGER NOT NULL,
        correlationId INTEGER,
        globalPid INTEGER,
        deprecatedSyncType INTEGER,
        syncType INTEGER NOT NULL,
        eventId INTEGER NOT NULL,
        eventSyncId INTEGER
    """,
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": """
        deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        greenContextId INTEGER,
        streamId INTEGER NOT NULL,
        correlationId INTEGER,
        globalPid INTEGER,
        eventId INTEGER NOT NULL,
        eventSyncId INTEGER
    """,
    "NVTX_EVENTS": """
        start INTEGER NOT NULL,
        "end" INTEGER,
        eventType INTEGER NOT NULL,
        rangeId INTEGER,
        category INTEGER,
        color INTEGER,
        text TEXT,
        globalTid INTEGER,
        endGlobalTid INTEGER,
        textId INTEGER,
        domainId INTEGER,
        uint64Value INTEGER,
        int64Value INTEGER,
        doubleValue REAL,
        uint32Value INTEGER,
        int32Value INTEGER,
        floatValue REAL,
        jsonTextId INTEGER,
        jsonText TEXT,
        binaryData TEXT
    """,
    "OSRT_API": """
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        eventClass INTEGER NOT NULL,
        globalTid INTEGER,
        nameId INTEGER NOT NULL,
        returnValue INTEGER NOT NULL,
        nestingLevel INTEGER,
        callchainId INTEGER NOT NULL
    """,
    "PROFILER_OVERHEAD": """
        start INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        globalTid INTEGER,
        nameId INTEGER NOT NULL,
        returnValue INTEGER NOT NULL
    """,
    "GPU_METRICS": """
        rawTimestamp INTEGER NOT NULL,
        timestamp INTEGER NOT NULL,
        typeId INTEGER NOT NULL,
        metricId INTEGER NOT NULL,
        value INTEGER NOT NULL
    """,
    "TARGET_INFO_GPU_METRICS": """
        typeId INTEGER NOT NULL,
        sourceId INTEGER NOT NULL,
        typeName TEXT NOT NULL,
        metricId INTEGER NOT NULL,
        metricName TEXT NOT NULL
    """,
    "TARGET_INFO_GPU": """
        vmId INTEGER NOT NULL,
        id INTEGER NOT NULL,
        name TEXT,
        busLocation TEXT,
        isDiscrete INTEGER,
        l2CacheSize INTEGER,
        totalMemory INTEGER,
        memoryBandwidth INTEGER,
        clockRate INTEGER,
        smCount INTEGER,
        pwGpuId INTEGER,
        uuid TEXT,
        luid INTEGER,
        chipName TEXT,
        cuDevice INTEGER,
        ctxswDevPath TEXT,
        ctrlDevPath TEXT,
        revision INTEGER,
        nodeMask INTEGER,
        constantMemory INTEGER,
        maxIPC INTEGER,
        maxRegistersPerBlock INTEGER,
        maxShmemPerBlock INTEGER,
        maxShmemPerBlockOptin INTEGER,
        maxShmemPerSm INTEGER,
        maxRegistersPerSm INTEGER,
        threadsPerWarp INTEGER,
        asyncEngines INTEGER,
        maxWarpsPerSm INTEGER,
        maxBlocksPerSm INTEGER,
        maxThreadsPerBlock INTEGER,
        maxBlockDimX INTEGER,
        maxBlockDimY INTEGER,
        maxBlockDimZ INTEGER,
        maxGridDimX INTEGER,
        maxGridDimY INTEGER,
        maxGridDimZ INTEGER,
        computeMajor INTEGER,
        computeMinor INTEGER,
        smMajor INTEGER,
        smMinor INTEGER
    """,
    "TARGET_INFO_CUDA_DEVICE": """
        gpuId INTEGER,
        cudaId INTEGER NOT NULL,
        pid INTEGER NOT NULL
    """,
    "TARGET_INFO_CUDA_CONTEXT_INFO": """
        nullStreamId INTEGER NOT NULL,
        hwId INTEGER NOT NULL,
        vmId INTEGER NOT NULL,
        processId INTEGER NOT NULL,
        deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        parentContextId INTEGER,
        isGreenContext INTEGER
    """,
    "TARGET_INFO_CUDA_STREAM": """
        streamId INTEGER NOT NULL,
        hwId INTEGER NOT NULL,
        vmId INTEGER NOT NULL,
        processId INTEGER NOT NULL,
        contextId INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        flag INTEGER NOT NULL
    """,
    "META_DATA_EXPORT": """
        name TEXT NOT NULL,
        value TEXT
    """,
    "ENUM_NSYS_EVENT_TYPE": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_NSYS_EVENT_CLASS": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_CUDA_MEMCPY_OPER": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_CUDA_MEM_KIND": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_CUPTI_STREAM_TYPE": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_CUPTI_SYNC_TYPE": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_DIAGNOSTIC_SEVERITY_LEVEL": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_DIAGNOSTIC_SOURCE_TYPE": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
    "ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE": """
        id INTEGER NOT NULL PRIMARY KEY,
        name TEXT,
        label TEXT
    """,
}

# id, name, label
ENUMERATIONS: dict[str, list[tuple[int, str, str]]] = {
    "ENUM_NSYS_EVENT_TYPE": [
        (34, "NvtxMark", "NvtxMark"),
        (59, "NvtxPushPopRange", "NvtxPushPopRange"),
        (60, "NvtxStartEndRange", "NvtxStartEndRange"),
        (75, "NvtxDomainCreate", "NvtxDomainCreate"),
    ],
    "ENUM_NSYS_EVENT_CLASS": [
        (0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
        (1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
        (27, "TRACE_PROCESS_EVENT_OS_RUNTIME", "OSRT runtime"),
    ],
    "ENUM_CUDA_MEMCPY_OPER": [
        (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
        (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        (3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"),
        (4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"),
        (5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"),
        (6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"),
        (7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"),
        (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        (9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"),
        (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
        (11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        (12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
        (13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"),
    ],
    "ENUM_CUDA_MEM_KIND": [
        (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        (3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"),
        (4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
        (5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"),
        (6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"),
        (7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
    ],
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": [
        (0, "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"),
        (1, "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"),
    ],
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": [
        (0, "CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN", "Unknown"),
        (1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"),
        (2, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE", "Coop Single Device"),
        (3, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE", "Coop Multi Device"),
    ],
    "ENUM_CUPTI_STREAM_TYPE": [
        (0, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN", "Unknown stream type"),
        (1, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT", "Default stream"),
        (2, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING", "Non-blocking stream"),
        (3, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL", "Null stream"),
    ],
    "ENUM_CUPTI_SYNC_TYPE": [
        (0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"),
        (1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
        (2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
        (3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
        (4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
    ],
    "ENUM_DIAGNOSTIC_SEVERITY_LEVEL": [
        (0, "UnknownLevel", "Unknown"),
        (1, "Info", "Info"),
        (2, "Warning", "Warning"),
        (3, "Error", "Error"),
        (4, "Verbose", "Verbose"),
    ],
    "ENUM_DIAGNOSTIC_SOURCE_TYPE": [
        (0, "UnknownSource", "Unknown source"),
        (1, "Injection", "Injection"),
        (2, "Daemon", "Daemon"),
        (3, "Analysis", "Analysis"),
    ],
    "ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE": [
        (0, "UnknownTimestamp", "Unknown timestamp"),
        (1, "TargetTimestamp", "Target timestamp"),
        (2, "HostTimestamp", "Host timestamp"),
    ],
}

REMOVED_IN_2023: dict[str, tuple[str, ...]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("greenContextId", "mangledName", "sharedMemoryLimitConfig"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("greenContextId",),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("greenContextId", "copyCount"),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("greenContextId",),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "greenContextId",
        "deprecatedSyncType",
        "eventSyncId",
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ("greenContextId", "eventSyncId"),
    "TARGET_INFO_CUDA_CONTEXT_INFO": ("parentContextId", "isGreenContext"),
}


def create_statement(table: str, *, without: tuple[str, ...] = ()) -> str:
    """The CREATE TABLE statement of a table, leaving out the columns in `without`."""
    lines = [line.strip().rstrip(",") for line in TABLES[table].strip().splitlines()]
    kept = [line for line in lines if line.split()[0] not in without]
    return f"CREATE TABLE {table} ({', '.join(kept)})"


def columns(table: str, *, without: tuple[str, ...] = ()) -> list[str]:
    """The column names of a table, leaving out those in `without`."""
    lines = [line.strip().split()[0].strip('"') for line in TABLES[table].strip().splitlines()]
    return [name for name in lines if name not in without]
