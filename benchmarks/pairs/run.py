"""Time the pairs unprofiled, and record them. Runs on the machine with the GPU.

    run.py time OUT [NAME…]    times of both versions, in turns, and recordings by torch.profiler
    run.py nsys OUT [NAME…]    recordings by Nsight Systems, as SQLite
    run.py both OUT [NAME…]    times, and right after those of a pair its recording, by whichever recorder is its own
    run.py again OUT NAME…     times alone, twenty runs of each version, as OUT/times_again.json
    run.py ncu OUT [NAME…]     kernels*.cu, products.py: times of their pairs, and their pages by Nsight Compute

Each version has a process of its own, without the caller's environment. The processes of a group of pairs import
and build together; then one at a time runs or is recorded while the others sleep: a busy machine makes the host's
part of a recording longer. OUT/times.json is written after each pair.
"""

from __future__ import annotations

import gzip
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
from harness import FOLDER, VERSIONS, Pair

RUNS = int(os.environ.get("PAIRS_RUNS", "6"))  # of each version, in turns
RUNS_AGAIN = 20  # of a pair whose single runs spread
REPLY_LIMIT_S = 100.0
# Of a program that records itself, more recordings of the same version: by how much do verdicts differ?
AGAIN = int(os.environ.get("PAIRS_AGAIN", "0"))
GROUP = int(os.environ.get("PAIRS_GROUP", "6"))  # pairs, or recordings, that are built together
WORK = Path("/tmp/lab-pairs")
NSYS = sorted(Path("/opt/nvidia").glob("nsight-compute/*/host/target-linux-x64/nsys"))


def environment(pair: Pair, version: str, recorded: bool = False) -> dict[str, str]:
    more = pair.environment if version == "faulty" else {}
    if not recorded:
        return {**os.environ, "HOME": str(WORK), "OMP_NUM_THREADS": "8", **more}
    path = f"{Path(sys.executable).parent}:/usr/local/cuda/bin:/usr/bin:/bin"
    kept = {k: os.environ[k] for k in ("PYTHONPATH", "LD_LIBRARY_PATH") if k in os.environ}
    fixed = {"LANG": "C.UTF-8", "OMP_NUM_THREADS": "8", "NCCL_NVLS_ENABLE": "0"}
    return {"PATH": path, "HOME": str(WORK), **kept, **fixed, **more}


class Worker:
    """A process with one version; see worker.py."""

    def __init__(self, pair: Pair, version: str, rank: int) -> None:
        self.failed = ""
        own = environment(pair, version)
        if pair.ranks > 1:
            port = 29600 + 2 * list(harness.plan()).index(pair.name) + VERSIONS.index(version)
            own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            own |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(pair.ranks)}
        # Open as long as the process is.
        self.errors = tempfile.TemporaryFile("w+", dir=WORK)  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, str(FOLDER / "worker.py"), pair.name, version, "commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=WORK,
            env=own,
        )
        assert self.process.stdin and self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout

    def read(self) -> str:
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            if not selector.select(REPLY_LIMIT_S):
                raise TimeoutError("no answer")
        line = self.output.readline()
        if not line:
            self.errors.seek(0)
            raise RuntimeError(f"ended: {self.errors.read()[-400:]}")
        return line

    def try_to(self, command: str) -> None:
        """Send a command without waiting for its answer; "" waits for the process to be ready."""
        try:
            if command:
                self.input.write(command + "\n")
                self.input.flush()
            else:
                self.read()
        except (RuntimeError, TimeoutError, OSError) as error:
            self.failed = str(error)

    def answer(self, command: str):
        if self.failed:
            raise RuntimeError(f"{command}: {self.failed}")
        answer = json.loads(self.read())
        if isinstance(answer, dict):
            raise RuntimeError(answer["error"])
        return answer

    def hear(self) -> None:
        """Wait for the answer to what was tried; what failed is told by the next command."""
        try:
            self.answer("build")
        except (RuntimeError, TimeoutError, ValueError, OSError) as error:
            self.failed = str(error)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Job:
    """The processes of one version, one a rank; a run takes as long as its slowest one."""

    def __init__(self, pair: Pair, version: str) -> None:
        self.ranks = [Worker(pair, version, rank) for rank in range(pair.ranks)]

    def try_to(self, command: str) -> None:
        for worker in self.ranks:
            worker.try_to(command)

    def answer(self, command: str):
        return max(worker.answer(command) for worker in self.ranks)

    def ask(self, command: str):
        self.try_to(command)
        return self.answer(command)

    def end(self) -> None:
        for worker in self.ranks:
            worker.end()


