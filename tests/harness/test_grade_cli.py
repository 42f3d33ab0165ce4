"""The command `grade` as an instructor meets it: killed, stopped, out of room, asked for too much."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grading import cli
from grading.errors import SandboxUnavailable
from grading.grader import sandbox
from grading.grader.batches import store
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course
from profiling_lab.mine.functions import load_file

pytestmark = pytest.mark.proof  # it is the grader's

ROOT = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).with_name("fake_judge.py")
fake = load_file(FAKE, "fake_judge")
LONG_S = 1800.0  # a guard against hangs, no verdict


@pytest.fixture(scope="module")
def course() -> Course:
    return manifest.load(ROOT)


@pytest.fixture
def source(course: Course, tmp_path: Path) -> Path:
    """Six students; the judge of the last four waits for the file `go`."""
    students = [f"s{number}" for number in range(6)]
    waits = dict.fromkeys(students[2:], f"# fake: waits {tmp_path / 'go'}")
    return fake.write_class(tmp_path / "in", course, students, ["ex_33", "nsys_ex03"], **waits)


@pytest.fixture(autouse=True)
def this_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run what stands here, whatever is installed."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def command(*arguments: object) -> list[str]:
    return [sys.executable, str(FAKE), *map(str, arguments)]


def asked(source: Path, out: Path) -> list[object]:
    return [source, "--out", out, "--exercise", "ex_33", "--exercise", "nsys_ex03", "--jobs", 1]


def run(*arguments: object, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(before or []), *command(*arguments)],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def in_process(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def judged(out: Path) -> list[tuple[str, str]]:
    """Student and exercise of every whole line of results, in order."""
    try:
        lines = (out / store.RESULTS).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    whole = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [(result["student"], result["exercise"]) for result in whole]


def wait_for(out: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Until so many results are on disk. Fails if the process ends before."""
    until = time.monotonic() + LONG_S
    while len(judged(out)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


@contextlib.contextmanager
def begin(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A grader that runs beside the test, and not longer than it."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command(*arguments), stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_killed_and_begun_again_loses_and_repeats_nothing(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with begin(*asked(source, out)) as process:
        wait_for(out, 4, process)
        process.kill()
    before = judged(out)
    assert len(before) == 4
    (tmp_path / "go").touch()
    with (out / store.RESULTS).open("ab") as file:
        file.write(b'{"format":1,"student":"s')  # what a power cut would leave
    done = run(*asked(source, out), "--json")
    assert done.returncode == 0, done.stderr
    assert "torn off" in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["judged"], summary["kept"]) == (12 - len(before), 12)
    assert judged(out)[: len(before)] == before and len(judged(out)) == len(set(judged(out))) == 12
    # The same as without the interruption, with the same seed.
    whole = run(*asked(source, tmp_path / "whole"), "--seed", summary["seed"])
    assert whole.returncode == 0
    one, two = (folder / "gradebook.csv" for folder in (out, tmp_path / "whole"))
    assert one.read_bytes() == two.read_bytes()


def test_ctrl_c_begins_nothing_new_and_says_how_to_go_on(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with begin(*asked(source, out)) as process:
        wait_for(out, 4, process)
        process.send_signal(signal.SIGINT)
        while "waiting for what is being judged" not in process.stderr.readline():
            assert process.poll() is None
        (tmp_path / "go").touch()
        _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    count = len(judged(out))
    assert count in (4, 5)  # what was being judged was waited for, if anything was
    assert f"{12 - count} exercises are left; run the same command again" in err
    assert "Traceback" not in err
    done = run(*asked(source, out))
    assert done.returncode == 0 and len(judged(out)) == 12


def test_two_graders_and_a_look_at_the_first(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with begin(*asked(source, out)) as process:
        wait_for(out, 4, process)
        second = run(*asked(source, out))
        assert second.returncode == 2
        assert re.search(
            rf"another grader is at work there \(process {process.pid} ", second.stderr
        )
        status = run("status", out)
        assert status.returncode == 3, status.stderr
        assert f"being graded by process {process.pid} " in status.stdout
        assert "are not graded yet" in status.stdout
        (tmp_path / "go").touch()
        process.communicate(timeout=LONG_S)
    assert process.returncode == 0 and len(judged(out)) == 12
    assert run("status", out).returncode == 0
    (out / "gradebook.csv").unlink()
    assert run("report", out).returncode == 0 and (out / "gradebook.csv").exists()


def test_infrastructure_left_is_exit_code_3(course: Course, tmp_path: Path) -> None:
    lines = {"bad": "# fake: infrastructure"}
    source = fake.write_class(tmp_path / "in", course, ["bad", "good"], ["ex_33"], **lines)
    arguments = [source, "--out", tmp_path / "out", "--exercise", "ex_33", "--retries", 0]
    done = run(*arguments)
    assert done.returncode == 3
    assert "1 exercises could not be judged; this is not the students' doing" in done.stdout
    assert "1 × the fake judge's disk is full" in done.stdout
    (source / "bad" / course.exercise("ex_33").stub).write_text("# fixed\n")
    assert run(*arguments).returncode == 0


@pytest.fixture
def own_mounts() -> list[str]:
    """A command's beginning that gives it mounts of its own."""
    begun = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*begun, "true"], check=False).returncode:
        pytest.skip("mounts of its own cannot be had here (unshare --user --mount)")
    return begun


def test_a_full_disk_is_said_and_loses_nothing(
    course: Course, tmp_path: Path, own_mounts: list[str]
) -> None:
    """A real one: it fills up while the third of six submissions is judged; then room is made."""
    out, fixed = tmp_path / "disk", tmp_path / "fixed"
    out.mkdir()
    lines = {"s2": f"# fake: fills {out}/ballast {fixed}"}
    students = [f"s{number}" for number in range(6)]
    source = fake.write_class(tmp_path / "in", course, students, ["nsys_ex03"], **lines)
    grade = shlex.join(command(source, "--out", out, "--exercise", "nsys_ex03", "--jobs", 1))
    script = f"""
    mount -t tmpfs -o size=3m none {out} || exit 77
    {grade}; echo "first $?"
    wc -l < {out}/results.jsonl; cp {out}/results.jsonl {tmp_path}/before
    touch {fixed}; rm {out}/ballast
    {grade}; echo "second $?"
    cp {out}/results.jsonl {tmp_path}/after
    """
    done = subprocess.run(
        [*own_mounts, "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("a tmpfs cannot be mounted here")
    assert done.stdout.startswith("first 3\n2\n"), done.stderr
    assert "no space is left on the disk. The 2 results before it are safe" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.endswith("second 0\n"), done.stdout
    before, after = ((tmp_path / name).read_bytes() for name in ("before", "after"))
    assert before.count(b"\n") == 2 and after.startswith(before) and after.count(b"\n") == 6


def test_a_read_only_folder_is_said(source: Path, tmp_path: Path, own_mounts: list[str]) -> None:
    out = tmp_path / "fixed"
    out.mkdir()
    script = f'mount -t tmpfs -o ro none {out} || exit 77; exec "$@"'
    done = run(*asked(source, out), before=[*own_mounts, "sh", "-c", script, "sh"])
    if done.returncode == 77:
        pytest.skip("a tmpfs cannot be mounted here")
    assert done.returncode == 2
    assert "mounted read-only; fix that or choose another --out" in done.stderr


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = in_process(capsys, "--help")
    assert code == 0
    text = " ".join(out.split()).casefold()
    for words in ("uv run grade submissions --out graded", "run the same command again"):
        assert words in text
    assert "exits with 0 if all was graded, whatever the scores" in text
    assert "grade status dir" in text and "grade report dir" in text
    for name in ("status", "report"):
        assert in_process(capsys, name, "--help")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "missing argument 'SUBMISSIONS'"),
        (["in"], "missing option '--out'"),
        (["none", "--out", "x"], "none: no such folder or archive of submissions"),
        (["in", "--out", "x", "--exercise", "ex30"], "did you mean ex_30 or "),
        (["in", "--out", "x", "--unprotected", "yes"], "takes these words and no others"),
        (["in", "--out", "x", "--slurm", "partition=a"], "add --engine slurm"),
        (["in", "--out", "x", "--engine", "slurm", "--slurm", "cpu"], "should be KEY=VALUE"),
        (["in", "--out", "x", "--seed", "0"], "0 is not in the range"),
        (["status", "in"], "holds no graded batch"),
        (["report", "none"], "holds no graded batch"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], says: str
) -> None:
    places = {"in": tmp_path / "in", "none": tmp_path / "none", "x": tmp_path / "x"}
    places["in"].mkdir()
    code, out, err = in_process(capsys, *(places.get(word, word) for word in arguments))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith("grade: ") and says in err
    assert not places["x"].exists() and not (tmp_path / "none").exists()


def test_without_a_sandbox_it_refuses_and_says_the_words(
    capsys: pytest.CaptureFixture[str], source: Path, tmp_path: Path, monkeypatch
) -> None:
    def none_here() -> str:
        raise SandboxUnavailable("no sandbox: install bubblewrap")

    monkeypatch.setattr(sandbox, "strongest", none_here)
    code, _, err = in_process(capsys, source, "--out", tmp_path / "out")
    assert code == 2
    assert f'install bubblewrap; or take the risk: --unprotected "{cli.UNPROTECTED}"' in err
    assert cli._sandbox(f" {cli.UNPROTECTED.upper()}. ") == "none"
