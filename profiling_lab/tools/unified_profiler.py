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
import contextlib
import datetime
import importlib.util
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the package need not be installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiling_lab import units
from profiling_lab.record.errors import RecordError
from profiling_lab.record.tools import check_importer, find_nsys
from profiling_lab.tools import processes
from profiling_lab.tools.recorded_run import steps_of

MODES = ("single", "multi-gpu", "multi-node", "deepspeed", "fsdp")
PORT = 29500  # torchrun's own default
USAGE_ERROR, COULD_NOT_START = 2, 127
RUNNER = Path(__file__).with_name("recorded_run.py")


class UsageError(Exception):
    """What was asked for cannot be done; the message says what to do instead."""


@dataclass(frozen=True)
class Plan:
    """What will be run. command: as it is, without a shell. notes: lines that explain it.

    folder: where profiles are written. profiler: "nsys", "torch" or "none".
    """

    command: tuple[str, ...]
    profiler: str
    folder: Path
    notes: tuple[str, ...] = ()
    reads: tuple[str, ...] = field(default=(), compare=False)

    @property
    def shown(self) -> str:
        """The command as it can be pasted into a shell."""
        return shlex.join(self.command)


# -- what to run ----------------------------------------------------------------------------------


def make_plan(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Plan:
    """The command for these options. Raises UsageError."""
    if not options.command:
        raise UsageError("no script given; an example: unified_profiler.py train.py --epochs 1")
    script = options.command[0]
    notes = []
    if not options.module and not Path(script).is_file():
        if not options.dry_run:
            raise UsageError(f"{script}: no such file; options of this tool come before the script")
        notes.append(f"{script}: no such file here")
    mode = _mode(options)
    profiler, why = _profiler(options)
    folder = options.output or Path("profiles") / f"{Path(script).stem}-{_now()}"
    notes.append(why)
    inner = _inner(options, profiler, folder)
    launched, more = _launched(options, mode, inner, environ)
    notes += more
    outer = _nsys(options, mode, folder) if profiler == "nsys" else []
    if profiler == "nsys" and not options.steps:
        notes.append(
            "the whole run is recorded: for a long one say --steps 5:0:5, or the report gets large"
        )
    if _through_slurm(options, mode):
        srun = [
            "srun", f"--nodes={options.nodes}", "--ntasks-per-node=1",
            f"--gpus-per-node={options.gpus}", "--kill-on-bad-exit=1",
        ]  # fmt: skip
        # Since Slurm 22.05 srun does not take --cpus-per-task from the job (source: srun's manual).
        if cpus := environ.get("SLURM_CPUS_PER_TASK"):
            srun.append(f"--cpus-per-task={cpus}")
        outer = [*srun, *outer]
    return Plan((*outer, *launched), profiler, folder, tuple(notes), _reading(profiler, mode))


def _mode(options: argparse.Namespace) -> str:
    mode = options.mode
    if mode is None:
        mode = "multi-node" if options.nodes > 1 else "multi-gpu" if options.gpus else "single"
    if mode == "single" and ((options.gpus or 1) > 1 or options.nodes > 1):
        raise UsageError("--mode single means one process: leave out --gpus and --nodes")
    if options.nodes > 1 and mode == "multi-gpu":
        raise UsageError("--mode multi-gpu means one node: say --mode multi-node")
    if mode == "multi-node" and options.nodes < 2:
        raise UsageError("--mode multi-node needs --nodes, 2 or more")
    if not 0 <= options.node_rank < options.nodes:
        raise UsageError(
            f"--node-rank counts from 0: below {options.nodes} with --nodes {options.nodes}"
        )
    if mode != "single" and options.gpus is None:
        options.gpus = _gpus_here()
    return mode


def _gpus_here() -> int:
    """GPUs that CUDA would see here, without starting it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = len([name for name in visible.split(",") if name.strip()])
    else:
        try:
            listing = subprocess.run(
                ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            listing = ""
        count = sum(line.startswith("GPU ") for line in listing.splitlines())
    if not count:
        raise UsageError("no GPU is visible here: say with --gpus how many processes a node gets")
    return count


def _profiler(options: argparse.Namespace) -> tuple[str, str]:
    """The tool, and a sentence on why it is that one."""
    wanted = options.profiler
    if wanted == "none":
        return "none", "the script runs without a profiler"
    if wanted in ("auto", "nsys"):
        trouble = ""
        try:
            nsys = find_nsys(options.nsys)
            check_importer(nsys)
        except RecordError as error:
            trouble = str(error)
            if wanted == "nsys" and not options.dry_run:
                raise UsageError(trouble) from None
        if not trouble:
            options.nsys = str(nsys)
            return "nsys", "Nsight Systems: it is installed and complete"
        if wanted == "nsys":
            options.nsys = options.nsys or "nsys"
            return "nsys", f"not to be run here: {trouble}"
        return "torch", f"torch.profiler, because: {trouble}"
    return "torch", "torch.profiler, as asked for"


def _inner(options: argparse.Namespace, profiler: str, folder: Path) -> list[str]:
    """The Python file that each process runs, with its arguments."""
    steps = [f"--steps={':'.join(map(str, options.steps))}"] if options.steps else []
    module = ["-m"] if options.module else []
    if profiler == "torch":
        return [str(RUNNER), f"--torch={folder}", *steps, *module, *options.command]
    if profiler == "nsys" and steps:
        return [str(RUNNER), "--range", *steps, *module, *options.command]
    return [*module, *options.command]


def _launched(
    options: argparse.Namespace, mode: str, inner: list[str], environ: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The launcher in front of `inner`, and what is to be said of it."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    more = options.launcher_option
    if mode == "single":
        return [sys.executable, *inner], []
    if mode == "deepspeed":
        return _deepspeed(options, inner)
    notes = ["`python -m torch.distributed.run` is what the command torchrun runs"]
    if options.nodes == 1:
        head = ["--standalone", f"--nproc-per-node={options.gpus}"]
        return [*torchrun, *head, *more, *inner], notes
    head = [f"--nnodes={options.nodes}", f"--nproc-per-node={options.gpus}"]
    if options.launcher == "slurm":
        if options.dry_run and not environ.get("SLURM_JOB_NODELIST"):
            address = options.master_addr or "FIRST_NODE"
            notes.append("outside of a job nobody knows the nodes: FIRST_NODE stands for the first")
        else:
            address = options.master_addr or _first_node(environ)
        head += [
            "--rdzv-backend=c10d", f"--rdzv-endpoint={address}:{options.master_port}",
            f"--rdzv-id={environ.get('SLURM_JOB_ID', 'profile')}",
        ]  # fmt: skip
    else:
        if options.master_addr is None:
            raise UsageError("several nodes need --master-addr: the name of the node with rank 0")
        head += [
            f"--node-rank={options.node_rank}",
            f"--master-addr={options.master_addr}",
            f"--master-port={options.master_port}",
        ]
        notes.append(f"run this on each of the {options.nodes} nodes, with its own --node-rank")
        if options.node_rank == 0 and not options.dry_run:
            _require_free(options.master_port)
    notes.append("several nodes were tested with a stand-in for the launcher, not on a cluster")
    return [*torchrun, *head, *more, *inner], notes


def _deepspeed(options: argparse.Namespace, inner: list[str]) -> tuple[list[str], list[str]]:
    program = shutil.which("deepspeed")
    notes = ["DeepSpeed was tested with a stand-in for the launcher, not with DeepSpeed itself"]
    if program is None:
        if not options.dry_run:
            raise UsageError("the command deepspeed is not on PATH: pip install deepspeed")
        notes.append("not to be run here: the command deepspeed is not on PATH")
    head = [program or "deepspeed"]
    if options.nodes > 1:
        if options.hostfile is None:
            raise UsageError("DeepSpeed on several nodes needs --hostfile FILE")
        head += [f"--hostfile={options.hostfile}", f"--num_nodes={options.nodes}"]
        notes.append("nsys here records this node's processes only")
    head += [f"--num_gpus={options.gpus}", f"--master_port={options.master_port}"]
    if options.nodes == 1 and not options.dry_run:
        _require_free(options.master_port)
    if options.module and inner[0] == "-m":
        inner = ["--module", *inner[1:]]
    return [*head, *options.launcher_option, *inner], notes


def _through_slurm(options: argparse.Namespace, mode: str) -> bool:
    return options.nodes > 1 and options.launcher == "slurm" and mode != "deepspeed"


def _first_node(environ: Mapping[str, str]) -> str:
    nodes = environ.get("SLURM_JOB_NODELIST")
    if nodes:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            answer = subprocess.run(
                ["scontrol", "show", "hostnames", nodes],
                capture_output=True, text=True, timeout=60, check=True,
            )  # fmt: skip
            if names := answer.stdout.split():
                return names[0]
        raise UsageError(
            f"scontrol does not name the nodes of this job ({nodes}): name the first one with"
            " --master-addr"
        )
    raise UsageError(
        "--launcher slurm belongs into a job (sbatch, salloc), where Slurm names the nodes;"
        " elsewhere name the first one with --master-addr"
    )


def _require_free(port: int) -> None:
    with socket.socket() as listener:
        if os.name == "posix":  # else a run that has just ended would still hold it
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used here ({error.strerror}): another job may hold it;"
                " choose another one with --master-port"
            ) from None


def _nsys(options: argparse.Namespace, mode: str, folder: Path) -> list[str]:
    name = "timeline"
    if _through_slurm(options, mode):
        name += "_node%q{SLURM_NODEID}"
    elif options.nodes > 1:
        name += f"_node{options.node_rank}"
    command = [
        options.nsys, "profile", f"--output={folder / name}", "--force-overwrite=true",
        f"--trace={options.trace}", "--sample=none", "--cpuctxsw=none",
    ]  # fmt: skip
    if options.steps:
        command += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    return [*command, *options.nsys_option]


def _reading(profiler: str, mode: str) -> tuple[str, ...]:
    """What to do next with what was written."""
    found = {
        "nsys": (
            "nsys stats FILE.nsys-rep            # tables of kernels, copies, calls",
            "nsys export --type=sqlite FILE.nsys-rep && lab diagnose FILE.sqlite",
        ),
        "torch": (
            "open a trace at https://ui.perfetto.dev",
            "lab diagnose trace_rank0.json.gz",
        ),
    }.get(profiler, ())
    if mode in ("multi-gpu", "multi-node", "deepspeed"):
        found += ("look for: all-reduce kernels beside which no other kernel runs",)
    if mode == "fsdp":
        found += ("look for: all-gather and reduce-scatter kernels beside which no other runs",)
    return found


# -- running it -----------------------------------------------------------------------------------


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


def _now() -> str:
    return datetime.datetime.now().strftime("%Y%m%d-%H%M%S")


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
