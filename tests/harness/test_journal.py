"""The journal names what ended a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from grading.runner.journal import Journal

ROOT = Path(__file__).resolve().parents[2]


ENTRY = {"exercise": "ex_00", "task": "ex_00.f", "check": "test_f", "source_hash": "abc"}


def ended_inside(path, **entry):
    """Leave an entry as a process does that ends while learner code runs."""
    code = (
        "import os, sys, json; from pathlib import Path; from grading.runner.journal import Journal\n"
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
