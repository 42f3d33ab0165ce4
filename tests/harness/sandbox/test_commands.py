"""The sandbox: commands, and workers that have nothing imported."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from grading.grader.sandbox import Limits, client
from grading.runner import wire
from tests.harness.sandbox.places import SMALL

pytestmark = pytest.mark.proof  # it is the grader that uses it


def test_a_command_gets_files_and_leaves_files(place, tmp_path):
    (tmp_path / "header.h").write_text("copied")
    done = client.run(
        place.sandbox.address,
        ["sh", "-c", f"cat in {tmp_path}/header.h; echo oops >&2; echo out > kept; exit 3"],
        files={"in": b"given "},
        readable=[tmp_path, Path("/usr/bin")],
        environment={"LAB_VARIANT": "1"},
        timeout_s=60,
        keep=["kept", "missing"],
    )
    assert done == client.Completed(3, b"given copied", b"oops\n", {"kept": b"out\n"}, "")


def test_only_plain_files_are_kept(place):
    script = """
        ln -s /etc/passwd link; mkfifo fifo; mkdir folder; echo 1 > plain; ln plain again
        head -c 3000000 /dev/zero > large
        (setsid sh -c 'while :; do echo x >> growing; done' &)
        """
    names = ["link", "fifo", "folder", "plain", "again", "large"]
    done = client.run(
        place.sandbox.address,
        ["sh", "-c", textwrap.dedent(script)],
        timeout_s=60,
        keep=names,
        limits=SMALL,
    )
    assert (done.returncode, done.files) == (0, {"plain": b"1\n", "again": b"1\n"})
    for name in ("../up", "/etc/passwd", "..", ""):
        with pytest.raises(ValueError, match="without a folder"):
            client.run(place.sandbox.address, ["true"], timeout_s=1, keep=[name])


def test_how_a_command_ends(place):
    address = place.sandbox.address

    def ended(argv, **options):
        done = client.run(address, argv, **{"timeout_s": 60, **options})
        return done.returncode, done.cause

    assert ended(["sleep", "60"], timeout_s=0.3) == (-9, "time-out")
    assert ended(["sh", "-c", "kill -SEGV $$"]) == (-11, "")
    assert ended(["yes"], limits=SMALL) == (-9, "oversized output")
    assert ended(["sh", "-c", "while :; do :; done"], limits=Limits(cpu_s=1)) == (-9, "time-out")
    done = client.run(address, ["no-such-program"], timeout_s=60)
    assert (done.returncode, done.stderr) == (127, b"no-such-program: No such file or directory\n")


def test_a_fresh_worker_has_nothing_imported(place):
    text = "import sys\nbefore = sorted(sys.modules)\ndef f(): return [m for m in before if m == 'numpy']"
    for fresh, expected in ((True, []), (False, ["numpy"])):
        process, connection, printed = place.start(text, fresh=fresh)
        connection.send(wire.pack(["call", "f", "f()", [], {}]))
        assert wire.unpack(connection.receive()) == ["return", expected]
        connection.stream.close()
        assert process.wait(20) == 0
        printed.close()
