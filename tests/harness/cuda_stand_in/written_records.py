"""Records as the stand-in for the CUDA runtime writes them, by hand."""

from __future__ import annotations

from grading.checks.cuda.schedule import Operation, Schedule

ELEMENTS = 1000
BYTES = 4 * ELEMENTS


class Host:
    """Writes a record as the stand-in does. Buffers: p, q pinned, a, b on the device; h pageable."""

    def __init__(self) -> None:
        self.lines: list[dict] = []
        self.inside = -1
        for number, (name, memory) in enumerate(
            {"p": "pinned", "q": "pinned", "a": "device", "b": "device"}.items()
        ):
            setattr(self, name, {"memory": memory, "buffer": number, "offset": 0})
            self.add(
                "allocate",
                function="cudaMalloc",
                buffer=number,
                memory=memory,
                bytes=BYTES,
                stream=-1,
            )
        self.h = {"memory": "pageable", "buffer": -1, "offset": 70_000}

    def add(self, kind: str, **rest) -> int:
        line = {"line": len(self.lines), "kind": kind, "thread": 0, "host_function": self.inside}
        self.lines.append({**line, **rest})
        return line["line"]

    def stream(self, number: int, blocking: bool = False) -> None:
        self.add("create_stream", stream=number, blocking=blocking, priority=0)

    def copy(self, to, source, stream=0, *, size=BYTES, wait=False) -> None:
        ends = ["D" if x["memory"] == "device" else "H" for x in (source, to)]
        self.add(
            "copy",
            function="cudaMemcpy" if wait else "cudaMemcpyAsync",
            direction="2".join(ends),
            stream=stream,
            **{"async": not wait},
            bytes=size,
            source=source,
            destination=to,
        )

    def kernel(self, name, read, write, stream=0, elements=ELEMENTS) -> None:
        arguments = [
            {"type": "float const*", "pointer": read},
            {"type": "float*", "pointer": write},
            {"type": "int", "value": elements},
        ]
        self.add(
            "kernel", name=name, stream=stream, grid=[1] * 3, block=[1] * 3, arguments=arguments
        )

    def record(self, event, stream) -> None:
        self.add("record", event=event, stream=stream)

    def wait(self, event, stream) -> None:
        self.add("wait", event=event, stream=stream)

    def load(self, at, batch=0) -> None:
        self.add("host_access", what="load_batch", batch=batch, bytes=BYTES, write=True, at=at)

    def consume(self, at, batch=0) -> None:
        self.add("host_access", what="consume_batch", batch=batch, bytes=BYTES, write=False, at=at)

    def synchronize(self, *, stream=None, event=None) -> None:
        if stream is not None:
            self.add("synchronize_stream", function="cudaStreamSynchronize", stream=stream)
        elif event is not None:
            self.add("synchronize_event", function="cudaEventSynchronize", event=event)
        else:
            self.add("synchronize_device", function="cudaDeviceSynchronize")

    def marker(self, name) -> None:
        self.add("marker", name=name)

    def batch(self, stream, batch=0) -> None:
        """A whole batch in one stream."""
        self.load(self.p, batch)
        self.copy(self.a, self.p, stream)
        self.kernel("normalise", self.a, self.b, stream)
        self.kernel("infer", self.b, self.a, stream)
        self.kernel("postprocess", self.a, self.b, stream)
        self.copy(self.q, self.b, stream)

    def schedule(self) -> Schedule:
        return Schedule(self.lines, ELEMENTS)

    def pairs(self) -> list[tuple[str, str]]:
        """The unordered accesses, as (kind or kernel, kind or kernel)."""
        races = self.schedule().races()

        def name(operation: Operation) -> str:
            return operation.kernel or operation.direction or operation.kind

        return [(name(race.first), name(race.second)) for race in races]