def device() -> str:
    if not shutil.which("nvidia-smi"):
        return ""
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return (told.stdout.splitlines() or [""])[0]


def time_pairs(pairs: list[Pair], out: Path, record: bool = False, again: bool = False) -> None:
    """Times of each pair, and its recording: by Nsight Systems with `record` only; or `again` its times alone."""
    found: dict[str, dict] = {}
    runs, name = RUNS_AGAIN if again else RUNS, device()
    file = out / ("times_again.json" if again else "times.json")
    for first in range(0, len(pairs), GROUP):
        group = [
            (pair, [Job(pair, version) for version in pair.versions])
            for pair in pairs[first : first + GROUP]
        ]
        own = [pair for pair, _ in group if record and pair.recorder == "nsys"]
        started = {pair.name: start_nsys(pair, "faulty") for pair in own}
        every = [worker for _, workers in group for worker in workers]
        for what in ("", "build"):
            for worker in every:
                worker.try_to(what)
        # Nothing is timed while anything is built: that takes the host's cores and the device's time.
        for worker in (worker for job in every for worker in job.ranks):
            worker.hear()
        for _, folder in started.values():
            wait_for(folder / "built", 100)
        for pair, workers in group:
            begun = time.perf_counter()
            row = found[pair.name] = time_pair(pair, workers, out, runs, not again)
            row["device"] = name if pair.ranks == 1 else f"{pair.ranks} x {name}"
            if pair.name in started:
                (started[pair.name][1] / "go").touch()
                wait_for(started[pair.name][1] / "recorded", 60)
            row["spent_s"] = round(time.perf_counter() - begun, 1)
            times = row["times_s"]
            medians = [sorted(times[v] or [0])[len(times[v]) // 2] for v in VERSIONS]
            share = 1 - medians[1] / medians[0] if medians[0] else 0
            said = row.get("error", f"{medians[0]:.3f} {medians[1]:.3f} {share:.2f}")
            print(f"{pair.name:32s} {row['spent_s']:5.1f}s {said}", flush=True)
            file.write_text(json.dumps(found, indent=1) + "\n")
        for _, folder in started.values():
            (folder / "leave").touch()
        with ThreadPoolExecutor(GROUP) as pool:
            list(pool.map(lambda job: export_nsys(job[0], job[1], out), started.values()))


def time_pair(pair: Pair, workers: list[Job], out: Path, runs: int, record: bool) -> dict:
    row: dict = {"times_s": {version: [] for version in VERSIONS}}
    try:
        for _ in range(runs if pair.fix else 1):
            for version, worker in zip(pair.versions, workers, strict=True):
                row["times_s"][version].append(worker.ask("run"))
        if record and pair.recorder == "kineto":
            for version, worker in zip(pair.versions, workers, strict=True):
                if version == "faulty" or pair.both:
                    several = pair.ranks > 1
                    name = f"{pair.name}_{version}" + ("/trace_rankRANK" if several else "")
                    path = WORK / f"{name}.json"
                    path.parent.mkdir(exist_ok=True)
                    worker.ask(f"record {path}")
                    for rank in range(pair.ranks):
                        keep(Path(str(path).replace("RANK", str(rank))), out)
                    for more in range(AGAIN if pair.fix else 0):
                        again = str(path).replace(f"_{version}", f"_again{more}")
                        Path(again).parent.mkdir(exist_ok=True)
                        worker.ask(f"record {again}")
                        for rank in range(pair.ranks):
                            keep(Path(again.replace("RANK", str(rank))), out)
    except (RuntimeError, TimeoutError, BrokenPipeError, ValueError, OSError) as error:
        row["error"] = str(error)[-400:]
    for worker in workers:
        worker.end()
    return row


def keep(path: Path, out: Path) -> None:
    """The recording, compressed."""
    target = out / path.relative_to(WORK)
    target.parent.mkdir(exist_ok=True)
    with path.open("rb") as plain, gzip.open(f"{target}.gz", "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)
    path.unlink()


def record_by_nsys(pairs: list[Pair], out: Path) -> None:
    jobs = [(pair, version) for version in VERSIONS for pair in pairs if version in pair.versions]
    jobs = [(pair, version) for pair, version in jobs if version == "faulty" or pair.both]
    for first in range(0, len(jobs), GROUP):
        started = [start_nsys(*job) for job in jobs[first : first + GROUP]]
        built = [wait_for(folder / "built", 100) for _, folder in started]
        for (_, folder), ready in zip(started, built, strict=True):
            if ready:
                (folder / "go").touch()
                wait_for(folder / "recorded", 60)
        for _, folder in started:
            (folder / "go").touch()
            (folder / "leave").touch()
        with ThreadPoolExecutor(GROUP) as pool:
            list(pool.map(lambda job: export_nsys(job[0], job[1], out), started))


def wait_for(file: Path, limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.05)
    return file.exists()


def start_nsys(pair: Pair, version: str) -> tuple[subprocess.Popen, Path]:
    folder = WORK / f"{pair.name}_{version}"
    folder.mkdir()
    command = [
        str(NSYS[-1]), "profile", "--output=recording", "--sample=none", "--cpuctxsw=none",
        "--trace=cuda,nvtx,osrt", "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop", "--kill=none", sys.executable, str(FOLDER / "worker.py"), pair.name, version, "nsys",
        str(folder),
    ]  # fmt: skip
    errors = (folder / "errors").open("w")
    return subprocess.Popen(
        command, cwd=folder, env=environment(pair, version, True), stdout=errors, stderr=errors
    ), folder


def export_nsys(process: subprocess.Popen, folder: Path, out: Path) -> None:
    last = ""
    try:
        process.wait(90)
        subprocess.run(
            [str(NSYS[-1]), "export", "--type=sqlite", "--output=recording.sqlite", "recording.nsys-rep"],
            cwd=folder, capture_output=True, timeout=90, check=False,
        )  # fmt: skip
        made = folder / "recording.sqlite"
        if made.is_file():
            target = WORK / f"{folder.name}.sqlite"
            shutil.move(made, target)
            keep(target, out)
            last = next(
                (t for t in (folder / "errors").read_text().splitlines() if " steps before" in t),
                "",
            )
        else:
            last = (folder / "errors").read_text()[-400:]
    except subprocess.TimeoutExpired:
        last = "timeout"
        process.kill()
    print(f"{folder.name:40s} {last}", flush=True)


def ncu_kernels(out: Path, names: list[str]) -> None:
    """Times of the kernels' pairs, and Nsight Compute's page of each kernel."""
    shutil.copy(FOLDER / "products.py", WORK)
    programs = {}
    for name in names or ["kernels", "kernels_second", "products"]:
        programs[name] = [sys.executable, "products.py"] if name == "products" else [f"./{name}"]
        source = FOLDER / f"{name}.cu"
        if source.exists():
            build = ["nvcc", "-O3", "-arch=sm_90", "-o", str(WORK / name), str(source)]
            subprocess.run(build, check=True)
    times: dict[str, dict] = {}
    for name, program in programs.items():
        done = subprocess.run(program, cwd=WORK, capture_output=True, text=True, check=False)
        print(done.stdout[-1500:], done.stderr[-500:], flush=True)
        times |= json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
        (out / "kernel_times.json").write_text(json.dumps(times, indent=1) + "\n")
        ncu = sorted(Path("/opt/nvidia").glob("nsight-compute/*/ncu"))[-1]
        made = subprocess.run(
            [str(ncu), "--clock-control", "none", "--profile-from-start", "off", "--set", "full",
             "--page", "raw", "--csv", *program, "--once"],
            cwd=WORK, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        lines = made.stdout.splitlines()
        first = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
        page = gzip.compress("\n".join(lines[first:]).encode())
        (out / f"{name}.csv.gz").write_bytes(page)
        print(name, len(lines) - first - 2, "kernels", made.stderr[-300:], flush=True)


def main() -> None:
    what, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    names = sys.argv[3:]
    if what == "ncu":
        ncu_kernels(out, names)
        return
    every = harness.plan()
    pairs = [every[name] for name in names or every]
    if what == "time":
        time_pairs([pair for pair in pairs if pair.fix or pair.recorder == "kineto"], out)
    elif what == "both":
        time_pairs(pairs, out, record=True)
    elif what == "again":
        time_pairs([pair for pair in pairs if pair.fix], out, again=True)
    elif what == "nsys":
        record_by_nsys([pair for pair in pairs if pair.recorder == "nsys"], out)


if __name__ == "__main__":
    main()
