"""Profile a training script on one GPU, several, or several nodes, with the tool that is here.

    python profiling_lab/tools/unified_profiler.py train.py --epochs 1
    python profiling_lab/tools/unified_profiler.py --mode multi-gpu --gpus 4 train.py
    python profiling_lab/tools/unified_profiler.py --dry-run --mode deepspeed --gpus 4 train.py

Prints the exact command, runs it with the script's own arguments, output and exit code, and says what
was written and how to read it. Nsight Systems (nsys) where it is installed and complete, else
torch.profiler.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the package need not be installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiling_lab import units
from profiling_lab.tools import processes
from profiling_lab.tools.launch_plan import Plan, UsageError, make_plan
from profiling_lab.tools.recorded_run import steps_of

MODES = ("single", "multi-gpu", "multi-node", "deepspeed", "fsdp")
PORT = 29500  # torchrun's own default
USAGE_ERROR, COULD_NOT_START = 2, 127


def carry_out(plan: Plan, timeout_s: float | None, grace_s: float) -> int:
    """Run the plan, say what was written, and return the script's exit code.

    timeout_s, grace_s: seconds, as in `processes.run_whole`.
    """
    _say(plan.shown)
    recorded = plan.profiler != "none"
    try:
        if recorded:
            plan.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=plan.folder):
                pass
    except OSError as error:
        _say(f"cannot write to {plan.folder} ({error.strerror}): choose another --output")
        return USAGE_ERROR
    before = _files(plan.folder)
    try:
        code = processes.run_whole(plan.command, timeout_s=timeout_s, grace_s=grace_s)
    except OSError as error:
        _say(f"could not start {plan.command[0]}: {error.strerror or error}")
        return COULD_NOT_START
    if code == processes.TIMED_OUT and timeout_s is not None:
        _say(f"stopped after {timeout_s:g} s (--timeout)")
    elif code:
        _say(f"ended with exit code {code}")
    if recorded:
        _tell_files(plan, before, code)
    return code


def _files(folder: Path) -> dict[Path, int]:
    """The files in a folder and when each was written, in ns."""
    return {file: file.stat().st_mtime_ns for file in folder.glob("*") if file.is_file()}


def _tell_files(plan: Plan, before: Mapping[Path, int], code: int) -> None:
    """Name the files that this run wrote, not those of an earlier one."""
    now = _files(plan.folder)
    files = sorted(file for file in now if now[file] != before.get(file))
    good = [file for file in files if file.name.endswith((".nsys-rep", ".json.gz"))]
    for file in files:
        size = units.format_bytes(file.stat().st_size)
        unfinished = "" if file in good else "  (unfinished: nsys could not make a report of it)"
        _say(f"wrote {file}, {size}{unfinished}")
    if good:
        if code:
            _say("what was recorded until then is kept")
        for line in plan.reads:
            _say(f"next: {line}")
    else:
        other = {
            "nsys": "--profiler torch needs no nsys",
            "torch": "a process that os._exit() or SIGKILL ends writes no trace; nsys keeps one",
        }[plan.profiler]
        _say(
            f"no new profile in {plan.folder}: read the messages above; {other};"
            " --profiler none shows whether the script runs by itself"
        )


def _say(text: str) -> None:
    print(f"unified_profiler: {text}", file=sys.stderr, flush=True)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count of 1 or more")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 1 to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


EXAMPLES = """\
examples:
  %(prog)s train.py --epochs 1
      one process; --epochs 1 is the script's
  %(prog)s --steps 5:1:3 train.py
      leaves 5 steps alone, warms up for 1, records 3. A step is a call of step() of
      the torch optimizer that is the first to step; recorded_run.py --help says more
  %(prog)s --mode multi-gpu --gpus 4 train.py
      four processes through torchrun
  %(prog)s --mode multi-node --nodes 2 --gpus 8 --launcher slurm train.py
      inside a Slurm job: srun starts torchrun on each node
  %(prog)s --mode deepspeed --gpus 4 train.py --deepspeed_config ds.json
  %(prog)s --dry-run …
      prints the command and what is to be said of it, and runs nothing

exit code: the script's own; 124 after --timeout, 127 if it could not be started, 2 for wrong options.
"""


def parser() -> argparse.ArgumentParser:
    """The options; everything from the script's name on is the script's."""
    made = argparse.ArgumentParser(
        prog="unified_profiler.py",
        usage="%(prog)s [options] script.py [the script's own arguments]",
        description=__doc__.split("\n\n", 1)[0],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # else the script's own --n is taken for a short form
    )
    made.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    made.add_argument(
        "-m", dest="module", action="store_true", help="the script is a module's name"
    )
    made.add_argument("--dry-run", action="store_true", help="print the command, run nothing")
    made.add_argument("--output", type=Path, metavar="DIR", help="default: profiles/SCRIPT-TIME")
    made.add_argument("--timeout", type=_seconds, metavar="S", help="end the run after S seconds")
    made.add_argument(
        "--grace", type=_seconds, default=30.0, metavar="S",
        help="how long a run that was told to end may still write its report (default: 30)",
    )  # fmt: skip

    where = made.add_argument_group("where it runs")
    where.add_argument("--mode", choices=MODES, help="default: by --gpus and --nodes")
    where.add_argument("--gpus", type=_positive, metavar="N", help="processes a node; default: all")
    where.add_argument("--nodes", type=_positive, default=1, metavar="N")
    where.add_argument("--node-rank", type=int, default=0, metavar="R", help="of this node, from 0")
    where.add_argument("--master-addr", metavar="HOST", help="the node with rank 0")
    where.add_argument("--master-port", type=_port, default=PORT, metavar="PORT")
    where.add_argument("--launcher", choices=("torchrun", "slurm"), default="torchrun")
    where.add_argument("--hostfile", metavar="FILE", help="of DeepSpeed, for several nodes")
    where.add_argument(
        "--launcher-option", action="append", default=[], metavar="OPT",
        help="one more option of torchrun or deepspeed, as --launcher-option=--max-restarts=0",
    )  # fmt: skip

    how = made.add_argument_group("how it is recorded")
    how.add_argument("--profiler", choices=("auto", "nsys", "torch", "none"), default="auto")
    how.add_argument(
        "--steps", type=steps_of, metavar="WAIT:WARMUP:ACTIVE", help="record these steps only"
    )
    how.add_argument("--trace", default="cuda,nvtx,osrt", help="of nsys (default: %(default)s)")
    how.add_argument("--nsys", metavar="PATH", help="the nsys to use")
    how.add_argument(
        "--nsys-option", action="append", default=[], metavar="OPT",
        help="one more option of nsys profile, as --nsys-option=--gpu-metrics-devices=all",
    )  # fmt: skip
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        plan = make_plan(options)
    except UsageError as error:
        _say(str(error))
        return USAGE_ERROR
    for note in plan.notes:
        _say(note)
    if options.dry_run:
        print(plan.shown)
        return 0
    if plan.profiler == "torch" and importlib.util.find_spec("torch") is None:
        _say(
            f"{sys.executable} has no torch: install it there, or install nsys, or --profiler none"
        )
        return USAGE_ERROR
    return carry_out(plan, options.timeout, options.grace)


if __name__ == "__main__":
    raise SystemExit(main())
