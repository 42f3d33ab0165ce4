"""`unified_profiler`: what becomes of scripts that misbehave."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from grading.runner.scoring import installed
from profiling_lab.tools import recorded_run, unified_profiler
from tests.harness.unified_profiler.stand_ins import FAKE_NSYS, PYTHON, program

TOOL = Path(unified_profiler.__file__)


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
    ("active", "says"), [(True, "No space left on device"), (False, "used torch.profiler itself")]
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
