"""Write a simulated run as the SQLite file that `nsys export` would have made of its recording."""

# Long because it writes each table of one format.

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grading.checks.generate import schema as tables
from grading.checks.generate.program import (
    CallRecord,
    Kernel,
    OperationRecord,
    Program,
    RangeRecord,
    Run,
)

SCHEMAS = {"2025.3": ("2025.3.2.0", "3.20.3"), "2023": ("2023.2.1.0", "3.1.7")}
NONE = 4294967295  # CUPTI's "no stream", "no event"
HARDWARE = 0x1000000000000
METRICS_TYPE = HARDWARE + (1 << 32)  # the number of the device is added to it
COPY_KINDS = {"H2D": 1, "D2H": 2, "D2D": 8, "P2P": 10}
METRICS = (
    "GPC Clock Frequency [MHz]",
    "GR Active [Throughput %]",
    "SMs Active [Throughput %]",
    "SM Issue [Throughput %]",
    "Tensor Active [Throughput %]",
    "Compute Warps in Flight [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
    "PCIe RX Throughput [Throughput %]",
    "PCIe TX Throughput [Throughput %]",
)
PUSH_POP, START_END, MARK, DOMAIN_CREATE = 59, 60, 34, 75


def write(
    program: Program,
    path: str | Path,
    *,
    shuffle_rows: bool = True,
    start_ns: int | None = None,
    drop_tables: Iterable[str] = (),
    schema: str = "2025.3",
    graph_trace: str = "graph",
) -> Path:
    """Write the program's run to `path`, replacing it, and return the path.

    As in a real export a table is there only if something was recorded for it.

    - shuffle_rows: rows in random order (an export promises none), else by time;
    - start_ns: when the program began, counted from the start of the recording; drawn if None;
    - drop_tables: tables to leave out;
    - schema: "2025.3" (export schema 3.20), or "2023" (3.1: fewer columns);
    - graph_trace: "graph" records a replayed graph as one row, "node" each of its kernels.
    """
    path = Path(path)
    offset = program.default_start_ns if start_ns is None else start_ns
    writer = _Writer(program, offset, schema, graph_trace)
    rng = random.Random(program.seed)
    removed = tables.REMOVED_IN_2023 if schema == "2023" else {}
    connection = sqlite3.connect(":memory:")  # a file would be written page by page, with a journal
    try:
        for table in tables.TABLES:
            rows = writer.rows.get(table, [])
            if table in set(drop_tables) or not (rows or table in tables.ENUMERATIONS):
                continue
            without = removed.get(table, ())
            connection.execute(tables.create_statement(table, without=without))
            names = tables.columns(table, without=without)
            if table in tables.ENUMERATIONS:
                values: list[Any] = list(tables.ENUMERATIONS[table])
            else:
                values = [tuple(map(row.get, names)) for row in rows]
                if shuffle_rows:
                    rng.shuffle(values)
                elif "start" in names:
                    values.sort(key=lambda value: value[names.index("start")])
            marks = ", ".join("?" * len(names))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        connection.commit()
        path.unlink(missing_ok=True)
        path.write_bytes(connection.serialize())
    finally:
        connection.close()
    return path


