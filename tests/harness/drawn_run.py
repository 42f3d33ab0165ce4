"""Runs drawn call by call, and the engine's verdict on them."""

from __future__ import annotations

from pathlib import Path

from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab.captures import inputs
from profiling_lab.diagnosis import engine
from profiling_lab.diagnosis.engine import Verdict

US, MS = 1_000, 1_000_000


def judge(*names: str, nvtx_range: str | None = None) -> Verdict:
    return engine.judge(inputs.read(names), nvtx_range)


class Drawn(Timeline):
    """One thread and one stream, in µs from a second on."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.now, self.free = 1_000_000, 0

    def call(self, name: str, us: int) -> None:
        self.api(name, self.now, self.now + us * US)
        self.now += us * US

    def launch(self, us: int, *, call_us: int = 5, name: str = "kernel") -> None:
        start = max(self.now + (call_us + 2) * US, self.free + US)
        self.kernel(start, start + us * US, name=name, call=(self.now, self.now + call_us * US))
        self.now += call_us * US
        self.free = start + us * US

    def blocking_copy(self, kind: str, us: int, size: int, *, pinned: bool, api: str) -> None:
        start = max(self.now + 7 * US, self.free + US)
        end = start + us * US
        self.copy(
            start, end, kind, bytes=size, pinned=pinned, api=api, call=(self.now, end + 4 * US)
        )
        self.now, self.free = end + 4 * US, end

    def wait(self) -> None:
        end = max(self.now + US, self.free + 4 * US)
        self.api("cudaStreamSynchronize_v3020", self.now, end, waits_for_stream=7)
        self.now = end


def of(drawn: Drawn) -> Verdict:
    return judge(drawn.save())
