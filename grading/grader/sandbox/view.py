"""Which files of the machine a sandbox shows: the system's, this interpreter's, what runs inside, what is readable."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from grading.errors import SandboxError

ROOT = Path(__file__).resolve().parents[3]
# What runs inside, of this package: nothing that knows an answer.
_OWN_FILES = (
    "grading/__init__.py",
    "grading/runner/hang_guard.py",
    "grading/runner/processors.py",
    "grading/runner/wire.py",
    "grading/runner/learner_side.py",
    "grading/grader/sandbox/kernel.py",
    "grading/grader/sandbox/template.py",
)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_CONFIGURATION = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")


def view(readable: Iterable[Path]) -> tuple[dict[str, str], list[str]]:
    """Symbolic links by path, and what is bound at its own path, none inside another."""
    links, wanted = {}, []
    for path in _SYSTEM:
        if os.path.islink(path):
            links[path] = os.readlink(path)
        elif os.path.isdir(path):
            wanted.append(path)
    wanted += [path for path in _CONFIGURATION if os.path.exists(path)]
    wanted += _python_environment()
    wanted += [str(ROOT / name) for name in _OWN_FILES]
    for path in readable:
        absolute = os.path.abspath(path)
        if not os.path.exists(absolute):
            raise SandboxError(f"{absolute} is to be readable in the sandbox and does not exist")
        wanted.append(absolute)
    kept: list[str] = []
    for path in sorted(set(wanted)):
        if not any(path.startswith(folder + "/") for folder in (*kept, *links)):
            kept.append(path)
    return links, kept


def copies(readable: Iterable[str], folder: Path) -> dict[str, str]:
    """Copies of the single files among what is readable, by path.

    A file that is replaced while its old self is mounted (ldconfig does so with /etc/ld.so.cache) can't be
    mounted again, and every later job would lack it.
    """
    folder.mkdir()
    found = {}
    for number, path in enumerate(readable):
        if os.path.isfile(path):
            copy = folder / str(number)
            shutil.copyfile(path, copy)
            copy.chmod(0o555 if os.access(path, os.X_OK) else 0o444)
            found[path] = str(copy)
    return found


def _python_environment() -> list[str]:
    """The folders of this interpreter and its packages, wherever they lie."""
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    paths |= {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    program = sys.executable  # a chain of links, all of which must be there
    while os.path.islink(program):
        paths.add(os.path.dirname(program))
        program = os.path.join(os.path.dirname(program), os.readlink(program))
    paths.add(os.path.dirname(os.path.realpath(program)))
    paths |= set(packages())
    paths |= {os.path.realpath(path) for path in paths}
    return [os.path.normpath(path) for path in paths if path and os.path.isdir(path)]


def packages() -> list[str]:
    """Folders of installed packages that this process imports from."""
    names = ("site-packages", "dist-packages")
    return [path for path in sys.path if os.path.basename(path) in names and os.path.isdir(path)]
