"""The sandbox: with a device file, and without."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grading.grader.sandbox import client, open_sandbox

pytestmark = pytest.mark.proof  # it is the grader that uses it


@pytest.fixture
def device() -> Iterator[Path]:
    """A device file that does nothing, in the place of a GPU's."""
    if os.geteuid() != 0:
        pytest.skip("not run: only root makes device files")
    device = Path(f"/dev/lab-test-{os.getpid()}")
    os.mknod(device, stat.S_IFCHR, os.makedev(1, 3))
    try:
        device.chmod(0o666)
        yield device
    finally:
        device.unlink()


# As the driver names its own; where it cannot, cuInit returns an error.
NAME_A_THREAD = "import os; open(f'/proc/self/task/{os.getpid()}/comm', 'w').write('gpu')"


def test_with_a_device_it_can_be_used(kind, device, tmp_path) -> None:
    """CUDA opens the files of a GPU for reading and writing, and names its threads."""
    with open_sandbox(kind, exchange=tmp_path, devices=[device]) as sandbox:
        text = f"open({str(device)!r}, 'r+b', buffering=0).write(b'x')\n{NAME_A_THREAD}"
        ended = client.run(sandbox.address, [sys.executable, "-c", text], timeout_s=20)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_with_a_device_the_kernel_still_keeps_its_own(kind, device, tmp_path) -> None:
    attack = (Path(__file__).parents[2] / "attacks/proc_back_doors.py").read_text()
    namespace: dict = {}
    exec(attack, namespace)
    text = namespace["SUBMITTED"] + "\nattack('')"
    with open_sandbox(kind, exchange=tmp_path, devices=[device]) as sandbox:
        ended = client.run(sandbox.address, [sys.executable, "-c", text], timeout_s=20)
    assert b"ValueError: nothing" in ended.stderr


def test_without_a_device_nothing_below_proc_can_be_written(kind, tmp_path) -> None:
    with open_sandbox(kind, exchange=tmp_path) as sandbox:
        ended = client.run(sandbox.address, [sys.executable, "-c", NAME_A_THREAD], timeout_s=20)
    assert b"PermissionError" in ended.stderr
