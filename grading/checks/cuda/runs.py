"""Builds the CUDA source of a check, lets it run without a GPU, and tells what went wrong as a failed check."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from grading.checks.assertions import fail, require
from grading.checks.cuda import compiled, ptx, recording, toolchain

LEAST_EMULATED = "Plain loads, stores, shared memory and barriers"


class Source(Protocol):
    """The learner's source, and the folder of the files that are given with it."""

    source: Path
    given: Path


@contextlib.contextmanager
def failures_told(stub: Source, call: str = "", enough: str = LEAST_EMULATED) -> Iterator[None]:
    """What compiler, stand-in and emulator raise becomes a failed check.

    call: what was run, for the message. enough: which instructions the task can be done with.
    """
    try:
        yield
    except (toolchain.BuildError, toolchain.ToolchainError, recording.RunError) as error:
        fail(str(error))
    except ptx.EmulatorError as error:
        fail(f"{call}: {error}")
    except ptx.Unsupported as error:
        fail(
            f"{stub.source.name} uses {error}, which the emulator of these checks does not follow. {enough} are "
            "enough for this task."
        )


def compiles(stub: Source) -> compiled.Compiled:
    """What the compiler makes of the source, for the stand-in and for a GPU."""
    with failures_told(stub):
        toolchain.build_alone(stub.source, stub.given)
        return compiled.compiled(stub.source, stub.given)


def issued(stub: Source, arguments: Sequence[str], **options: Any) -> list[dict[str, Any]]:
    """What the host code issues (see `compiled.issued`)."""
    with failures_told(stub):
        return compiled.issued(stub.source, stub.given, arguments, **options)


def emulated(
    stub: Source,
    call: str,
    arguments: Sequence[str],
    inputs: dict[int, np.ndarray],
    enough: str = LEAST_EMULATED,
    **options: Any,
) -> compiled.Run:
    """The emulated run (see `compiled.run`), in which at least one kernel ran."""
    with failures_told(stub, call, enough):
        run = compiled.run(stub.source, stub.given, arguments, inputs, **options)
    require(bool(run.launches), f"{call} launched no kernel")
    return run
