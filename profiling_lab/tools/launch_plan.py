"""The command that profiles a script: with which tool, by which launcher, with which options."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from profiling_lab.record.errors import RecordError
from profiling_lab.record.tools import check_importer, find_nsys

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
            notes.append("outside of a job the nodes are not known: FIRST_NODE is a placeholder")
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
        found += ("look for: all-reduce kernels during which no other kernel runs",)
    if mode == "fsdp":
        found += (
            "look for: all-gather and reduce-scatter kernels during which no other kernel runs",
        )
    return found


def _now() -> str:
    return datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
