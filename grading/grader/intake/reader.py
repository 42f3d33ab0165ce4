"""The process that reads entries, with limits on memory and on processor time."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grading.grader.intake.folders import Folder, open_folder
from grading.grader.intake.refused import StagingError, shown
from grading.grader.intake.taking import Taker

MEMORY_BYTES = 2 << 30  # of the process that reads
ENTRY_CPU_S = 20  # processor time for one entry; an honest one takes well under a second


def serve() -> None:
    """Take entries as asked for on stdin, a line of JSON each, and answer on stdout likewise.

    First line: {"stubs": […], "root": the course's folder}. Then {"path", "tree", "beside": names} each.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    setup = json.loads(sys.stdin.readline())
    _heed_processor_time()
    taker = Taker(setup["stubs"], frozenset(_own_files(Path(setup["root"]))))
    _answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with _processor_time(ENTRY_CPU_S):
                path, tree = Path(request["path"]), Path(request["tree"])
                answer = vars(taker.take(path, tree, request["beside"]))
        except _TookTooLong:
            answer = {"failed": f"reading it took more than {ENTRY_CPU_S:g} s of processor time"}
        except StagingError as error:
            answer = {"staging": str(error)}
        except (MemoryError, RecursionError):
            answer = {"failed": "it takes too much memory to read"}
        except Exception as error:  # noqa: BLE001 (whatever a hostile entry brought about)
            answer = {"failed": f"it cannot be read ({type(error).__name__}: {shown(str(error))})"}
        _answer(answer)


class _TookTooLong(BaseException):
    """More processor time than an entry may take; no handler of exceptions on the way takes it for its own."""


def _heed_processor_time() -> None:
    def stop(*_: object) -> None:
        raise _TookTooLong

    if hasattr(signal, "SIGXCPU"):
        signal.signal(signal.SIGXCPU, stop)


@contextlib.contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    """Raise _TookTooLong once this process has computed for so long; to wait costs nothing."""
    try:
        import resource
    except ImportError:  # not on Windows
        yield
        return
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _own_files(root: Path) -> Iterator[str]:
    """The paths of the course's own files, which every clone holds."""
    try:
        descriptor = open_folder(root.resolve())
    except OSError:
        return
    try:
        yield from (
            name for _, name in zip(range(50_000), Folder(descriptor).names(), strict=False)
        )
    finally:
        os.close(descriptor)
