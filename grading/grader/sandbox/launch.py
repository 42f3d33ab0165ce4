"""Starts a program in namespaces and a file system of its own, where there is no bubblewrap.

    python -I launch.py < settings    a line of JSON: argv, environment, links, readable, devices, stage
    python -I launch.py --try         whether it can be done here: runs /bin/true

It makes what `grading.grader.sandbox` asks bubblewrap for. The program gets the rest of stdin. As under bubblewrap,
pid 1 there is a process that only waits: the first process of a job, in a namespace of its own, is pid 1 as
well, and libraries tell by the pid whether they run in a child (filelock, which torch imports, does).
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn


def main() -> None:
    kernel = _kernel()
    if sys.argv[1:] == ["--try"]:
        settings: dict[str, Any] = {
            "argv": ["/bin/true"],
            "environment": {},
            "stage": "/tmp",
            "links": {},
        }
        settings |= {"devices": [], "readable": {}}
        paths = ("/usr", "/bin", "/lib", "/lib64")
        settings["links"] = {path: os.readlink(path) for path in paths if os.path.islink(path)}
        folders = [p for p in paths if os.path.isdir(p) and not os.path.islink(p)]
        settings["readable"] = dict(zip(folders, folders, strict=True))
    else:
        settings = json.loads(os.fsdecode(_line()))
    uid, gid = os.getuid(), os.getgid()
    kernel.die_with_parent()
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
    flags |= kernel.CLONE_NEWUTS | kernel.CLONE_NEWCGROUP
    if uid == 0:
        kernel.unshare(flags)
    else:
        kernel.unshare(flags | kernel.CLONE_NEWUSER)
        kernel.map_user(uid, uid, gid)
    child = os.fork()
    if child == 0:
        try:
            kernel.die_with_parent()
            _build_root(kernel, settings)
            program = os.fork()
            if program:
                _end_with(program)
            os.setsid()
            os.execve(settings["argv"][0], settings["argv"], settings["environment"])
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        os._exit(70)
    _end_with(child)


def _end_with(child: int) -> NoReturn:
    """Wait for a process, and for what is orphaned here, and end as it did."""
    os.close(0)
    os.closerange(3, 2**16)  # the program's end must be seen by who holds the other ends
    ended, status = 0, 0
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 + abs(code))


def _kernel() -> ModuleType:
    # By its path: a sandbox's settings are read before anything of the package is imported.
    file = Path(__file__).with_name("kernel.py")
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _line() -> bytes:
    line = b""
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line


def _build_root(kernel: Any, settings: dict[str, Any]) -> None:
    os.umask(0o022)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    root = Path(settings["stage"])
    inside = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", str(root), "tmpfs", inside, "size=4m,mode=755")
    for name in ("dev", "job", "proc", "tmp"):
        (root / name).mkdir()
    kernel.mount("tmpfs", str(root / "tmp"), "tmpfs", inside, "size=64m,mode=1777")
    for path, target in settings["links"].items():
        os.symlink(target, root / path[1:])
    devices = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
    own = {path: path for path in (*devices, *settings["devices"])}
    for path, source in (settings["readable"] | own).items():
        target = root / path[1:]
        if os.path.isdir(source):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        kernel.mount(source, str(target), flags=kernel.MS_BIND | kernel.MS_REC)
    kernel.make_read_only(str(root))
    # Libraries make folders there when they are imported; no job sees it.
    kernel.mount("none", str(root / "tmp"), flags=kernel.MS_REMOUNT | kernel.MS_BIND | inside)
    flags = inside | kernel.MS_NOEXEC
    kernel.mount("proc", str(root / "proc"), "proc", flags)
    kernel.enter_root(str(root))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    main()
