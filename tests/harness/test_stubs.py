"""Stubs: both kinds give the same verdicts in the same words, and every failure has a name."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from grading.runner import hang_guard as hang_guards
from grading.runner import stubs
from grading.runner.hang_guard import HANG_EXIT_CODE, HangError, Journal, hang_guard
from grading.runner.stubs import Blocked, StubError, StubImportError, open_stub
from grading.runner.wire import ForbiddenValue
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding

# Of processor time, or by the clock on a machine that is busy.
AFTER = r"had not come back after [\d.]+ s\b.*?"
ROOT = Path(__file__).resolve().parents[2]
KINDS = [
    pytest.param(False, id="in-process"),
    pytest.param(
        True,
        id="isolated",
        marks=[
            pytest.mark.skipif(os.name != "posix", reason="needs POSIX"),
            pytest.mark.proof,  # a process for each: learners need not wait for that
        ],
    ),
]


@pytest.fixture(params=KINDS)
def isolated(request):
    return request.param


@pytest.fixture
def opened(tmp_path, isolated):
    """Open a stub for a source text."""
    stubs = []

    def open_(text, name="ex_00.py", **options):
        source = tmp_path / name
        source.write_text(textwrap.dedent(text))
        options = {"isolated": isolated, "timeout_s": 20.0} | options
        stub = open_stub(source, module_name="ex_00", **options)
        stubs.append(stub)
        return stub

    yield open_
    for stub in stubs:
        stub.close()


def failure(call, *args, **kwargs) -> str:
    with pytest.raises(StubError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# --- values --------------------------------------------------------------------------------------


def test_values_cross_both_ways(opened):
    stub = opened("def same(value): return value\ndef kind(value): return type(value).__name__")
    for value in [1, 2.5, "x", None, [1, (2,)], {1: "a"}, Path("/a/b"), Finding("a", "b", {}, "c")]:
        assert stub.same(value) == value
        assert type(stub.same(value)) is type(value)
        assert stub.kind(value) == type(value).__name__
    array = np.arange(6).reshape(2, 3)
    assert np.array_equal(stub.same(array), array)


def test_arguments_by_name_and_defaults(opened):
    stub = opened("def f(a, b=2, *, c=3): return (a, b, c)")
    assert stub.f(1) == (1, 2, 3)
    assert stub.f(1, c=5, b=4) == (1, 4, 5)


def test_the_learner_cannot_change_the_check_s_values(opened):
    stub = opened("def clear(items): items.clear(); return items")
    items = [1, 2]
    assert stub.clear(items) == []
    assert items == [1, 2]


def test_module_state_lasts_from_call_to_call(opened):
    stub = opened("seen = []\ndef note(x): seen.append(x); return len(seen)")
    assert [stub.note(1), stub.note(1)] == [1, 2]


def test_dataclasses_and_library_work_in_the_learner_s_file(opened):
    stub = opened(
        """
        from __future__ import annotations
        import pickle
        from dataclasses import dataclass
        from profiling_lab.findings import Finding

        @dataclass
        class Gap:
            start_ns: int

        def gaps(): return pickle.loads(pickle.dumps(Gap(3))).start_ns
        def diagnose(): return [Finding("healthy", "device:0", {"window_ns": 1}, "none")]
        """
    )
    assert stub.gaps() == 3
    assert stub.diagnose() == [Finding("healthy", "device:0", {"window_ns": 1}, "none")]


def test_a_value_that_cannot_cross_is_the_learner_s_failure(opened):
    stub = opened("import polars\ndef f(): return [{'a': polars.Series([1])}]")
    message = failure(stub.f)
    assert message.startswith('f() cannot be graded: result[0]["a"] is a polars Series')
    assert "return .to_list() or .to_numpy()" in message


def test_an_argument_that_cannot_cross_is_the_check_s_mistake(opened):
    stub = opened("def f(x): return x")
    with pytest.raises(ForbiddenValue, match="argument 1 of f is a set"):
        stub.f({1})


def test_forged_numbers_do_not_pass(opened):
    stub = opened(
        """
        class Any(int):
            def __eq__(self, other): return True
            __hash__ = int.__hash__
        def f(): return Any(3)
        """
    )
    assert "an int of the subclass Any" in failure(stub.f)


def test_a_result_over_the_limit(opened):
    stub = opened("def f(n): return bytes(n)", limit_bytes=100_000)
    assert len(stub.f(90_000)) == 90_000
    assert "its result has 0.2 MB, and 0.1 MB is the most that may cross" in failure(
        stub.f, 200_000
    )
    assert len(stub.f(90_000)) == 90_000


def test_output_of_the_learner_is_shown(opened, capsys):
    stub = opened(
        """
        import sys
        print("while importing")
        def f(): print("hello"); print("oops", file=sys.stderr); return 1
        """
    )
    stub.f()
    stub.f()
    out, err = capsys.readouterr()
    assert out == "while importing\nhello\nhello\n"
    assert err == "oops\noops\n"


# --- callables -----------------------------------------------------------------------------------


def test_callbacks_run_on_the_check_s_side(opened):
    stub = opened("def run(f, n): return [f(i, twice=True) for i in range(n)]")
    seen = []

    def callback(i, twice):
        seen.append((i, twice, os.getpid()))
        return i * 2

    assert stub.run(callback, 3) == [0, 2, 4]
    assert seen == [(i, True, os.getpid()) for i in range(3)]


def test_a_callback_s_builtin_exception_can_be_caught_by_the_learner(opened):
    stub = opened(
        """
        def run(f):
            try:
                f()
            except KeyError as error:
                return ["caught", error.args[0]]
        """
    )

    def callback():
        raise KeyError("no such stream")

    assert stub.run(callback) == ["caught", "no such stream"]


def test_a_callback_s_library_exception_keeps_its_type(opened):
    stub = opened(
        """
        from profiling_lab.errors import EmptyCapture
        def run(f):
            try:
                f()
            except EmptyCapture as error:
                return str(error)
        """
    )

    def callback():
        raise EmptyCapture("nothing in it")

    assert stub.run(callback) == "nothing in it"


def test_a_callback_s_other_exception_becomes_the_nearest_builtin(opened):
    stub = opened(
        """
        def run(f):
            try:
                f()
            except Exception as error:
                return [type(error).__name__, str(error)]
        """
    )

    class Odd(LookupError):
        pass

    class Odder(Exception):
        pass

    def odd():
        raise Odd("a")

    def odder():
        raise Odder("b")

    assert stub.run(odd) == ["LookupError", "a"]
    assert stub.run(odder) == ["RuntimeError", "b"]


def test_a_callback_s_exception_comes_back_as_itself(opened):
    stub = opened("def run(f): return f()")
    raised = AssertionError("the check's own words")

    def callback():
        raise raised

    with pytest.raises(AssertionError) as caught:
        stub.run(callback)
    assert caught.value is raised
    with stub.raises(AssertionError, match="own words"):
        stub.run(callback)


def test_what_the_learner_hands_to_a_callback_must_be_plain(opened):
    stub = opened("def run(f): return f({1})")
    message = failure(stub.run, lambda value: value)
    assert "raised ForbiddenValue: argument 1 of" in message
    assert "is a set" in message


def test_functions_that_the_learner_returns_can_be_called(opened):
    stub = opened(
        """
        def counted(f):
            count = 0
            def wrapper(x):
                nonlocal count
                count += 1
                return (f(x), count)
            return wrapper
        def failing():
            def inner(): raise ValueError("inside")
            return inner
        """
    )
    wrapper = stub.counted(lambda x: x + 1)
    assert wrapper(1) == (2, 1)
    assert wrapper(5) == (6, 2)
    with stub.raises(ValueError, match="inside"):
        stub.failing()()


def test_the_stub_may_be_called_from_a_callback(opened):
    stub = opened("def outer(f): return f(3) + 1\ndef inner(x): return x * 10")
    assert stub.outer(lambda x: stub.inner(x)) == 31  # noqa: PLW0108 - stubs are not handed over


def test_callbacks_from_the_learner_s_threads(opened):
    stub = opened(
        """
        from concurrent.futures import ThreadPoolExecutor
        def run(f):
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(f, range(50)))
        """
    )
    assert stub.run(lambda x: x * x) == [x * x for x in range(50)]


def test_a_callback_after_the_end_of_its_call_is_refused(opened):
    stub = opened(
        """
        import threading, time
        errors = []
        def start(f):
            def late():
                time.sleep(0.05)
                try:
                    f()
                except RuntimeError as error:
                    errors.append(str(error))
            thread = threading.Thread(target=late)
            thread.start()
        def result():
            return errors
        """
    )
    called = []

    def callback():
        called.append(1)

    stub.start(callback)
    for _ in range(3000):
        if stub.result():
            break
        time.sleep(0.02)
    assert "had ended" in stub.result()[0]
    assert called == []


# --- names ---------------------------------------------------------------------------------------


def test_a_misnamed_function_is_explained_once(opened):
    stub = opened(
        "def busy_tme(c): return 1\ndef idle_gaps(c): return []",
        functions=["busy_time", "idle_gaps"],
    )
    with pytest.raises(StubError) as caught:
        _ = stub.busy_time
    message = str(caught.value)
    assert "ex_00.py defines no function busy_time; did you misname it?" in message
    assert "There is busy_tme." in message
    assert "The file defines: busy_tme, idle_gaps" in message
    assert failure(lambda: stub.busy_time) == (
        "ex_00.py defines no function busy_time (see the first failure of this kind)"
    )


def test_a_missing_function_without_a_likeness(opened):
    message = failure(lambda: opened("import os\nclass A: pass").busy_time)
    assert "did you misname" not in message
    assert "The file defines: no function at all" in message


def test_a_name_that_is_no_function(opened):
    assert "defines busy_time, but as an int" in failure(lambda: opened("busy_time = 3").busy_time)


def test_a_changed_signature_is_named(opened):
    message = failure(opened("def f(a): return a").f, 1, 2)
    assert "f(1, 2) raised TypeError: f() takes 1 positional argument but 2 were given" in message
    assert "keep the parameters that the file came with" in message


def test_names_of_the_stub_itself_are_no_tasks(opened):
    with pytest.raises(ValueError, match="a task cannot be called 'raises'"):
        opened("", functions=["raises"])


# --- exceptions ----------------------------------------------------------------------------------


def test_an_exception_is_shown_with_the_learner_s_lines(opened):
    stub = opened(
        """
        def busy_time(capture, device=0):
            return share(3, device)

        def share(part, whole):
            return part / whole
        """
    )
    message = failure(stub.busy_time, Path("/a/b/c/node/timeline.sqlite"), device=0)
    assert message.startswith(
        "busy_time(…/node/timeline.sqlite, device=0) raised ZeroDivisionError: division by zero"
    )
    assert "line 3, in busy_time\n    return share(3, device)" in message
    assert message.endswith("line 6, in share\n    return part / whole")
    assert "grading" not in message
    assert "worker" not in message


def test_where_a_library_raised_is_shown_too(opened):
    stub = opened("import json\ndef f():\n    return json.loads('{')\n")
    message = failure(stub.f)
    assert "line 3, in f\n    return json.loads('{')" in message
    assert "decoder.py, line" in message


def test_deep_recursion_is_shown_short(opened):
    message = failure(opened("def f(x): return f(x)").f, 1)
    assert "raised RecursionError" in message
    assert message.count("\n") < 20


def test_an_exception_whose_text_cannot_be_had(opened):
    stub = opened(
        """
        class Odd(Exception):
            def __str__(self): raise ValueError
            def __getattr__(self, name): raise ValueError
        def f(): raise Odd
        """
    )
    assert "raised Odd: (its message cannot be shown" in failure(stub.f)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("sys.exit(0)", "ended the program (SystemExit: 0) instead of returning"),
        ("raise KeyboardInterrupt", "as if someone had pressed Ctrl-C"),
        ("raise GeneratorExit", "raised GeneratorExit"),
        ("pytest.skip('later')", "raised Skipped: later"),
        ("pytest.exit('later')", "raised Exit: later"),
        ("pytest.xfail('later')", "raised XFailed: later"),
    ],
)
def test_ways_out_of_a_call_are_failures(opened, statement, words):
    stub = opened(f"import sys, pytest\ndef f():\n    {statement}\n")
    message = failure(stub.f)
    assert words in message
    assert "line 3, in f" in message


def test_not_implemented_elsewhere_is_a_failure(opened):
    stub = opened("def f(x):\n    if x:\n        raise NotImplementedError\n", todo={"g"})
    message = failure(stub.f, 1)
    assert "raised NotImplementedError" in message
    assert "only while the body is nothing but" in message


def test_reaching_another_todo_blocks(opened):
    stub = opened(
        """
        def gaps(x): raise NotImplementedError
        def longest(x): return max(helper(x))
        def helper(x): return gaps(x)
        """,
        todo={"gaps"},
        task_of={"gaps": "ex_00.gaps"},
    )
    for call in (stub.longest, stub.gaps):
        with pytest.raises(Blocked, match="blocked by ex_00.gaps") as caught:
            call(1)
        assert caught.value.task == "ex_00.gaps"
    with pytest.raises(Blocked), stub.raises(ValueError):
        stub.longest(1)


def test_a_todo_of_the_same_name_elsewhere_does_not_block(opened):
    stub = opened(
        """
        class A:
            def gaps(self): raise NotImplementedError
        def f(x): return A().gaps()
        """,
        todo={"gaps"},
    )
    assert "raised NotImplementedError" in failure(stub.f, 1)


# --- stub.raises ---------------------------------------------------------------------------------

RAISING = """
from profiling_lab.errors import EmptyCapture
class Own(ValueError): pass
def value(): raise ValueError("device 3 is not in the capture")
def own(): raise Own("mine")
def empty(): raise EmptyCapture("no kernels in timeline.sqlite")
def fine(): return [1, 2]
def leave(): raise SystemExit(2)
def loop():
    while True: pass
