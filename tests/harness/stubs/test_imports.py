"""Stubs: how a learner's file is imported, what cannot be, and probes beside it."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time

import pytest

from grading.runner.failures import StubImportError
from tests.harness.stubs.failures import AFTER, failure

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
    sys.modules.pop("jax", None)  # not by monkeypatch, which would put the stand-in back


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
