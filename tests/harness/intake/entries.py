"""What a student hands in: files of the small course, as folders, archives and repositories."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

MAIN, SECOND, CUDA = "week07/day1/ex_1.py", "week07/day1/more.py", "week07/day2/ex_2.cu"
CODE = "def a(x):\n    return x + 1\n"
WHOLE = {MAIN: CODE.encode(), SECOND: b"def b():\n    return 2\n", CUDA: b"// kernel\n"}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def zipped(path: Path, files: dict[str, bytes], wrapper: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(wrapper + name, data)
    return path


def tarred(path: Path, files: dict[str, bytes], wrapper: str = "", mode: Any = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(wrapper + name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        "GIT_COMMITTER_DATE": "1700000000 +0100",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    return subprocess.run(
        ["git", *who, *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def repository(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    put(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "work")
    return folder


needs_git = pytest.mark.skipif(not shutil.which("git"), reason="needs git")
