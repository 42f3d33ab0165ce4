"""Which function of the course is asked about which captures, and with what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.captures import Kind, inputs
from profiling_lab.mine import kernels

if TYPE_CHECKING:
    from profiling_lab.captures import Part
    from profiling_lab.captures.nsys_export import NsysCapture


# Who is asked whether ranks wait for each other.
RANK_FUNCTIONS = ("name_multi_gpu_bottleneck", "name_distributed_bottleneck")
CLOCK_METRIC = "GPC Clock Frequency [MHz]"


@dataclass(frozen=True)
class Question:
    """A function to ask about captures of a kind.

    exercise: where it is taught. arguments: what it is called with, a tuple a call; none: the capture
    holds nothing that it could speak of. about: what it can find, for people.
    """

    kind: Kind
    exercise: str
    function: str
    about: str
    arguments: Callable[[Part], Iterator[tuple[Any, ...]]]


def _capture(part: Part) -> Iterator[tuple[Any, ...]]:
    yield (str(part.path),)


def _devices_with_streams(part: Part) -> Iterator[tuple[Any, ...]]:
    """Devices on which one process ran kernels on more than one stream."""
    kernels = recording(part).kernels
    several = (
        kernels.select("process", "device", "stream").unique().group_by("process", "device").len()
    )
    devices = {device for _, device, count in several.iter_rows() if count > 1}
    yield from ((str(part.path), device) for device in sorted(devices))


def of_ranks(part: Part) -> Iterator[tuple[Any, ...]]:
    """Recordings of several processes that ran collectives."""
    if recording(part).collectives["process"].n_unique() > 1:
        yield (str(part.path),)


def _devices_with_clock(part: Part) -> Iterator[tuple[Any, ...]]:
    samples = recording(part).gpu_metrics
    sampled = samples.filter(samples["metric"] == CLOCK_METRIC)["device"].unique().to_list()
    worked = recording(part).device_operations["device"].unique().to_list()
    yield from ((str(part.path), device) for device in sorted(set(sampled) & set(worked)))


def _whole_job(part: Part) -> Iterator[tuple[Any, ...]]:
    """Folders with a trace of every rank."""
    if is_whole(part):
        yield (str(part.path),)


def is_whole(part: Part) -> bool:
    """Whether there is a trace of every rank of the job."""
    return not inputs.missing_ranks(part)[0]


def is_one_job(part: Part) -> bool:
    """Whether a capture is of one job, as far as it tells; what is not cannot be read as one."""
    return part.kind == Kind.TIMELINE or inputs.missing_ranks(part)[1] > 0


def _traces(part: Part) -> Iterator[tuple[Any, ...]]:
    yield from ((str(file),) for file in captures.rank_traces(part.path).values())


QUESTIONS = (
    Question(Kind.TIMELINE, "ex_30", "name_bottleneck", "what the device waits for", _capture),
    Question(
        Kind.TIMELINE,
        "nsys_ex02",
        "judge_streams",
        "streams that could run side by side",
        _devices_with_streams,
    ),
    Question(
        Kind.TIMELINE,
        "nsys_ex04",
        "name_multi_gpu_bottleneck",
        "collectives and ranks that wait for each other",
        of_ranks,
    ),
    Question(
        Kind.TIMELINE, "energy_ex01", "clock_verdict", "clocks held down", _devices_with_clock
    ),
    Question(Kind.KERNELS, "ex_31", "classify_kernel", "what limits a kernel", kernels.launches),
    Question(Kind.TRACE, "ex_32", "name_trace_bottleneck", "what the device waits for", _capture),
    Question(
        Kind.TRACES,
        "torch_ex03",
        "name_distributed_bottleneck",
        "collectives and ranks that wait for each other",
        _whole_job,
    ),
    Question(Kind.TRACES, "ex_32", "name_trace_bottleneck", "what each device waits for", _traces),
)


def recording(part: Part) -> NsysCapture:
    """A timeline, opened."""
    return captures.open(part.path)