def graph_nodes(record: OperationRecord) -> list[tuple[Kernel, int, int]]:
    """The kernels of a replayed graph: (kernel, start, end), evenly apart."""
    nodes = record.operation.nodes
    idle = record.end - record.start - sum(length for _, length in nodes)
    found, at = [], record.start
    for index, (kernel, length) in enumerate(nodes):
        found.append((kernel, at, at + length))
        at += length + (idle // (len(nodes) - 1) if index < len(nodes) - 1 else 0)
    return found


def metric_samples(program: Program, offset: int) -> list[tuple[int, int, str, int]]:
    """What the sampler records: (timestamp, device, metric, value), a sample an interval.

    A sample holds the mean over the interval that ends at its timestamp, rounded to an integer.
    """
    interval = program.metrics_interval_ns
    if not interval:
        return []
    run = program.run()
    first = offset - interval - program.seed % interval
    count = (run.last_event() + offset - first) // interval + 2
    rng = random.Random(program.seed + 1)
    samples = []
    for device in range(program.devices):
        sums = {name: [0.0] * count for name in METRICS}

        def add(name: str, start: int, end: int, value: float, sums: Any = sums) -> None:
            for index in range((start - first) // interval, (end - first - 1) // interval + 1):
                low = first + index * interval
                part = min(end, low + interval) - max(start, low)
                sums[name][index] += value * part / interval

        compute = []
        for record in run.device_operations():
            operation = record.operation
            if operation.stream.device != device:
                continue
            start, end = record.start + offset, record.end + offset
            if operation.kind == "copy" and operation.copy in ("H2D", "D2H"):
                name = "PCIe RX" if operation.copy == "H2D" else "PCIe TX"
                add(f"{name} Throughput [Throughput %]", start, end, 80 if operation.pinned else 20)
            if operation.kind not in ("kernel", "graph"):
                continue
            compute.append((start, end))
            parts = graph_nodes(record) if operation.kind == "graph" else []
            if operation.kernel:
                parts = [(operation.kernel, record.start, record.end)]
            for kernel, begin, stop in parts:
                begin, stop = begin + offset, stop + offset
                active, dram = kernel.sm_active_pct, kernel.dram_pct
                add("SMs Active [Throughput %]", begin, stop, active)
                add("SM Issue [Throughput %]", begin, stop, active * 0.4)
                add("Compute Warps in Flight [Throughput %]", begin, stop, active * 0.3)
                add("DRAM Read Bandwidth [Throughput %]", begin, stop, dram)
                add("DRAM Write Bandwidth [Throughput %]", begin, stop, dram * 0.5)
        last = first
        for start, end in sorted(compute):
            if end > last:
                add("GR Active [Throughput %]", max(start, last), end, 100)
                last = end
        for index in range(count):
            # Interrupts of the sampler are a little late at times.
            timestamp = first + (index + 1) * interval + rng.choice((0, 0, 0, -1, 1))
            for name in METRICS:
                value = min(100, round(sums[name][index]))
                if name.startswith("GPC"):
                    value = 1_980_000_000 + rng.randint(-700_000, 700_000)  # Hz, as recorded
                samples.append((timestamp, device, name, value))
    return samples


class _Writer:
    """Collects rows by table, as dictionaries of column and value."""

    def __init__(self, program: Program, offset: int, schema: str, graph_trace: str) -> None:
        if schema not in SCHEMAS:
            raise ValueError(f"schema {schema!r} is not one of {', '.join(SCHEMAS)}")
        if graph_trace not in ("graph", "node"):
            raise ValueError(f"graph_trace {graph_trace!r} is neither 'graph' nor 'node'")
        self.program = program
        self.offset = offset
        self.schema = schema
        self.graph_trace = graph_trace
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.rng = random.Random(program.seed + 2)
        self.strings: dict[str, int] = {}
        self.next_string = 0
        self.grid = 20
        self.string("[Unknown]")
        run = program.run()
        for record in run.device_operations():
            self.operation(record)
        for call in run.calls:
            self.call(call)
        domains: dict[int, RangeRecord] = {}
        for found in run.ranges:
            self.range(found)
            domains.setdefault(found.domain, found)
        for domain, found in domains.items():
            if domain:
                self.domain(domain, found)
        for call in run.overhead:
            self.host_row("PROFILER_OVERHEAD", call)
        for call in run.os_calls:
            self.host_row("OSRT_API", call, eventClass=27, nestingLevel=0, callchainId=0)
        self.metrics()
        self.machine(run)
        for text, id in self.strings.items():
            self.add("StringIds", id=id, value=text)

    def add(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = self.next_string
            self.next_string += self.rng.randint(1, 5)
        return self.strings[text]

    # -- device ---------------------------------------------------------------------------------

    def operation(self, record: OperationRecord) -> None:
        operation = record.operation
        stream = operation.stream
        row: dict[str, Any] = {
            "start": record.start + self.offset,
            "end": record.end + self.offset,
            "deviceId": stream.device,
            "contextId": 1,
            "greenContextId": 0,
            "streamId": stream.id,
            "correlationId": operation.correlation,
            "globalPid": stream.process.global_pid,
        }
        if operation.kernel:
            self.kernel(row, operation.kernel, None)
        elif operation.kind == "graph" and self.graph_trace == "node":
            for index, (kernel, start, end) in enumerate(graph_nodes(record)):
                node = row | {"start": start + self.offset, "end": end + self.offset}
                self.kernel(node, kernel, (operation.graph_exec << 32) + index)
        elif operation.kind == "graph":
            row |= {"graphId": operation.graph, "graphExecId": operation.graph_exec}
            self.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", **row)
        elif operation.kind == "copy":
            host = 1 if operation.pinned else 0
            row["bytes"] = operation.bytes
            row["copyKind"] = COPY_KINDS[operation.copy]
            row["srcKind"] = host if operation.copy == "H2D" else 2
            row["dstKind"] = host if operation.copy == "D2H" else 2
            if operation.peer is not None:
                row |= {"srcDeviceId": stream.device, "srcContextId": 1}
                row |= {"dstDeviceId": operation.peer, "dstContextId": 1}
            self.add("CUPTI_ACTIVITY_KIND_MEMCPY", **row, copyCount=1)
        else:
            row |= {"bytes": operation.bytes, "value": 0, "memKind": 2}
            self.add("CUPTI_ACTIVITY_KIND_MEMSET", **row)

    def kernel(self, row: dict[str, Any], kernel: Kernel, node: int | None) -> None:
        self.grid += 1
        names = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1)
        mangled = f"_Z{len(kernel.name)}{kernel.name}IfEvPKT_PS0_i"
        self.add(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            **row,
            **dict(zip(names, (*kernel.grid, *kernel.block), strict=True)),
            demangledName=self.string(kernel.demangled_name),
            shortName=self.string(kernel.name),
            mangledName=self.string(mangled),
            launchType=1,
            cacheConfig=1,
            registersPerThread=kernel.registers,
            staticSharedMemory=kernel.static_shared_bytes,
            dynamicSharedMemory=kernel.dynamic_shared_bytes,
            localMemoryPerThread=0,
            localMemoryTotal=0,
            gridId=self.grid,
            sharedMemoryExecuted=32_768,
            graphNodeId=node,
            sharedMemoryLimitConfig=0,
        )

    # -- host -----------------------------------------------------------------------------------

    def call(self, record: CallRecord) -> None:
        step, thread = record.step, record.thread
        start, end = record.start + self.offset, record.end + self.offset
        process = thread.process.global_pid
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            eventClass=0 if step.name.startswith("cuda") else 1,
            globalTid=thread.global_tid,
            correlationId=step.correlation,
            nameId=self.string(step.name),
            returnValue=0,
        )
        common = {
            "deviceId": step.device,
            "contextId": 1,
            "correlationId": step.correlation,
            "globalPid": process,
        }
        base = step.name.split("_v")[0]
        sync: tuple[int, int, int, int] | None = None  # type, stream, event, event sync id
        if base == "cudaStreamSynchronize" and step.stream:
            # 2025.3 exports it with the type of a stream wait and no event; see its recordings.
            sync = (2 if self.schema == "2025.3" else 3, step.stream.id, NONE, NONE)
        elif base in ("cudaDeviceSynchronize", "cudaFree"):
            sync = (4, NONE, NONE, NONE)
        elif base == "cudaEventSynchronize" and step.stream and step.event:
            sync = (1, step.stream.id, step.event.id, step.event.sync_id)
        elif base == "cudaStreamWaitEvent" and step.stream and step.event:
            sync = (2, step.stream.id, step.event.id, step.event.sync_id)
        elif step.event and step.stream:
            self.add(
                "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                **common,
                greenContextId=0,
                streamId=step.stream.id,
                eventId=step.event.id,
                eventSyncId=step.event.sync_id,
            )
        if sync:
            inset = min(900, (end - start) // 4)
            self.add(
                "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                **common,
                start=start + inset,
                end=end - inset // 2,
                streamId=sync[1],
                syncType=sync[0],
                eventId=sync[2],
                eventSyncId=sync[3],
            )
        if base in ("cudaMalloc", "cudaFree"):
            self.add(
                "CUDA_GPU_MEMORY_USAGE_EVENTS",
                start=end - min(2_000, (end - start) // 3),
                globalPid=process,
                deviceId=step.device,
                contextId=1,
                address=step.address,
                pc=0,
                bytes=step.bytes,
                memKind=2,
                memoryOperationType=int(base == "cudaFree"),
                correlationId=step.correlation,
            )

    def range(self, found: RangeRecord) -> None:
        start_end = found.kind == "start_end"
        self.add(
            "NVTX_EVENTS",
            start=found.start + self.offset,
            end=None if found.end is None or found.kind == "mark" else found.end + self.offset,
            eventType={"push_pop": PUSH_POP, "start_end": START_END, "mark": MARK}[found.kind],
            rangeId=found.key if start_end else None,
            text=None if found.registered else found.name,
            textId=self.string(found.name) if found.registered else None,
            globalTid=found.thread.global_tid,
            endGlobalTid=found.thread.global_tid if start_end else None,
            domainId=found.domain,
        )

    def domain(self, domain: int, found: RangeRecord) -> None:
        self.add(
            "NVTX_EVENTS",
            start=found.start + self.offset,
            eventType=DOMAIN_CREATE,
            text=f"domain_{domain}",
            globalTid=found.thread.global_tid,
            domainId=domain,
        )

    def host_row(self, table: str, record: CallRecord, **more: Any) -> None:
        # Flushes that do not block run on a thread of the profiler.
        own = record.step.kind == "overhead" and not record.step.blocking
        self.add(
            table,
            start=record.start + self.offset,
            end=record.end + self.offset,
            globalTid=record.thread.global_tid + (4_000 if own else 0),
            nameId=self.string(record.step.name),
            returnValue=0,
            **more,
        )

    # -- the machine ----------------------------------------------------------------------------

    def metrics(self) -> None:
        samples = metric_samples(self.program, self.offset)
        if not samples:
            return
        # Ids are not assumed to be stable from one recording to the next.
        ids = dict(
            zip(METRICS, self.rng.sample(range(len(METRICS) + 6), len(METRICS)), strict=True)
        )
        for device in range(self.program.devices):
            for name, id in ids.items():
                self.add(
                    "TARGET_INFO_GPU_METRICS",
                    typeId=METRICS_TYPE + device,
                    sourceId=METRICS_TYPE,
                    typeName="",
                    metricId=id,
                    metricName=name,
                )
        for timestamp, device, name, value in samples:
            self.add(
                "GPU_METRICS",
                rawTimestamp=timestamp,
                timestamp=timestamp,
                typeId=METRICS_TYPE + device,
                metricId=ids[name],
                value=value,
            )

    def machine(self, run: Run) -> None:
        stop = run.last_event() + self.offset + self.rng.randint(1_000_000, 20_000_000)
        session = self.rng.randint(10**9, 10**10)
        self.add(
            "ANALYSIS_DETAILS",
            globalVid=HARDWARE,
            duration=stop,
            startTime=session,
            stopTime=session + stop,
        )
        for timestamp, text in (
            (-900_000_000, "CUDA injection initialized successfully."),
            (0, "Profiling has started."),
            (stop, "Profiling has stopped."),
        ):
            self.add(
                "DIAGNOSTIC_EVENT",
                timestamp=timestamp,
                timestampType=1,
                source=3 if "Profiling" in text else 1,
                severity=1,
                text=text,
            )
        for device in range(self.program.devices):
            self.device(device)
        for process in self.program.processes:
            for device, streams in process.streams.items():
                cuda = {"hwId": 0, "vmId": 1, "processId": process.pid, "contextId": 1}
                self.add("TARGET_INFO_CUDA_DEVICE", gpuId=device, cudaId=device, pid=process.pid)
                self.add(
                    "TARGET_INFO_CUDA_CONTEXT_INFO",
                    **cuda,
                    nullStreamId=streams[0].id,
                    deviceId=device,
                    parentContextId=0,
                    isGreenContext=0,
                )
                for index, stream in enumerate(streams):
                    flag = 2 if index else 3
                    self.add(
                        "TARGET_INFO_CUDA_STREAM",
                        **cuda,
                        streamId=stream.id,
                        priority=0,
                        flag=flag,
                    )
        version, export = SCHEMAS[self.schema]
        major, minor, micro = export.split(".")
        for name, value in (
            ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
            ("EXPORT_PRODUCT_VERSION", version),
            ("EXPORT_SCHEMA_VERSION", export),
            ("EXPORT_SCHEMA_VERSION_MAJOR", major),
            ("EXPORT_SCHEMA_VERSION_MINOR", minor),
            ("EXPORT_SCHEMA_VERSION_MICRO", micro),
            ("EXPORT_PARAM_LAZY", "true"),
        ):
            self.add("META_DATA_EXPORT", name=name, value=value)

    def device(self, device: int) -> None:
        """An H200, as a recording describes it."""
        uuid = "-".join(f"{self.rng.getrandbits(4 * n):0{n}x}" for n in (8, 4, 4, 4, 12))
        self.add(
            "TARGET_INFO_GPU",
            vmId=HARDWARE,
            id=device,
            name="NVIDIA H200",
            busLocation=f"0000:{6 + device:02x}:00.0",
            isDiscrete=1,
            l2CacheSize=62_914_560,
            totalMemory=150_109_880_320,
            memoryBandwidth=4_814_304_000_000,
            clockRate=1_980_000_000,
            smCount=132,
            pwGpuId=device,
            uuid=uuid,
            luid=0,
            chipName="GH100",
            cuDevice=device,
            ctxswDevPath="",
            ctrlDevPath="",
            revision=161,
            nodeMask=0,
            constantMemory=65_536,
            maxIPC=0,
            maxRegistersPerBlock=65_536,
            maxShmemPerBlock=49_152,
            maxShmemPerBlockOptin=232_448,
            maxShmemPerSm=233_472,
            maxRegistersPerSm=65_536,
            threadsPerWarp=32,
            asyncEngines=3,
            maxWarpsPerSm=64,
            maxBlocksPerSm=32,
            maxThreadsPerBlock=1_024,
            maxBlockDimX=1_024,
            maxBlockDimY=1_024,
            maxBlockDimZ=64,
            maxGridDimX=2_147_483_647,
            maxGridDimY=65_535,
            maxGridDimZ=65_535,
            computeMajor=9,
            computeMinor=0,
            smMajor=9,
            smMinor=0,
        )


def plain_name(name: str) -> str:
    """An API's name without the version that CUPTI appends."""
    return re.sub(r"_v\d+$", "", name)
