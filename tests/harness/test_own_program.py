"""Day 5's script for the learner's own program writes rounds that `evidence_verdict` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profiling_lab.captures.program_runs import read_runs
from profiling_lab.mine.functions import load_file

ROOT = Path(__file__).resolve().parents[2]


def test_it_times_both_versions_and_says_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load_file(ROOT / "week07/day5_end_to_end/time_own.py")
    monkeypatch.setattr(script, "COURSE", ROOT / "solutions")
    calls: list[str] = []
    monkeypatch.setattr(script, "FOLDER", tmp_path / "own")
    monkeypatch.setattr(script, "old", lambda: calls.append("old"))
    monkeypatch.setattr(script, "new", lambda: calls.append("new"))
    script.main()
    assert calls == ["old", "new"] + script.ROUNDS * ["old", "new", "old"]
    run = read_runs(str(tmp_path / "own"), "evidence.json")["own"]
    assert {len(run[name]) for name in ("before_ns", "after_ns", "again_ns")} == {script.ROUNDS}
    assert "'verdict': '" in capsys.readouterr().out
    array = np.array([0.1 + 0.2, 1])
    assert script.same(array, np.array([0.3, 1])) and not script.same(array, array + 1)
    assert not script.same(array, array[:1]) and not script.same(array, 3)
    assert script.same(0.1 + 0.2, 0.3) and not script.same(0.1, 0.2)
    monkeypatch.setattr(script, "new", lambda: "another result")
    with pytest.raises(AssertionError, match="different results"):
        script.main()
