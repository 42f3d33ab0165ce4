"""A Slurm of one node, of Debian's packages slurm-wlm and munge, for tests: no systemd, nothing of the system's.

with OneNodeSlurm(folder) as slurm: ...    # SLURM_CONF of the environment is `slurm.conf`
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "srun", "scancel", "sinfo")
SBIN = "/usr/sbin:/sbin"
READY_S = 300.0

CONFIG = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000,defer_batch
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=86400
KillWait=2
MaxArraySize=2000
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory={memory_mb} State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Unavailable(Exception):
    """There can be no Slurm here; says why."""


class OneNodeSlurm:
    """Starts munged, slurmctld and slurmd, and ends them with the block. Raises Unavailable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "slurm.conf"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        path = os.environ["PATH"] + os.pathsep + SBIN
        missing = [name for name in NEEDED if shutil.which(name, path=path) is None]
        if missing:
            raise Unavailable(f"no {', '.join(missing)}: apt-get install slurm-wlm munge")
        os.environ["PATH"] = path
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill_jobs()
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.environ.pop("SLURM_CONF", None)

    def _start(self) -> None:
        folder = self.folder
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        self.config.write_text(
            CONFIG.format(
                host=socket.gethostname().split(".")[0],
                user=getpass.getuser(),
                folder=folder,
                ports=_free_ports(),
                memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
            )
        )
        os.environ["SLURM_CONF"] = str(self.config)
        files = {"key-file": key, "pid-file": folder / "munged.pid", "seed-file": folder / "seed"}
        files |= {"socket": folder / "munge.socket", "log-file": folder / "munged.log"}
        options = [f"--{name}={file}" for name, file in files.items()]
        self._run("munged", "--foreground", "--force", *options)
        self._wait((folder / "munge.socket").exists, "munged")
        self._run("slurmctld", "-D", "-c", "-f", str(self.config))
        self._run("slurmd", "-D", "-f", str(self.config))
        self._wait(_is_idle, "slurmctld and slurmd")

    def _run(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.out").open("wb") as out:
            self._processes.append(
                subprocess.Popen([name, *arguments], stdout=out, stderr=out, cwd=self.folder)
            )

    def _wait(self, is_ready: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + READY_S
        while not is_ready():
            ended = [process.args for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > until:
                logs = "".join(
                    file.read_text(errors="replace")[-600:]
                    for pattern in ("*.log", "*.out")
                    for file in self.folder.glob(pattern)
                )
                raise Unavailable(f"{what} did not start: {logs[-1500:]}")
            time.sleep(0.05)

    def steps(self) -> list[int]:
        """The processes that run jobs: killing them is what a node's failure looks like."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                environment = (entry / "environ").read_bytes()
                if b"slurmstepd" in words and str(self.config).encode() in environment:
                    found.append(int(entry.name))
        return found

    def kill_jobs(self) -> None:
        """Kill what runs, as the kernel does when memory runs out."""
        for pid in self.steps():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _is_idle() -> bool:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%t"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() in ("idle", "mix", "alloc")


def _free_ports() -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
