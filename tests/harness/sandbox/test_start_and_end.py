"""The sandbox: how it starts, why it does not, and that it ends with its owner."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from grading.errors import SandboxError, SandboxUnavailable
from grading.grader.sandbox import client, kernel, open_sandbox, strongest
from grading.grader.sandbox.kinds import why_not
from grading.grader.sandbox.view import packages
from tests.harness.sandbox.places import alive, descendants, eventually, needs_linux

pytestmark = pytest.mark.proof  # it is the grader that uses it

ROOT = Path(__file__).resolve().parents[3]


def test_after_the_template_has_died_it_is_started_anew(place):
    process, connection, printed = place.start("def f(): return 1")
    restarts = place.sandbox.restarts
    os.kill(place.sandbox._process.pid, signal.SIGKILL)
    with pytest.raises(SandboxError, match="has ended"):
        process.wait(20)
    connection.stream.close()
    printed.close()
    assert place.job("return 2").returned == 2
    assert place.sandbox.restarts == restarts + 1


SCRIPT = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from grading.grader.sandbox import client, open_sandbox
folder = Path(sys.argv[1])
sandbox = open_sandbox({kind!r}, exchange=folder / "exchange", readable=[], scratch=folder)
done = client.run(sandbox.address, ["sh", "-c", "id -u; echo made > a; ls /"], timeout_s=60, keep=["a"])
from os import getuid
print(json.dumps([getuid(), sandbox._process.pid, done.stdout.decode(), done.files["a"].decode()]), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("user", ["this user", "an unprivileged user"])
def test_it_dies_with_its_owner(user, kind):
    python = sys.executable
    environment: dict[str, str] = {"PATH": os.defpath}
    options: dict[str, Any] = {}
    if user != "this user":
        if os.geteuid() != 0:
            pytest.skip("only root can be somebody else")
        options = {"user": 65534, "group": 65534, "extra_groups": []}
        python = _python_of_everybody()
        environment["PYTHONPATH"] = os.pathsep.join(packages())
    folder = Path(tempfile.mkdtemp(prefix="lab-owner-"))
    try:
        (folder / "exchange").mkdir()
        if options:
            shutil.chown(folder, 65534, 65534)
        owner = subprocess.Popen(
            [python, "-c", SCRIPT.format(root=str(ROOT), kind=kind), str(folder)],
            stdout=subprocess.PIPE,
            env=environment,
            cwd="/",
            **options,
        )
        with owner:
            try:
                said = owner.stdout.readline()
                assert said, "the sandbox did not start"
                uid, process, printed, kept = json.loads(said)
                assert printed.split()[0] == "1000"
                assert uid == (65534 if options else os.getuid())
                assert kept == "made\n"
                processes = descendants(process)
                assert len(processes) >= 2
            finally:
                owner.kill()
            assert eventually(lambda: not any(map(alive, processes)))
    finally:
        shutil.rmtree(folder)


def _python_of_everybody() -> str:
    for python in (sys.executable, "/usr/bin/python3"):
        asked = "import sys, msgspec; print(sys.version_info[:2])"
        try:
            done = subprocess.run(
                [python, "-c", asked],
                check=False,
                env={"PYTHONPATH": os.pathsep.join(packages())},
                user=65534,
                capture_output=True,
                text=True,
                cwd="/",
            )
        except OSError:
            continue
        if done.stdout.strip() == str(sys.version_info[:2]):
            return python
    pytest.skip("no Python of this version that another user may start")


@needs_linux
def test_a_sandbox_that_does_not_start_says_why(tmp_path, monkeypatch):
    (tmp_path / "exchange").mkdir()
    monkeypatch.setattr("grading.grader.sandbox._BOOT", "raise SystemExit('the reason')")
    with pytest.raises(SandboxError, match="the reason"):
        open_sandbox(exchange=tmp_path / "exchange", scratch=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["exchange"]


@needs_linux
def test_the_exchange_folder_must_not_be_readable_as_a_whole(tmp_path):
    (tmp_path / "exchange").mkdir()
    for readable in (tmp_path, tmp_path / "exchange"):
        with pytest.raises(SandboxError, match="lie inside each other"):
            open_sandbox(exchange=tmp_path / "exchange", readable=[readable])
    with pytest.raises(SandboxError, match="no place for its files"):
        open_sandbox(exchange=tmp_path / "exchange", scratch=tmp_path / "no")
    with pytest.raises(SandboxError, match="does not exist"):
        open_sandbox(exchange=tmp_path / "exchange", readable=[tmp_path / "no"])


def test_without_any_sandbox_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("grading.grader.sandbox.kinds.why_not", lambda kind: f"{kind} is broken")
    with pytest.raises(
        SandboxUnavailable, match="bubblewrap is broken; namespaces is broken.*apt-get"
    ):
        open_sandbox(exchange=tmp_path)
    monkeypatch.setattr(
        "grading.grader.sandbox.kinds.why_not",
        lambda kind: "no bwrap" if kind == "bubblewrap" else "",
    )
    assert strongest() == "namespaces"
    with pytest.raises(SandboxUnavailable, match="no bwrap; namespaces works here"):
        open_sandbox("bubblewrap", exchange=tmp_path)
    with pytest.raises(SandboxUnavailable, match="no sandbox of the kind"):
        open_sandbox("perhaps", exchange=tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")
    for kind in ("auto", "none"):
        with pytest.raises(SandboxUnavailable, match="on Linux only"):
            open_sandbox(kind, exchange=tmp_path)


@needs_linux
def test_why_bubblewrap_is_not_there(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert why_not.__wrapped__("bubblewrap") == "bubblewrap is not installed"
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    assert why_not.__wrapped__("bubblewrap") == "bubblewrap: 1"


def test_an_address_of_no_sandbox_is_an_error_of_the_sandbox(tmp_path):
    with pytest.raises(SandboxError, match="has ended"):
        client.run(tmp_path / "socket", ["true"], timeout_s=1)


@needs_linux
def test_without_protection_only_when_asked_for(tmp_path):
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    with open_sandbox("none", exchange=exchange, scratch=tmp_path) as sandbox:
        assert "No sandbox" in sandbox.describe()
        script = "cat in; echo kept > out; (setsid sleep 61 &)"
        done = client.run(
            sandbox.address, ["sh", "-c", script], files={"in": b"x"}, timeout_s=60, keep=["out"]
        )
        assert (done.stdout, done.files) == (b"x", {"out": b"kept\n"})
        done = client.run(sandbox.address, ["sleep", "62"], timeout_s=0.2)
        assert (done.returncode, done.cause) == (-9, "time-out")
        assert eventually(lambda: len(descendants(sandbox._process.pid)) == 1)


@needs_linux
def test_the_filter_exists_for_the_machines_that_it_names():
    for machine in ("x86_64", "aarch64"):
        program = kernel.seccomp_program(machine=machine)
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096
    with pytest.raises(OSError, match="riscv64"):
        kernel.seccomp_program(machine="riscv64")


@pytest.mark.parametrize("which", ["place", "place_without_bubblewrap"])
def test_the_template_is_not_the_first_process_of_its_namespace(which, request) -> None:
    """Libraries tell by the pid whether they run in a child, and the first process of a job is pid 1."""
    processes = [Path(f"/proc/{pid}") for pid in request.getfixturevalue(which).processes()]
    pids = [
        re.search(r"^NSpid:.*\s(\d+)$", (process / "status").read_text(), re.MULTILINE)
        for process in processes
        if (words := (process / "cmdline").read_bytes().split(b"\0"))
        and any(word.endswith(b"sandbox.template import main; main()") for word in words)
        and b"bwrap" not in words[0]
    ]
    assert pids
    assert all(found and found[1] != "1" for found in pids)