"""


def test_raises_accepts_the_type_and_its_subclasses(opened):
    stub = opened(RAISING)
    with stub.raises(ValueError, match="device [0-9]") as caught:
        stub.value()
    assert (caught.type_name, caught.message) == ("ValueError", "device 3 is not in the capture")
    with stub.raises(ValueError):
        stub.own()
    with stub.raises(CaptureError, match="no kernels"):
        stub.empty()
    with stub.raises(EmptyCapture):
        stub.empty()
    with stub.raises(SystemExit):
        stub.leave()


@pytest.mark.parametrize(
    ("name", "kind", "match", "words"),
    [
        ("fine", ValueError, None, "fine() returned [1, 2]; it must raise ValueError, because why"),
        ("value", KeyError, None, "It must raise KeyError, because why."),
        ("value", EmptyCapture, None, "It must raise EmptyCapture, because why."),
        ("own", OSError, None, "own() raised Own: mine"),
        ("value", ValueError, "stream", "its message must hold these words: stream"),
        ("empty", ValueError, None, "empty() raised EmptyCapture: no kernels"),
    ],
)
def test_raises_explains_what_happened_instead(opened, name, kind, match, words):
    stub = opened(RAISING)
    with pytest.raises(StubError) as caught, stub.raises(kind, match, "why"):
        getattr(stub, name)()
    assert words in str(caught.value)


def test_raises_does_not_hide_other_failures(opened):
    stub = opened(RAISING, timeout_s=0.3)
    with pytest.raises(StubError, match="had not come back"), stub.raises(BaseException):
        stub.loop()
    with pytest.raises(StubError, match="defines no function nothing"), stub.raises(Exception):
        stub.nothing()
    with pytest.raises(ZeroDivisionError), stub.raises(ZeroDivisionError):
        print(1 / 0)  # the check's own


def test_raises_is_for_calls_and_for_types_that_cross(opened):
    stub = opened(RAISING)
    with pytest.raises(RuntimeError, match="calls no function"), stub.raises(ValueError):
        pass
    with pytest.raises(TypeError, match="does not cross"):
        stub.raises(subprocess.TimeoutExpired)
    with pytest.raises(TypeError, match="means todo"):
        stub.raises(NotImplementedError)


# --- import --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("def f(:\n", "syntax error in line 1: invalid syntax", 1),
        ("x = 1\ny = (\n", "syntax error in line 2: '(' was never closed", 2),
        ("def f():\nreturn 1\n", "expected an indented block", 2),
        ("x = 1\n\nraise ValueError('no')\n", "line 3 raises ValueError: no", 3),
        ("import nothing_here\n", "line 1 raises ModuleNotFoundError: No module named", 1),
        ("import sys\nsys.exit(4)\n", "line 2 ends the program (SystemExit: 4)", 2),
        ("raise KeyboardInterrupt\n", "line 1 raises KeyboardInterrupt", 1),
        ("def f():\n    return 1 / 0\nf()\n", "line 2 raises ZeroDivisionError", 2),
        ("import pytest\npytest.skip('x', allow_module_level=True)\n", "line 2 raises Skipped", 2),
        ("x = '\0'\n", "null bytes", 0),
    ],
)
def test_a_file_that_cannot_be_imported(opened, text, words, line):
    stub = opened(text)
    for _ in range(2):
        with pytest.raises(StubImportError) as caught:
            stub.busy_time(1)
        assert str(caught.value).startswith("ex_00.py cannot be imported: ")
        assert words in str(caught.value)
        assert caught.value.file.endswith("ex_00.py")
        assert line in (0, caught.value.line)
    assert "\n" not in caught.value.headline


def test_other_encodings_are_named(opened, tmp_path):
    stub = opened("")
    (tmp_path / "ex_00.py").write_bytes(b"x = '\xff'\n")
    assert "syntax error" in failure(lambda: stub.f)


def test_a_file_that_is_not_there(opened, tmp_path):
    stub = opened("")
    (tmp_path / "ex_00.py").unlink()
    assert "the file cannot be read" in failure(lambda: stub.f)


def test_a_folder_in_its_place(opened, tmp_path):
    stub = opened("")
    (tmp_path / "ex_00.py").unlink()
    (tmp_path / "ex_00.py").mkdir()
    assert "the file cannot be read" in failure(lambda: stub.f)


def test_an_endless_loop_at_import_is_waited_for_once(opened):
    text = "x = 0\nwhile True:\n    x += 1\n"
    stub = opened(text, timeout_s=0.4)
    message = failure(lambda: stub.f)
    assert re.search(rf"importing ex_00.py {AFTER}; it was at ex_00.py, line", message), message
    started = time.monotonic()
    assert failure(lambda: stub.g) == message
    assert failure(lambda: opened(text, timeout_s=0.4).f) == message
    assert time.monotonic() - started < 0.3


def test_importing_a_framework_is_not_the_learners_time(opened, tmp_path, monkeypatch):
    (tmp_path / "jax.py").write_text("import time\ntime.sleep(1.0)\nloaded = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    stub = opened("import jax\ndef f(): return jax.loaded\n", timeout_s=0.1)
    assert stub.f() is True
    monkeypatch.delitem(sys.modules, "jax", raising=False)


def test_a_changed_file_is_read_again_within_the_same_second(opened):
    for value in range(5):
        assert opened(f"def f(): return {value}").f() == value
    assert "syntax error" in failure(lambda: opened("def f(: return 0").f)
    assert opened("def f(): return 9").f() == 9


def test_the_folder_of_the_file_is_not_importable(opened, tmp_path):
    (tmp_path / "beside.py").write_text("")
    assert "No module named 'beside'" in failure(lambda: opened("import beside").f)


def test_import_paths_are_appended(opened, tmp_path):
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "lab_access_extra.py").write_text("x = 5")
    (folder / "json.py").write_text("raise ValueError")
    try:
        stub = opened(
            "import json\ndef f():\n    import lab_access_extra\n    return lab_access_extra.x",
            import_paths=[folder],
        )
        assert stub.f() == 5
    finally:
        while str(folder) in sys.path:
            sys.path.remove(str(folder))
        sys.modules.pop("lab_access_extra", None)


# --- probe -------------------------------------------------------------------------------------


def test_a_probe_runs_beside_the_learner_s_code(opened, tmp_path):
    probe = tmp_path / "spy.py"
    probe.write_text(
        textwrap.dedent(
            """
            import os
            def measure(module, n):
                return {"value": module.f(n), "pid": os.getpid()}
            """
        )
    )
    stub = opened("def f(n): return n + 1\n")
    claim = stub.probe(probe, "measure", 4)
    assert claim["value"] == 5
    assert (claim["pid"] == os.getpid()) is not stub._isolated
    stub = opened("def f(n): return 1 / n\n")
    assert "measure(0) raised ZeroDivisionError" in failure(stub.probe, probe, "measure", 0)


# --- loops and ends ------------------------------------------------------------------------------


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


@pytest.fixture
def isolated_stub(tmp_path):
    stubs = []

    def open_(text, **options):
        source = tmp_path / "ex_00.py"
        source.write_text(textwrap.dedent(text))
        options = {"timeout_s": 20.0} | options
        stubs.append(open_stub(source, module_name="ex_00", isolated=True, **options))
        return stubs[-1]

    yield open_
    for stub in stubs:
        stub.close()


posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def posix_proof(test):
    return posix(pytest.mark.proof(test))


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


# --- hang_guard ----------------------------------------------------------------------------------


def spin(swallow=0):
    while True:
        try:
            while True:
                pass
        except HangError:
            if swallow == 0:
                raise
            swallow -= 1


@pytest.mark.parametrize("threaded", [False, True])
def test_the_guard_interrupts_in_any_thread(threaded):
    errors = []

    def run():
        try:
            with hang_guard(0.2, "spin()", sources=[__file__]):
                spin(swallow=2)
        except HangError as error:
            errors.append(error)

    if threaded:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    (error,) = errors
    assert re.search(rf"spin\(\) {AFTER}; it was at test_stubs.py, line", str(error)), error
    assert error.where is not None
    assert error.where[2] == "spin"


def test_waiting_for_a_processor_takes_no_time_of_the_guard(monkeypatch):
    clocks = [0.0, 0.0]
    monkeypatch.setattr(hang_guards.time, "monotonic", lambda: clocks[0])
    monkeypatch.setattr(hang_guards.time, "process_time", lambda: clocks[1])
    for passed_s, computed_s, spent in (
        (3.0, 0.5, ""),  # a busy machine
        (3.0, 1.0, "1 s of processor time"),
        (4.0, 0.5, "4 s, 0.5 s of it processor time"),
    ):
        clocks[:] = 0.0, 0.0
        state = hang_guards._State(1.0, "f()", (), None)
        clocks[:] = passed_s, computed_s
        assert (state.is_due(), state.spent) == (bool(spent), spent)


def test_what_sleeps_is_ended_by_the_clock():
    slept = pytest.raises(HangError, match=r"f\(\) had not come back after 0.4 s, \S+ s of it")
    with slept, hang_guard(0.1, "f()"):
        time.sleep(600)


@pytest.mark.parametrize("threaded", [False, True])
def test_the_guard_leaves_nothing_behind(threaded):
    done = []

    def run():
        # Half a second: a busy machine may leave a process alone for longer than a few milliseconds.
        for _ in range(200):
            with hang_guard(0.5, "quick"):
                pass
        with hang_guard(60, "slow"):
            time.sleep(0.7)
        done.append(1)

    if threaded:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    assert done == [1]


def test_a_guard_in_a_guard():
    with pytest.raises(HangError) as caught, hang_guard(0.4, "outer"):
        with pytest.raises(HangError, match="inner"), hang_guard(0.1, "inner"):
            spin()
        spin()
    assert caught.value.what == "outer"


def test_exceptions_pass_the_guard():
    with pytest.raises(ValueError, match="mine"), hang_guard(5, "x"):
        raise ValueError("mine")


@posix_proof
def test_the_guard_gives_up_after_five_swallowed_interruptions(tmp_path):
    script = tmp_path / "swallow.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from grading.runner.hang_guard import Journal, hang_guard
            journal = Journal(sys.argv[1])
            journal.enter(exercise="ex_00", task="ex_00.f", check="test_f", source_hash="1")
            def loop():
                while True:
                    try:
                        x = 0
                        while True: x += 1
                    except BaseException: pass
            with hang_guard(0.1, "loop()", sources=[__file__], on_end=journal.note):
                loop()
            """
        )
    )
    path = tmp_path / "running.json"
    ended = subprocess.run(
        [sys.executable, str(script), str(path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == HANG_EXIT_CODE
    assert re.search(rf"loop\(\) {AFTER} and swallowed 5 interruptions", ended.stderr)
    left = Journal(path).left_over()
    assert "swallowed 5 interruptions (at swallow.py, line" in left.describe()


@posix_proof
def test_time_at_a_breakpoint_does_not_count(tmp_path):
    script = tmp_path / "debugged.py"
    script.write_text(
        textwrap.dedent(
            """
            from grading.runner.hang_guard import hang_guard
            with hang_guard(0.2, "x"):
                breakpoint()
                total = sum(range(10))
            print("through", total)
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.5)  # longer than the guard's time by the clock
    out, err = process.communicate("next\ncontinue\n", timeout=600)
    assert "through 45" in out, err


# --- journal -------------------------------------------------------------------------------------

ENTRY = {"exercise": "ex_00", "task": "ex_00.f", "check": "test_f", "source_hash": "abc"}


def ended_inside(path, **entry):
    """Leave an entry as a process does that ends while learner code runs."""
    code = (
        "import os, sys, json; from pathlib import Path; from grading.runner.hang_guard import Journal\n"
        "entry = json.loads(sys.argv[2])\n"
        "if 'source' in entry: entry['source'] = Path(entry['source'])\n"
        "Journal(sys.argv[1]).enter(**entry); os._exit(3)"
    )
    import json

    subprocess.run(
        [sys.executable, "-c", code, str(path), json.dumps(ENTRY | entry)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )


def test_the_journal_names_what_ended_the_process(tmp_path):
    path = tmp_path / ".lab" / "running.json"
    assert Journal(path).left_over() is None
    ended_inside(path)
    journal = Journal(path)
    left = journal.left_over()
    assert (left.exercise, left.task, left.check, left.source_hash) == tuple(ENTRY.values())
    assert "os._exit" in left.describe()
    assert "the last run ended inside test_f: " in str(left)
    journal.close()
    assert Journal(path).left_over() == left  # until its check runs again
    journal.enter(**ENTRY | {"check": "test_other"})
    journal.leave()
    assert journal.left_over() == left
    journal.enter(**ENTRY)
    journal.close()
    assert Journal(path).left_over() is None
    assert list(path.parent.iterdir()) == []


def test_the_journal_knows_every_task_that_ended_a_run(tmp_path):
    path = tmp_path / "running.json"
    ended_inside(path)
    ended_inside(path, task="ex_00.g", check="test_g")
    journal = Journal(path)
    journal.left_over()
    assert set(journal.ended_in(source_hash="abc")) == {"ex_00.f", "ex_00.g"}
    assert journal.ended_in(source_hash="abd") == {}
    # Another check of the task, with a changed source: the entry is settled.
    journal.enter(**ENTRY | {"check": "test_other", "source_hash": "abd"})
    journal.close()
    journal.left_over()
    assert set(journal.ended_in(source_hash="abc")) == {"ex_00.g"}


def test_the_journal_forgets(tmp_path):
    path = tmp_path / "running.json"
    ended_inside(path)
    journal = Journal(path)
    assert journal.left_over() is not None
    journal.forget()
    assert journal.left_over() is None


def test_the_journal_drops_an_entry_whose_source_has_changed(tmp_path):
    import hashlib

    path, source = tmp_path / "running.json", tmp_path / "ex_00.py"
    source.write_text("x = 1")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    ended_inside(path, source=str(source), source_hash=digest[:16])
    assert Journal(path).left_over() is not None
    source.write_text("x = 2")
    assert Journal(path).left_over() is None


def test_the_journal_of_a_living_process_is_not_left_over(tmp_path):
    path = tmp_path / "running.json"
    first = Journal(path)
    first.enter(**ENTRY)
    if os.name == "posix":
        assert Journal(path).left_over() is None
    first.leave()
    first.close()
    assert Journal(path).left_over() is None


def test_the_journal_is_cheap(tmp_path):
    journal = Journal(tmp_path / "running.json")
    journal.enter(**ENTRY)
    started = time.perf_counter()
    for _ in range(1000):
        journal.enter(**ENTRY)
        journal.leave()
    journal.close()
    assert time.perf_counter() - started < 1.0  # 1 ms each, a hundred times what it takes


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2, 3], "[1, 2, 3]"),
        ((1,), "(1,)"),
        (list(range(1000)), ", … 1000 in all]"),
        ({"a": [1]}, "{'a': [1]}"),
        ("x" * 300, "…"),
        (np.arange(3), "array([0, 1, 2], int64)"),
        (np.zeros((100, 2)), "array(100x2 float64)"),
        (Path("/a/b/c/d.sqlite"), "…/c/d.sqlite"),
        (len, "len"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_abbreviated(value, text):
    shown = stubs.abbreviate(value)
    assert text in shown
    assert len(shown) < 140
