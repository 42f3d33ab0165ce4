#!/usr/bin/env python3
"""Run by Gradescope for each submission: grades it, and always writes results/results.json."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(os.environ.get("AUTOGRADER_ROOT", "/autograder"))
SOURCE = ROOT / "source"
RESULTS = ROOT / "results" / "results.json"
GRACE_S = 20  # to end by itself after it was asked to
NOT_GRADED = "The autograder could not grade this submission. It is not your fault; the instructor can run it again."


def main() -> None:
    print("grading", flush=True)
    try:
        settings = json.loads((SOURCE / "settings.json").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory(prefix="graded_") as scratch:
            out = Path(scratch) / "out"
            why = grade(settings, out)
            results = read(out) if why is None else None
            why = why or "the grader wrote no results"
    except Exception as error:  # noqa: BLE001 - whatever happens, the file is written
        results, why = None, f"{type(error).__name__}: {error}"
    if results is None:
        print(f"not graded: {why}", flush=True)  # for the instructor
        results = failed(why)
    write(results)


def grade(settings: dict, out: Path) -> str | None:
    """Grade the submission into a folder; why that did not succeed, None if it did."""
    command = [str(ROOT / "uv" / "bin" / "uv"), "run", "--no-sync", "--offline"]
    command += ["python", "-m", "grading.cli", str(ROOT / "submission"), "--out", str(out)]
    for option in ("policy", "cases"):
        if settings.get(option):
            command += [f"--{option}", str(SOURCE / settings[option])]
    command += ["--seed", str(settings["seed"])]
    if settings.get("unprotected"):
        command += ["--unprotected", settings["unprotected"]]
    process = subprocess.Popen(command, cwd=SOURCE / "course", start_new_session=True)
    try:
        code = process.wait(settings["timeout_s"])
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return f"it took longer than {settings['timeout_s']} s"
    finally:
        sys.stdout.flush()
    # 3: a part could not be judged; the results say which.
    return None if code in (0, 3) else f"grade ended with exit code {code}"


def read(out: Path) -> dict | None:
    """The results that `grade` wrote for the one submission."""
    files = sorted((out / "gradescope").rglob("*.json"))
    if len(files) != 1:
        return None
    results = json.loads(files[0].read_text(encoding="utf-8"))
    return results if isinstance(results, dict) else None


def failed(why: str) -> dict:
    """Results that say that there are none. Gradescope wants a score; the text says what it is worth."""
    return {
        "score": 0,
        "output": NOT_GRADED,
        "visibility": "hidden",  # so that nobody takes it for a grade
        "stdout_visibility": "hidden",
        "extra_data": {"incomplete": ["all"], "why": why},
        "tests": [],
    }


def write(results: dict) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    temporary = RESULTS.with_name("results.json.part")
    temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    shutil.move(temporary, RESULTS)


if __name__ == "__main__":
    main()
