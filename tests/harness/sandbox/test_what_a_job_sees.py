"""The sandbox: what a job can see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grading.errors import SandboxError
from grading.grader.sandbox import _ENVIRONMENT
from grading.runner import wire
from tests.harness.sandbox.places import SECRET

pytestmark = pytest.mark.proof  # it is the grader that uses it

ROOT = Path(__file__).resolve().parents[3]


def test_a_job_sees_what_is_readable_and_nothing_else(place):
    ended = place.job(f"""
        import os
        from pathlib import Path
        return [
            Path({str(place.given / "header.h")!r}).read_text(),
            os.listdir({str(place.course)!r}),
            os.listdir({str(place.course / "week")!r}),
            sorted(os.listdir({str(ROOT)!r})),
            [f"{{folder}}/{{file}}" for folder, _, files in os.walk({str(ROOT / "grading")!r}) for file in files],
            [p for p in ("/home", "/var", "/sys", "/run", "/opt", "/etc/shadow") if os.path.exists(p)],
        ]
        """)
    header, course, week, root, grading, others = ended.returned
    assert (header, course, week) == ("given", ["week"], ["given"])
    assert set(root) <= {"grading", "profiling_lab", ".venv"}
    assert {str(Path(file).relative_to(ROOT / "grading")) for file in grading} == {
        "__init__.py",
        "grader/sandbox/kernel.py",
        "grader/sandbox/template.py",
        "runner/hang_guard.py",
        "runner/processors.py",
        "runner/wire.py",
        "runner/learner_side.py",
    }
    assert others == []


def test_of_the_exchange_folder_a_job_sees_its_own_part(place):
    look = f"""
        import os
        folder = {str(place.exchange)!r}
        return [os.listdir(folder), open(folder + "/one/capture").read()] if os.path.exists(folder) else None
        """
    assert place.job(look, visible=[place.exchange / "one"]).returned == [["one"], "of one"]
    assert place.job(look).returned is None
    with pytest.raises(SandboxError, match="does not lie in the exchange folder"):
        place.job(look, visible=[place.course / "solutions"])


def test_what_the_judge_adds_to_the_exchange_folder_later_can_be_read(place):
    process, connection, printed = place.start(
        "def f(path): return open(path).read()", visible=[place.exchange / "two"]
    )
    late = place.exchange / "two" / "late"
    late.mkdir(mode=0o700)
    (late / "file").write_text("came late")
    (late / "file").chmod(0o600)
    connection.send(wire.pack(["call", "f", "f", [str(late / "file")], {}]))
    assert wire.unpack(connection.receive()) == ["return", "came late"]
    connection.stream.close()
    process.wait(20)
    printed.close()


def test_no_process_but_its_own_and_no_environment_but_its_own(place):
    ended = place.job("""
        import os
        seen = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("environ", "cmdline"):
                try:
                    seen[pid + name] = open(f"/proc/{pid}/{name}", "rb").read()
                except OSError:
                    seen[pid + name] = b""
        return [seen, dict(os.environ), os.getpid(), os.getuid()]
        """)
    seen, environment, pid, uid = ended.returned
    assert {name.rstrip("abcdefghijklmnopqrstuvwxyz") for name in seen} == {"1", str(pid)}
    assert uid == 1000
    assert SECRET not in str(seen) + str(environment)
    assert seen[f"{pid}cmdline"]
    assert seen["1environ"] == b""


def test_a_job_computes_where_the_one_who_asks_does(place):
    here = os.sched_getaffinity(0)
    one = {max(here)}
    os.sched_setaffinity(0, one)
    try:
        ended = place.job("import os\nreturn sorted(os.sched_getaffinity(0))")
    finally:
        os.sched_setaffinity(0, here)
    assert ended.returned == sorted(one)


def test_the_first_process_of_a_job_cannot_be_looked_into(place):
    ended = place.job("""
        import os
        got = []
        for name in ("environ", "mem", "maps", "fd", "root", "cwd", "fdinfo", "map_files"):
            try:
                path = f"/proc/1/{name}"
                got.append(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1))
            except OSError:
                pass
        return got
        """)
    assert ended.returned == []


def test_descriptors_are_the_workers_own(place):
    ended = place.job("""
        import os
        return sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(64)
                      if os.path.lexists(f"/proc/self/fd/{n}"))
        """)
    kinds = [name for name in ended.returned if not name.startswith("/proc")]
    outputs = [name for name in kinds if name.endswith("(deleted)")]
    assert sorted(set(kinds) - set(outputs)) == ["/dev/null", "socket"]
    assert kinds.count("socket") == 1
    assert len(outputs) == 4  # stdout, stderr and Python's own copies


def test_a_stub_appears_at_its_own_path_among_the_given_files(place):
    stub = place.given / "stub.cu"
    ended = place.job(
        f"""
        import os
        return [
            sorted(os.listdir({str(place.given)!r})),
            open({str(stub)!r}).read(),
            open({str(place.given / "header.h")!r}).read(),
            open({str(place.given / "deeper/data")!r}).read(),
        ]
        """,
        files={stub: b"submitted", place.given / "header.h": b"replaced"},
    )
    names = ["deeper", "header.h", "stub.cu"]
    assert ended.returned == [names, "submitted", "replaced", "deep"]
    assert (place.given / "header.h").read_text() == "given"
    assert not stub.exists()


def test_the_sandbox_user_has_a_name_for_libraries_that_ask(monkeypatch) -> None:
    import getpass
    import pwd

    def unknown(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises((KeyError, OSError)):
        getpass.getuser()
    for name, value in _ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert getpass.getuser() == "worker"
