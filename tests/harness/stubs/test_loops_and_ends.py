"""Stubs: loops are interrupted, and the end of a worker's process is named and survived."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from grading.runner.failures import StubImportError
from grading.runner.stubs import open_stub
from tests.harness.stubs.failures import AFTER, failure, posix, posix_proof


def test_an_endless_loop_is_interrupted_and_named(opened):
    stub = opened("def f(x):\n    while True:\n        x += 1\n", timeout_s=0.3)
    message = failure(stub.f, 0)
    assert re.match(rf"f\(0\) {AFTER}; it was at ex_00.py, line", message), message
    assert "in f" in message


def test_a_loop_inside_a_library_call_names_the_learner_s_line(opened):
    stub = opened(
        "import itertools\ndef f():\n    for _ in map(abs, itertools.count()): pass\n",
        timeout_s=0.3,
    )
    assert "line 3, in f" in failure(stub.f)


def test_a_swallowed_interruption_is_still_a_failure(opened):
    stub = opened(
        """
        def f():
            try:
                while True: pass
            except BaseException:
                return 1
        """,
        timeout_s=0.3,
    )
    assert re.search(rf"f\(\) {AFTER}", failure(stub.f))


def test_the_stub_works_after_an_interruption(opened):
    stub = opened("def f(x):\n    while x: pass\n    return 1\n", timeout_s=0.3)
    failure(stub.f, True)
    assert stub.f(False) == 1


@posix_proof
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("os._exit(3)", "the process ended with exit code 3 (os._exit"),
        ("os._exit(0)", "the process ended with exit code 0 (os._exit"),
        ("os.kill(os.getpid(), 11)", "ended by signal 11 (SIGSEGV, segmentation fault)"),
        ("os.kill(os.getpid(), 9)", "ended by signal 9 (SIGKILL, killed"),
        ("os.abort()", "ended by signal 6 (SIGABRT"),
        ("ctypes.string_at(0)", "ended by signal 11 (SIGSEGV"),
        ("os.closerange(3, 100); time.sleep(9)", "the process closed its connection"),
    ],
)
def test_the_end_of_the_process_is_named_and_the_next_call_has_a_new_one(
    isolated_stub, statement, words
):
    stub = isolated_stub(
        f"import os, ctypes, time\ndef f(x):\n    {statement}\ndef g(): return 1\n"
    )
    assert stub.g() == 1
    message = failure(stub.f, 5)
    assert words in message
    assert message.endswith("while f(5) ran")
    assert stub.g() == 1


@posix_proof
def test_the_end_of_the_process_at_import(isolated_stub):
    stub = isolated_stub("import os\nos._exit(0)\n")
    for _ in range(2):
        with pytest.raises(StubImportError, match="ended with exit code 0 .* while it was impor"):
            stub.f()


@posix_proof
def test_a_crash_shows_where(isolated_stub, capfd):
    stub = isolated_stub("import ctypes\ndef f():\n    print('before')\n    ctypes.string_at(0)\n")
    failure(stub.f)
    out, err = capfd.readouterr()
    assert "before" in out
    assert "ex_00.py" in err
    assert "line 4 in f" in err


@posix_proof
@pytest.mark.parametrize(
    "data", ["b'\\xff' * 64", "b'\\0\\0\\0\\2\\xc1\\xc1'", "b'\\0\\0\\0\\1\\x90'"]
)
def test_bytes_that_are_no_message(isolated_stub, data):
    stub = isolated_stub(
        f"""
        import os, stat, time
        def f():
            for fd in range(3, 50):
                try:
                    if stat.S_ISSOCK(os.fstat(fd).st_mode):
                        os.write(fd, {data})
                except OSError:
                    pass
            time.sleep(5)
        def g(): return 1
        """
    )
    message = failure(stub.f)
    assert message.startswith("f() sent an answer that cannot be read: ")
    assert "file descriptor that it did not open" in message
    assert stub.g() == 1


@posix_proof
@pytest.mark.parametrize(
    "message",
    [
        ["passed"],
        ["return"],
        ["return", {4: ["check", 99, "f"]}],
        ["return", {3: ["os:system", {}]}],
        ["raised", {}],
        ["raised", {"kind": "exception"}],
        ["callback", 7, [], {}],
        ["callback", 0, 1, 2],
        [["return"], 1],
        "return",
    ],
    ids=str,
)
def test_messages_that_no_honest_worker_sends(isolated_stub, message):
    stub = isolated_stub(
        f"""
        import os, stat, time
        from grading.runner import wire
        def f(function):
            for fd in range(3, 50):
                try:
                    if stat.S_ISSOCK(os.fstat(fd).st_mode):
                        os.write(fd, wire.frame(wire.pack({message!r})))
                except OSError:
                    pass
            time.sleep(5)
        """
    )
    assert "sent an answer that cannot be read" in failure(stub.f, len)


@posix_proof
def test_code_that_cannot_be_interrupted_is_ended(isolated_stub):
    stub = isolated_stub(
        """
        import signal, time
        def f():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            while True: time.sleep(1)
        def g(): return 1
        """,
        timeout_s=0.2,
    )
    message = failure(stub.f)
    assert "did not come back after 0.8 s and could not be interrupted" in message
    assert stub.g() == 1


@posix_proof
def test_swallowing_every_interruption_ends_the_worker(isolated_stub):
    stub = isolated_stub(
        """
        def f():
            while True:
                try:
                    x = 0
                    while True: x += 1
                except BaseException:
                    pass
        """,
        timeout_s=0.2,
    )
    assert "swallowed every interruption" in failure(stub.f)


@posix
def test_a_forked_child_does_not_answer_twice(opened):
    stub = opened(
        """
        import os
        def f():
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
            return pid > 0
        """
    )
    assert stub.f() is True
    assert stub.f() is True


@posix_proof
def test_ctrl_c_ends_the_worker_and_the_session(tmp_path):
    source = tmp_path / "ex_00.py"
    source.write_text("import time\ndef f():\n    while True: time.sleep(0.01)\n")
    # A shell starts what runs in its background with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for isolated in (False, True):
            stub = open_stub(source, module_name="ex_00", isolated=isolated)
            _ = stub.f
            timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                stub.f()
            timer.join()
            stub.close()
    finally:
        signal.signal(signal.SIGINT, before)


@posix_proof
def test_closing_ends_what_the_learner_started(isolated_stub):
    stub = isolated_stub(
        """
        import subprocess, sys
        def f():
            return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid
        """
    )
    pid = stub.f()
    stub.close()
    for _ in range(3000):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or " Z " in state.read_text():
            return
        time.sleep(0.02)
    pytest.fail("the learner's process still runs")
