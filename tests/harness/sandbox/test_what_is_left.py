"""The sandbox: nothing of a job is left behind."""

from __future__ import annotations

import os
import textwrap

import pytest

from grading.grader.sandbox import Limits
from grading.runner import wire
from tests.harness.sandbox.places import eventually

pytestmark = pytest.mark.proof  # it is the grader that uses it


def test_a_job_leaves_no_process(place):
    before = place.processes()
    process, connection, printed = place.start("""
        import os, threading, time
        def f():
            threading.Thread(target=time.sleep, args=(60,)).start()
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(60)
                os._exit(0)
            return 1
        """)
    connection.send(wire.pack(["call", "f", "f()", [], {}]))
    connection.receive()
    assert len(place.processes() - before) >= 3
    connection.stream.close()
    assert process.wait(20) == 0
    assert place.processes() <= before
    printed.close()


@pytest.mark.parametrize("how", ["kill", "forget"])
def test_a_job_ends_with_its_requester(place, how):
    before = place.processes()
    process, connection, printed = place.start("import time\ndef f(): time.sleep(60)")
    connection.send(wire.pack(["call", "f", "f()", [], {}]))
    if how == "kill":
        process.kill()
        assert (process.wait(20), process.cause) == (-9, "")
        process.kill()  # once more does no harm
    else:
        del process
    assert eventually(lambda: place.processes() <= before)
    connection.stream.close()
    printed.close()


def test_jobs_have_no_files_in_common(place):
    leave = """
        import os
        found = [os.listdir(folder) for folder in ("/tmp", "/dev/shm", "/box")]
        for folder in ("/tmp", "/dev/shm", "/box"):
            open(folder + "/left", "w").close()
        return found
        """
    first, second = place.job(leave).returned, place.job(leave).returned
    assert first == second
    assert "left" not in str(first)


SEARCH = """
    import re
    found = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            if rights[0] == "r" and "[v" not in line:
                start, end = (int(n, 16) for n in span.split("-"))
                try:
                    memory.seek(start)
                    text = memory.read(end - start)
                except (OSError, OverflowError, ValueError):
                    continue
                found |= set(re.findall(rb"MARK-[0-9a-f]{16}", text))
    return sorted(found)
    """


def test_a_job_finds_nothing_of_former_jobs_in_its_memory(place):
    former, own = os.urandom(8).hex(), os.urandom(8).hex()
    limits = Limits(box_bytes=8 * 2**20)
    place.job("return len(open('/box/mark').read())", files={"mark": f"MARK-{former}".encode() * 9})
    ended = place.job(f"own = 'MARK-' + '{own}'\n" + textwrap.dedent(SEARCH), limits=limits)
    assert ended.returned == [f"MARK-{own}".encode()]


def test_jobs_draw_different_numbers_unless_they_have_the_same_seed(place):
    draw = "import random, numpy\nreturn [random.random(), numpy.random.rand()]"
    a, b, c, d = (place.job(draw, seed=seed).returned for seed in (None, None, 3, 3))
    assert a[0] != b[0]
    assert a[1] != b[1]
    assert c == d
