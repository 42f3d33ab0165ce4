"""`unified_profiler`: the commands that it makes, and what becomes of scripts that misbehave.

nsys, srun, scontrol and deepspeed are stand-ins that note their arguments and run what follows.
"""

from __future__ import annotations

import gc
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from grading.runner.scoring import installed
from profiling_lab.tools import recorded_run, unified_profiler
from profiling_lab.tools.unified_profiler import UsageError, make_plan, parser

TOOL = Path(unified_profiler.__file__)
RUNNER = str(TOOL.with_name("recorded_run.py"))
PYTHON = sys.executable
# Written into its own folder: the arguments, and the report that the real one would write.
FAKE_NSYS = """\
#!{python}
import json, os, subprocess, sys
arguments = sys.argv[1:]
output = next(a.partition("=")[2] for a in arguments if a.startswith("--output="))
cut = next(i for i, a in enumerate(arguments) if i and not a.startswith("-"))
open(output + ".nsys-rep", "w").write(json.dumps(arguments))
sys.exit(subprocess.run(arguments[cut:]).returncode)
"""
SCRIPT = """\
import os, signal, subprocess, sys, time
if "interrupted" in sys.argv:
    signal.signal(signal.SIGINT, signal.default_int_handler)
print("arguments", *sys.argv[1:], flush=True)
print("on stderr", file=sys.stderr)
if "leave" in sys.argv:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                             start_new_session=True)
    print("left", child.pid, flush=True)
if "hang" in sys.argv:
    time.sleep(600)
if "kill" in sys.argv:
    os.kill(os.getpid(), 9)
sys.exit(int(sys.argv[-1]))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a script, no nsys, and nothing in the environment that a launcher reads."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_JOB_NODELIST", "SLURM_JOB_ID", "RANK", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def program(here, name, text):
    """Put a stand-in on PATH."""
    file = here / "bin" / name
    file.write_text(text.replace("{python}", PYTHON))
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def nsys(here):
    return program(here, "nsys", FAKE_NSYS)


def plan(*arguments, environ=None):
    return make_plan(parser().parse_args([*arguments]), environ or {})


def after(command, word):
    """What follows a word of a command."""
    return list(command[command.index(word) + 1 :])


TORCHRUN = (PYTHON, "-m", "torch.distributed.run")


# -- commands -------------------------------------------------------------------------------------


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


# -- runs -----------------------------------------------------------------------------------------


def run(*arguments, **options):
    return subprocess.run(
        [PYTHON, str(TOOL), *arguments], capture_output=True, text=True, check=False, **options
    )


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_dry_run_prints_the_command_and_runs_nothing(here, nsys):
    done = run("--dry-run", "--output", "out", "train.py", "0")
    assert done.returncode == 0 and done.stdout.startswith(f"{nsys} profile ")
    assert not (here / "out").exists()


@pytest.mark.parametrize("code", ["0", "7"])
def test_output_and_exit_code_are_the_scripts(here, nsys, code):
    done = run("--output", "out", "train.py", "--own", code)
    assert done.returncode == int(code)
    assert done.stdout == f"arguments --own {code}\n" and "on stderr\n" in done.stderr
    recorded = json.loads((here / "out" / "timeline.nsys-rep").read_text())
    assert recorded[-4:] == [PYTHON, "train.py", "--own", code]
    assert "wrote out/timeline.nsys-rep" in done.stderr and "nsys stats" in done.stderr
    assert ("what was recorded until then is kept" in done.stderr) == (code == "7")


def test_a_script_that_a_signal_ends(here):
    assert run("--profiler", "none", "train.py", "kill").returncode == 128 + signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="finds what is left in /proc")
def test_what_a_script_leaves_behind_is_ended(here):
    done = run("--profiler", "none", "train.py", "leave", "0")
    pid = int(done.stdout.split("left ")[1])
    assert done.returncode == 0 and not alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="finds what is left in /proc")
def test_a_script_that_hangs_is_ended_and_what_was_recorded_is_kept(here, nsys):
    done = run("--timeout", "2", "--grace", "5", "--output", "out", "train.py", "leave", "hang")
    assert done.returncode == 124 and "stopped after 2 s" in done.stderr
    assert "wrote out/timeline.nsys-rep" in done.stderr
    assert not alive(int(done.stdout.split("left ")[1]))


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_goes_on_to_the_script(here):
    process = subprocess.Popen(
        # A shell that starts this in the background has SIGINT ignored, and Python keeps that.
        [PYTHON, str(TOOL), "--profiler", "none", "train.py", "interrupted", "hang"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "arguments interrupted hang\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=1800)
    assert process.returncode != 0 and "KeyboardInterrupt" in errors


def test_a_tool_that_makes_no_report(here):
    (here / "out").mkdir()
    (here / "out" / "timeline.nsys-rep").write_text("of an earlier run")
    broken = program(here, "broken", "#!/bin/sh\necho 'unknown option' >&2\nexit 1\n")
    done = run("--nsys", broken, "--output", "out", "train.py", "0")
    assert done.returncode == 1 and "unknown option" in done.stderr
    assert "no new profile in out" in done.stderr and "--profiler torch" in done.stderr
    assert "wrote" not in done.stderr and "is kept" not in done.stderr


def test_an_output_that_is_a_file(here, nsys):
    done = run("--output", "train.py", "train.py", "0")
    assert done.returncode == 2 and done.stdout == ""
    assert "cannot write to train.py" in done.stderr and "--output" in done.stderr


def test_a_recording_that_was_not_finished_is_called_so(here):
    program(here, "nsys", FAKE_NSYS.replace(".nsys-rep", ".qdstrm"))
    done = run("--output", "out", "train.py", "0")
    assert "timeline.qdstrm" in done.stderr and "unfinished" in done.stderr


STEPS = """\
import os, sys, torch
assert __name__ == "__main__" and sys.argv[1:] == ["--fail-at", sys.argv[2], "--t"], sys.argv
if child := os.fork():
    os.waitpid(child, 0)
