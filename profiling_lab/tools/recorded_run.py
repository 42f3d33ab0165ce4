"""Run a script under torch.profiler, or between the marks of a capture range.

`unified_profiler` puts this program in front of a script: the script sees its own arguments, its own
folder first on sys.path and `__name__ == "__main__"`, and ends with its own exit code. It can be used
alone, and under any launcher that starts a Python file:

    python recorded_run.py --torch DIR train.py --epochs 1
    torchrun --nproc-per-node=4 recorded_run.py --torch DIR --steps 5:1:3 train.py
    nsys profile --capture-range=cudaProfilerApi --capture-range-end=stop \\
        python recorded_run.py --range --steps 5:0:3 train.py

With `--steps WAIT:WARMUP:ACTIVE` the calls of a torch optimizer's step() are counted, so that the
script needs no change. Of several optimizers it is the one that steps first, as long as it exists.
So batches whose gradients are accumulated are one step, and one that GradScaler skips is none. ZeRO
of DeepSpeed calls step() once for each parameter group (source: DeepSpeed, stage_1_and_2.py).

Each rank writes a trace of its own: DIR/trace_rank0.json.gz … Processes that the script itself
starts are not in it. A process that ends by os._exit() or SIGKILL writes none, nor does a script that
runs a torch.profiler of its own in the same steps: torch has one at a time.
"""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def steps_of(text: str) -> tuple[int, int, int]:
    """`5:1:3` as (wait, warmup, active). Raises argparse.ArgumentTypeError."""
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts) or int(parts[2]) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not WAIT:WARMUP:ACTIVE, three counts of steps with ACTIVE at least 1,"
            " as in 5:1:3"
        )
    wait, warmup, active = map(int, parts)
    return wait, warmup, active


def trace_name() -> str:
    """The file of this process: by the rank that torchrun, Slurm or MPI gave it."""
    names = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    rank = next((os.environ[name] for name in names if name in os.environ), "0")
    return f"trace_rank{rank}.json.gz"


def under_torch(
    folder: Path, steps: tuple[int, int, int] | None, script: Callable[[], None]
) -> None:
    """Run `script` under torch.profiler and write its trace, whether it returns or raises.

    A trace that cannot be written is told on stderr. Raises what the script raises.
    """
    import torch

    process = os.getpid()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / trace_name()
    finished = False

    def write(recorded: Any) -> None:
        nonlocal finished
        finished = True
        try:
            recorded.export_chrome_trace(str(file))
        except (OSError, RuntimeError) as error:
            file.unlink(missing_ok=True)
            _say(f"{file} could not be written: {error}; is there room, and may you write there?")

    def lost() -> bool:
        """Whether another profiler has ended this one; to stop it then would crash torch."""
        action = torch.profiler.ProfilerAction
        recording = profiler.current_action in (action.RECORD, action.RECORD_AND_SAVE)
        return recording and not torch.autograd._profiler_enabled()

    def step() -> None:
        if not lost():
            profiler.step()

    plan = (
        torch.profiler.schedule(wait=steps[0], warmup=steps[1], active=steps[2], repeat=1)
        if steps
        else None
    )
    profiler = torch.profiler.profile(schedule=plan, on_trace_ready=write if steps else None)
    hook = _after_each_step(step) if steps else None

    def end() -> None:
        # A second Ctrl-C while the trace is written would lose it.
        _ignore_interrupts()
        if hook:
            hook.remove()
        if lost():
            _say(
                "no trace: the script used torch.profiler itself, which ended this one; turn"
                " it off, or run with --profiler none and read its traces"
            )
            return
        profiler.stop()
        if not steps:
            write(profiler)
        if not finished:
            _say(
                f"no step was recorded: the script called an optimizer's step() too rarely for"
                f" --steps {':'.join(map(str, steps or ()))}, or not at all; run without --steps"
            )

    profiler.start()
    try:
        script()
    finally:
        if os.getpid() == process:  # else a forked child that leaves the script
            end()


def in_range(steps: tuple[int, int, int], script: Callable[[], None]) -> None:
    """Run `script`, with the CUDA profiler on during the active steps only."""
    import torch

    if not torch.cuda.is_available():
        _say("no GPU that torch can use: there is no capture range")
        script()
        return
    first = steps[0] + steps[1]
    last = first + steps[2]
    done = 0  # steps

    def switch() -> None:
        if done in (first, last):
            torch.cuda.synchronize()
        if done == first:
            torch.cuda.profiler.start()
        elif done == last:
            torch.cuda.profiler.stop()

    def step() -> None:
        nonlocal done
        done += 1
        switch()

    switch()
    hook = _after_each_step(step)
    try:
        script()
    finally:
        hook.remove()
        if torch.cuda.is_initialized() and done < last:
            torch.cuda.profiler.stop()


def _after_each_step(action: Callable[[], None]) -> Any:
    """Call `action` after each step of the optimizer that steps first, as long as it exists."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    first: Callable[[], Any] = lambda: None  # noqa: E731 - a weak reference to nothing yet

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal first
        if first() is None:
            first = weakref.ref(optimizer)
        if first() is optimizer:
            action()

    return register_optimizer_step_post_hook(after)


def _ignore_interrupts() -> None:
    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def _say(text: str) -> None:
    print(f"recorded_run: {text}", file=sys.stderr, flush=True)


def _terminate(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # else the script's own --n is taken for a short form
    )
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--torch", type=Path, metavar="DIR", help="write torch.profiler's traces here")
    how.add_argument("--range", action="store_true", help="mark the steps for Nsight Systems")
    parser.add_argument("--steps", type=steps_of, metavar="WAIT:WARMUP:ACTIVE")
    parser.add_argument(
        "--local_rank",
        metavar="N",
        help="DeepSpeed's launcher puts it first; handed on to the script, as without this program",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGUMENTS]")
    options = parser.parse_args(arguments)
    if not options.command:
        parser.error("no script given")
    if options.range and not options.steps:
        parser.error("--range needs --steps")

    target, *own = options.command
    if options.local_rank is not None:
        own.insert(0, f"--local_rank={options.local_rank}")
    sys.argv = [target, *own]
    sys.path[0] = os.getcwd() if options.module else str(Path(target).resolve().parent)
    signal.signal(signal.SIGTERM, _terminate)

    def script() -> None:
        if options.module:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(target, run_name="__main__")

    if options.torch:
        under_torch(options.torch.resolve(), options.steps, script)
    else:
        in_range(options.steps, script)


if __name__ == "__main__":
    main()
