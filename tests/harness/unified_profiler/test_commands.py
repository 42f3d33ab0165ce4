"""`unified_profiler`: the commands that it makes."""

from __future__ import annotations

import shlex
import socket
import subprocess
from pathlib import Path

import pytest

from profiling_lab.tools import unified_profiler
from profiling_lab.tools.launch_plan import UsageError, make_plan
from profiling_lab.tools.unified_profiler import parser
from tests.harness.unified_profiler.stand_ins import PYTHON, program

TOOL = Path(unified_profiler.__file__)

RUNNER = str(TOOL.with_name("recorded_run.py"))


def plan(*arguments, environ=None):
    return make_plan(parser().parse_args([*arguments]), environ or {})


def after(command, word):
    """What follows a word of a command."""
    return list(command[command.index(word) + 1 :])


TORCHRUN = (PYTHON, "-m", "torch.distributed.run")


def test_one_process_under_nsys(nsys):
    made = plan("--output", "out", "train.py", "--gpus", "3", "-m", "--n", "x")
    assert made.command == (
        nsys, "profile", "--output=out/timeline", "--force-overwrite=true",
        "--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none",
        PYTHON, "train.py", "--gpus", "3", "-m", "--n", "x",
    )  # fmt: skip
    assert any("--steps" in note for note in made.notes), "a whole run gets large: it says so"


def test_some_steps_only_under_nsys(nsys):
    made = plan("--steps", "5:1:3", "--nsys-option=--gpu-metrics-devices=all", "train.py")
    command = list(made.command)
    assert {"--capture-range=cudaProfilerApi", "--capture-range-end=stop"} <= set(command)
    assert "--gpu-metrics-devices=all" in command
    assert after(command, PYTHON) == [RUNNER, "--range", "--steps=5:1:3", "train.py"]


def test_torch_where_nsys_is_not(here):
    made = plan("--profiler", "torch", "--steps", "1:1:2", "--output", "out", "train.py", "a b")
    assert made.command == (PYTHON, RUNNER, "--torch=out", "--steps=1:1:2", "train.py", "a b")
    assert shlex.split(made.shown) == list(made.command), "what is shown can be pasted"


@pytest.mark.parametrize("mode", [[], ["--mode", "multi-gpu"], ["--mode", "fsdp"]])
def test_several_gpus_of_one_node(nsys, mode):
    made = plan(
        *mode, "--gpus", "4", "--launcher-option=--max-restarts=0", "train.py", "--epochs=1"
    )
    assert made.command[-7:] == (
        *TORCHRUN[1:], "--standalone", "--nproc-per-node=4", "--max-restarts=0", "train.py",
        "--epochs=1",
    )  # fmt: skip
    assert made.command[0] == nsys
    assert ("reduce-scatter" in made.reads[-1]) == ("fsdp" in mode)


def test_several_nodes_by_torchrun(nsys):
    made = plan(
        "--nodes", "2", "--node-rank", "1", "--gpus", "8", "--master-addr", "one",
        "--master-port", "1234", "--profiler", "none", "train.py",
    )  # fmt: skip
    assert made.command == (
        *TORCHRUN, "--nnodes=2", "--nproc-per-node=8", "--node-rank=1", "--master-addr=one",
        "--master-port=1234", "train.py",
    )  # fmt: skip
    assert any("each of the 2 nodes" in note for note in made.notes)
    assert any("stand-in" in note for note in made.notes), "what was not tried is said"


def test_several_nodes_by_slurm(here, nsys):
    program(here, "scontrol", "#!/bin/sh\necho node7\necho node8\n")
    made = plan(
        "--mode", "multi-node", "--nodes", "2", "--gpus", "8", "--launcher", "slurm", "--output",
        "out", "train.py", environ={"SLURM_JOB_NODELIST": "node[7-8]", "SLURM_JOB_ID": "99"},
    )  # fmt: skip
    command = list(made.command)
    assert command[:5] == [
        "srun", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8", "--kill-on-bad-exit=1",
    ]  # fmt: skip
    assert command[5] == nsys, "without --cpus-per-task nothing is handed on"
    assert "--output=out/timeline_node%q{SLURM_NODEID}" in command
    assert after(command, "torch.distributed.run") == [
        "--nnodes=2", "--nproc-per-node=8", "--rdzv-backend=c10d", "--rdzv-endpoint=node7:29500",
        "--rdzv-id=99", "train.py",
    ]  # fmt: skip


def test_slurms_steps_get_the_cpus_of_the_job(here, nsys):
    program(here, "scontrol", "#!/bin/sh\necho node7\n")
    job = {"SLURM_JOB_NODELIST": "node[7-8]", "SLURM_CPUS_PER_TASK": "32"}
    arguments = ["--nodes", "2", "--gpus", "8", "--launcher", "slurm", "train.py"]
    command = plan(*arguments, environ=job).command
    assert "--cpus-per-task=32" in command[: command.index(nsys)]


def test_a_dry_run_outside_of_a_job(here, nsys):
    made = plan("--nodes", "2", "--gpus", "8", "--launcher", "slurm", "--dry-run", "train.py")
    assert "--rdzv-endpoint=FIRST_NODE:29500" in made.command
    assert any("outside of a job" in note for note in made.notes)


