"""What a capture can be: the one place that names the kinds, and the file that each is read from."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The kind of a capture; its value is what people, messages and JSON call it."""

    TIMELINE = "timeline"  # a SQLite file of Nsight Systems
    COUNTERS = "counters"  # chosen counters of named operations (JSON, Day 4)
    KERNELS = "kernels"  # the raw page of Nsight Compute as CSV
    TRACE = "trace"  # a Kineto trace (JSON)
    TRACES = "traces"  # a folder with a trace of each rank

    @property
    def one(self) -> Kind:
        """The kind of a single file of it: a trace of traces, else itself."""
        return Kind.TRACE if self is Kind.TRACES else self

    @property
    def is_of_a_run(self) -> bool:
        """Whether it shows a run over time, and not single kernels."""
        return self in (Kind.TIMELINE, Kind.TRACE, Kind.TRACES)


# What a capture of each kind is read from; it may be kept compressed, with ".gz" behind the name. A
# folder is of the first kind whose file it holds: chosen counters may come with the page that they were
# taken from, which then holds too little for a verdict on a kernel.
MAIN_FILES: dict[str, str] = {
    Kind.TIMELINE: "timeline.sqlite",
    Kind.COUNTERS: "counters.json",
    Kind.KERNELS: "kernels.csv",
    Kind.TRACE: "trace.json",
}
