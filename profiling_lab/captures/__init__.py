"""Recordings: find one by its name, read its files, and what it says of the order of things.

    >>> from profiling_lab import captures
    >>> with captures.open("torch_inference_baseline") as capture:    # a timeline, as tables
    ...     capture.kernels.select("name", "duration_ns").head()
    >>> captures.text("ncu_memory", "kernels.csv")[:80]               # any file, decompressed
    >>> captures.provenance("ncu_memory")["gpu"]                      # how it was recorded

`kinds` says what a capture can be; `opening` finds captures and reads their files, `nsys_export` gives a timeline as tables, `dependencies`
(timelines) and `kineto` (traces) the order in which things waited for each other; `torch_trace` and `torch_memory` give a trace of
PyTorch and a snapshot of its memory in plain form. What people bring comes
through `inputs`: files of any kind, checked, and put together by run; `exports` turns the tools' own
reports into files that can be read, `merging` joins the timelines of ranks, `cutting` takes a part.
"""

from profiling_lab.captures.kinds import MAIN_FILES, Kind
from profiling_lab.captures.nsys_export import NsysCapture
from profiling_lab.captures.opening import (
    EXPORT_COMMANDS,
    GZIP_MAGIC,
    HEAD_BYTES,
    PROVENANCE,
    TIMELINE,
    TOOL_HELP,
    Part,
    file,
    folder,
    is_gzip,
    kind,
    names,
    open,  # noqa: A004 - captures.open is the name that learners use
    path,
    place,
    provenance,
    provenance_beside,
    rank_traces,
    report_tool,
    text,
)

__all__ = [
    "EXPORT_COMMANDS",
    "GZIP_MAGIC",
    "HEAD_BYTES",
    "MAIN_FILES",
    "PROVENANCE",
    "TIMELINE",
    "TOOL_HELP",
    "Kind",
    "NsysCapture",
    "Part",
    "file",
    "folder",
    "is_gzip",
    "kind",
    "names",
    "open",
    "path",
    "place",
    "provenance",
    "provenance_beside",
    "rank_traces",
    "report_tool",
    "text",
]