# What DeepSpeed's launcher starts on a node: `--local_rank` before all other arguments (source:
# deepspeed/launcher/launch.py, which appends it after the script's name unless told --no_local_rank).
DEEPSPEED = """\
#!{python}
import subprocess, sys
script, *own = [a for a in sys.argv[1:] if not a.startswith(("--num_gpus", "--master_port"))]
sys.exit(subprocess.run([sys.executable, "-u", script, "--local_rank=0", *own]).returncode)
"""


@pytest.mark.needs("torch")
def test_deepspeeds_local_rank_reaches_the_script(here):
    program(here, "deepspeed", DEEPSPEED.format(python=PYTHON))
    (here / "train.py").write_text("import sys\nprint('got', *sys.argv[1:])\n")
    options = ["--mode", "deepspeed", "--gpus", "1", "--profiler", "torch"]
    result = subprocess.run(
        [PYTHON, TOOL, *options, "train.py", "--config", "d.json"],
        check=False, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "got --local_rank=0 --config d.json" in result.stdout


def test_deepspeed(here, nsys):
    deepspeed = program(here, "deepspeed", "#!/bin/sh\n")
    made = plan("--mode", "deepspeed", "--gpus", "4", "--dry-run", "train.py", "--config", "d.json")
    assert after(made.command, deepspeed) == [
        "--num_gpus=4", "--master_port=29500", "train.py", "--config", "d.json",
    ]  # fmt: skip
    assert any("stand-in" in note for note in made.notes)
    made = plan(
        "--mode", "deepspeed", "--gpus", "4", "--nodes", "2", "--hostfile", "hosts", "--dry-run",
        "--profiler", "none", "-m", "package.train",
    )  # fmt: skip
    assert made.command[1:] == (
        "--hostfile=hosts", "--num_nodes=2", "--num_gpus=4", "--master_port=29500", "--module",
        "package.train",
    )  # fmt: skip


def test_a_module(here):
    assert plan("--profiler", "none", "-m", "pack.train", "-m").command == (
        PYTHON, "-m", "pack.train", "-m",
    )  # fmt: skip


def test_all_gpus_that_are_visible(here, monkeypatch):
    program(here, "nvidia-smi", "#!/bin/sh\necho 'GPU 0: A'\necho 'GPU 1: A'\necho '  MIG x'\n")
    assert "--nproc-per-node=2" in plan("--mode", "multi-gpu", "train.py").command
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,3")
    assert "--nproc-per-node=3" in plan("--mode", "multi-gpu", "train.py").command


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no script given"),
        (["missing.py"], "options of this tool come before the script"),
        (["--mode", "single", "--gpus", "2", "train.py"], "leave out --gpus"),
        (["--mode", "multi-gpu", "--gpus", "2", "--nodes", "2", "train.py"], "--mode multi-node"),
        (["--mode", "multi-node", "--gpus", "2", "train.py"], "needs --nodes"),
        (["--nodes", "2", "--gpus", "2", "train.py"], "--master-addr"),
        (["--nodes", "2", "--gpus", "2", "--launcher", "slurm", "train.py"], "sbatch"),
        (["--nodes", "2", "--node-rank", "2", "--gpus", "2", "train.py"], "--node-rank counts"),
        (["--mode", "deepspeed", "--gpus", "2", "train.py"], "pip install deepspeed"),
        (["--nsys", "/no/such", "--profiler", "nsys", "train.py"], "no such program"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(here, arguments, says):
    with pytest.raises(UsageError, match=says):
        plan(*arguments)


@pytest.mark.parametrize("answer", ["exit 1", "exit 0", "echo node7; exit 1"])
def test_a_job_whose_nodes_slurm_does_not_name(here, answer):
    program(here, "scontrol", f"#!/bin/sh\n{answer}\n")
    arguments = ["--nodes", "2", "--gpus", "2", "--launcher", "slurm", "train.py"]
    with pytest.raises(UsageError, match=r"scontrol does not name .* --master-addr"):
        plan(*arguments, environ={"SLURM_JOB_NODELIST": "node[7-8]"})


def test_no_gpu_and_no_number_of_processes(here, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UsageError, match="say with --gpus"):
        plan("--mode", "multi-gpu", "train.py")


def test_a_port_in_use_is_named(here):
    with socket.create_server(("", 0)) as server:
        port = str(server.getsockname()[1])
        arguments = ["--nodes", "2", "--gpus", "1", "--master-addr", "x", "--master-port", port]
        with pytest.raises(UsageError, match="choose another one with --master-port"):
            plan(*arguments, "train.py")
        plan(*arguments, "--dry-run", "train.py")
        # A connection that this side closed first keeps its port for a while, but nobody listens.
        with socket.create_connection(server.getsockname()), server.accept()[0]:
            pass
    plan(*arguments, "train.py")
    with pytest.raises(SystemExit):
        plan("--master-port", "65536", "train.py")


@pytest.mark.parametrize("steps", ["5", "1:2", "1:2:0", "a:b:c", "-1:1:1"])
def test_steps_that_are_none(here, steps, capsys):
    with pytest.raises(SystemExit) as end:
        parser().parse_args([f"--steps={steps}", "train.py"])
    assert end.value.code == 2 and "WAIT:WARMUP:ACTIVE" in capsys.readouterr().err