else:
    sys.exit()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(8):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step == int(sys.argv[2]):
        raise ValueError("the script's own")
"""


@pytest.mark.proof
def test_steps_of_any_optimizer_are_counted_and_a_crash_keeps_the_trace(here):
    installed("torch")
    import gzip

    (here / "steps.py").write_text(STEPS)
    arguments = ["--profiler", "torch", "--steps", "2:1:2", "--output", "out", "steps.py"]
    done = run(*arguments, "--fail-at", "3", "--t", env={**os.environ, "RANK": "5"})
    assert done.returncode == 1 and "the script's own" in done.stderr
    assert "no step was recorded" not in done.stderr, "a forked child leaves the trace alone"
    trace = json.loads(gzip.decompress((here / "out" / "trace_rank5.json.gz").read_bytes()))
    products = [e for e in trace["traceEvents"] if e.get("name") == "aten::addmm"]
    assert len(products) == 1, "step 4 of 1 … 8 is the first of the two after 2 + 1"


@pytest.mark.proof
def test_a_step_is_one_of_the_optimizer_that_steps_first():
    torch = installed("torch")
    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.ones(1)
    first, second = (torch.optim.SGD([weight], 0.1) for _ in range(2))
    rate = torch.optim.lr_scheduler.StepLR(first, 1)
    steps = []
    hook = recorded_run._after_each_step(lambda: steps.append(1))
    for _ in range(3):
        first.step()
        second.step()
        second.step()
        rate.step()
    assert len(steps) == 3
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    weight.grad = torch.full((1,), torch.inf)
    scaler.step(first)
    assert len(steps) == 3, "a step that is skipped is none"
    del first, rate
    gc.collect()
    second.step()
    hook.remove()
    assert len(steps) == 4, "once it is gone, the next one counts"


@pytest.mark.proof
@pytest.mark.parametrize(
    ("active", "says"), [(True, "No space left on device"), (False, "torch.profiler of its own")]
)
def test_a_trace_that_is_lost_leaves_the_exit_code(tmp_path, monkeypatch, capsys, active, says):
    torch = installed("torch")

    def full(file):
        raise OSError(28, "No space left on device")

    recorded = types.SimpleNamespace(
        start=list, stop=list, export_chrome_trace=full,
        current_action=torch.profiler.ProfilerAction.RECORD,
    )  # fmt: skip
    monkeypatch.setattr(torch.autograd, "_profiler_enabled", lambda: active)
    monkeypatch.setattr(torch.profiler, "profile", lambda **_: recorded)
    monkeypatch.setattr(recorded_run, "_ignore_interrupts", list)
    with pytest.raises(SystemExit, match="7"):
        recorded_run.under_torch(tmp_path, None, lambda: sys.exit(7))
    assert says in capsys.readouterr().err


@pytest.mark.proof
def test_two_ranks_and_one_that_dies(here):
    installed("torch")
    (here / "ranks.py").write_text(
        "import os, sys\n"
        "line = f\"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n\"\n"
        "os.write(1, line.encode())\n"
        "sys.exit(9 if os.environ['RANK'] == '1' else 0)\n"
    )
    start = time.monotonic()
    done = run("--gpus", "2", "--profiler", "none", "ranks.py")
    assert done.returncode == 1 and "exitcode  : 9" in done.stderr
    assert {"rank 0 of 2", "rank 1 of 2"} == set(done.stdout.splitlines())
    assert "ended with exit code 1" in done.stderr, time.monotonic() - start
