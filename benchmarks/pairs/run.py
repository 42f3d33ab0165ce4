"""Time the pairs unprofiled, and record them. Runs on the machine with the GPU.

    run.py time OUT [NAME…]    times of both versions, in turns, and recordings by torch.profiler
    run.py nsys OUT [NAME…]    recordings by Nsight Systems, as SQLite
    run.py ncu OUT             kernels.cu: times of its pairs, and their pages by Nsight Compute

Each version has a process of its own, without the caller's environment; what one imports it imports while another
is timed, but only one at a time has work for the GPU. OUT/times.json is written after each pair.
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
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
from harness import FOLDER, VERSIONS, Pair

RUNS = int(os.environ.get("PAIRS_RUNS", "6"))  # of each version, in turns
REPLY_LIMIT_S = 100.0
AHEAD = int(os.environ.get("PAIRS_AHEAD", "3"))  # pairs whose processes import while one is timed
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

    def __init__(self, pair: Pair, version: str) -> None:
        # Open as long as the process is.
        self.errors = tempfile.TemporaryFile("w+", dir=WORK)  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, str(FOLDER / "worker.py"), pair.name, version, "commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=WORK,
            env=environment(pair, version),
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

    def ask(self, command: str):
        self.input.write(command + "\n")
        self.input.flush()
        answer = json.loads(self.read())
        if isinstance(answer, dict):
            raise RuntimeError(answer["error"])
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def time_pairs(pairs: list[Pair], out: Path) -> None:
    found: dict[str, dict] = {}
    waiting = list(pairs)
    started: list[tuple[Pair, list[Worker]]] = []
    while waiting or started:
        while waiting and len(started) <= AHEAD:
            pair = waiting.pop(0)
            started.append((pair, [Worker(pair, version) for version in VERSIONS]))
        pair, workers = started.pop(0)
        begun = time.perf_counter()
        row: dict = {"times_s": {version: [] for version in VERSIONS}}
        try:
            for worker in workers:
                worker.read()
            for worker in workers:
                worker.ask("build")
            for _ in range(RUNS):
                for version, worker in zip(VERSIONS, workers, strict=True):
                    row["times_s"][version].append(worker.ask("run"))
            if pair.recorder == "kineto":
                for version, worker in zip(VERSIONS, workers, strict=True):
                    if version == "faulty" or pair.both:
                        path = WORK / f"{pair.name}_{version}.json"
                        worker.ask(f"record {path}")
                        keep(path, out)
        except (RuntimeError, TimeoutError, BrokenPipeError, ValueError) as error:
            row["error"] = str(error)[-400:]
        for worker in workers:
            worker.end()
        row["spent_s"] = round(time.perf_counter() - begun, 1)
        found[pair.name] = row
        medians = [sorted(row["times_s"][v] or [0])[len(row["times_s"][v]) // 2] for v in VERSIONS]
        share = 1 - medians[1] / medians[0] if medians[0] else 0
        said = row.get("error", f"{medians[0]:.3f} {medians[1]:.3f} {share:.2f}")
        print(f"{pair.name:32s} {row['spent_s']:5.1f}s {said}", flush=True)
        (out / "times.json").write_text(json.dumps(found, indent=1) + "\n")


def keep(path: Path, out: Path) -> None:
    """The recording, compressed."""
    with path.open("rb") as plain, gzip.open(out / f"{path.name}.gz", "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)
    path.unlink()


def record_by_nsys(pairs: list[Pair], out: Path) -> None:
    lock = WORK / "gpu.lock"
    jobs = [(pair, version) for version in VERSIONS for pair in pairs]
    jobs = [(pair, version) for pair, version in jobs if version == "faulty" or pair.both]
    printing = threading.Lock()

    def one(job: tuple[Pair, str]) -> None:
        pair, version = job
        begun = time.perf_counter()
        name = f"{pair.name}_{version}"
        folder = WORK / name
        folder.mkdir()
        command = [
            str(NSYS[-1]), "profile", "--output=recording", "--sample=none", "--cpuctxsw=none",
            "--trace=cuda,nvtx,osrt", "--capture-range=cudaProfilerApi",
            "--capture-range-end=stop", "--kill=none", sys.executable, str(FOLDER / "worker.py"), pair.name, version, "nsys",
            str(lock),
        ]  # fmt: skip
        last = ""
        try:
            for step in (
                command,
                [str(NSYS[-1]), "export", "--type=sqlite", "--output=recording.sqlite",
                 "recording.nsys-rep"],
            ):  # fmt: skip
                done = subprocess.run(
                    step, cwd=folder, env=environment(pair, version, True), capture_output=True,
                    text=True, timeout=240, check=False,
                )  # fmt: skip
                last = (done.stdout + done.stderr)[-300:]
            made = folder / "recording.sqlite"
            if made.is_file():
                target = WORK / f"{name}.sqlite"
                shutil.move(made, target)
                keep(target, out)
                last = ""
        except subprocess.TimeoutExpired:
            last = "timeout"
        with printing:
            print(f"{name:40s} {time.perf_counter() - begun:5.1f}s {last}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)

    with ThreadPoolExecutor(7) as pool:
        list(pool.map(one, jobs))


def ncu_kernels(out: Path) -> None:
    """Times of the kernels' pairs, and Nsight Compute's page of each kernel."""
    build = ["nvcc", "-O3", "-arch=sm_90", "-o", str(WORK / "kernels"), str(FOLDER / "kernels.cu")]
    subprocess.run(build, check=True)
    shutil.copy(FOLDER / "products.py", WORK)
    programs = {"kernels": ["./kernels"], "products": [sys.executable, "products.py"]}
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
            cwd=WORK, capture_output=True, text=True, timeout=240, check=False,
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
    every = harness.plan()
    names = sys.argv[3:] or list(every)
    pairs = [every[name] for name in names]
    if what == "time":
        time_pairs([pair for pair in pairs if pair.steps], out)
    elif what == "ncu":
        ncu_kernels(out)
    elif what == "nsys":
        record_by_nsys([pair for pair in pairs if pair.recorder == "nsys"], out)


if __name__ == "__main__":
    main()
