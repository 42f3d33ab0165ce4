"""Run a workload on a GPU, sample its power, and write everything down as `energy.json`.

    python energy_benchmark.py --seconds 5                              # work for a set time
    python energy_benchmark.py --calls 2000 --work copy                 # a set amount of work
    python energy_benchmark.py --scenario trace                         # idle, load, short bursts
    python energy_benchmark.py --scenario sweep --size 4096             # precision and batch
    python energy_benchmark.py --scenario pacing                        # the same work, fast or paced

A thread asks NVML for power, the energy counter, clock, temperature and the reasons that hold the
clock down. It only reads: no clock, limit or mode is changed. Without a GPU, or with `--cpu`, the
work runs on the CPU, smaller, and the file holds no power.

The file: `device`; `phases`, each with its name, start and end (ns since the sampling began, the work
is done at the end), its calls, operations and bytes, and the energy counter read at both ends (mJ);
`samples`, columns of equal length, each row read at `time_ns`. A value that the device does not offer
is null in every row, and `unsupported` names it with NVML's own error.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

# Field identifiers of nvml.h (NVML_FI_DEV_...): power over the last second, and as of now.
POWER_AVERAGE, POWER_INSTANT = 185, 186
CLOCK_SM, CLOCK_MEMORY = 1, 2
CHUNK_S = (
    0.005  # work is issued in pieces of about this long, two at a time: the queue never empties
)
PRECISIONS = ("float32", "tf32", "bfloat16")
SWEEP_BATCHES = (16, 128, 1024, 8192)
SWEEP_SECONDS, SWEEP_REPEATS = 0.6, 3
PACING_WALL_S, PACING_PERIODS_S, PACING_REPEATS = 3.0, (0.1, 0.01), 2


class NvmlError(RuntimeError):
    """A call of NVML failed; the message is NVML's own."""


class _FieldValue(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint32),
        ("scope", ctypes.c_uint32),
        ("timestamp", ctypes.c_int64),
        ("latency_us", ctypes.c_int64),
        ("kind", ctypes.c_uint32),
        ("result", ctypes.c_uint32),
        ("value", ctypes.c_uint64),
    )


class Nvml:
    """The readings of one GPU. The driver brings the library; pynvml has the same functions."""

    def __init__(self, uuid: str) -> None:
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise NvmlError(
                f"NVML cannot be loaded ({error}): is there an NVIDIA driver?"
            ) from None
        self._call("nvmlInit_v2")
        self.handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self.handle))

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self.library, name)(*arguments)
        if result:
            self.library.nvmlErrorString.restype = ctypes.c_char_p
            raise NvmlError(f"{name}: {self.library.nvmlErrorString(result).decode()}")

    def _number(self, name: str, *arguments: int, kind: Any = ctypes.c_uint) -> int:
        value = kind()
        self._call(name, self.handle, *arguments, ctypes.byref(value))
        return value.value

    def _field(self, field: int) -> int:
        entry = _FieldValue(field=field)
        self._call("nvmlDeviceGetFieldValues", self.handle, 1, ctypes.byref(entry))
        if entry.result:
            raise NvmlError(f"field {field}: {self.library.nvmlErrorString(entry.result).decode()}")
        return entry.value & 0xFFFFFFFF

    def energy_mj(self) -> int:
        """Energy since the driver was loaded."""
        name = "nvmlDeviceGetTotalEnergyConsumption"
        return self._number(name, kind=ctypes.c_ulonglong)

    def power_limit_w(self) -> float:
        """The limit in force."""
        return self._number("nvmlDeviceGetEnforcedPowerLimit") / 1e3

    def highest_clock_mhz(self) -> int:
        """The highest clock of the SMs that the device offers."""
        return self._number("nvmlDeviceGetMaxClockInfo", CLOCK_SM)

    def readings(self) -> dict[str, Callable[[], int]]:
        """What a row of samples holds, by column."""
        return {
            "usage_mw": lambda: self._number("nvmlDeviceGetPowerUsage"),
            "instant_mw": lambda: self._field(POWER_INSTANT),
            "average_mw": lambda: self._field(POWER_AVERAGE),
            "energy_mj": self.energy_mj,
            "sm_clock_mhz": lambda: self._number("nvmlDeviceGetClockInfo", CLOCK_SM),
            "temperature_c": lambda: self._number("nvmlDeviceGetTemperature", 0),
            "reasons": lambda: self._number(
                "nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong
            ),
        }


class Sampler:
    """A thread that reads every column again and again. Without NVML it does nothing."""

    def __init__(self, nvml: Nvml | None, interval_s: float) -> None:
        self.nvml, self.interval_s = nvml, interval_s
        self.columns: dict[str, list[int | None]] = {"time_ns": []}
        self.unsupported: dict[str, str] = {}
        self.failure = ""
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.start_ns = 0
        self.readings: dict[str, Callable[[], int]] = {}

    def now_ns(self) -> int:
        """Whole microseconds since sampling began, in ns."""
        return (time.perf_counter_ns() - self.start_ns) // 1000 * 1000

    def energy_mj(self) -> int | None:
        """The counter, read now; None where there is none."""
        return self.readings["energy_mj"]() if "energy_mj" in self.readings else None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs."""
        if self.nvml is not None:
            for name, read in self.nvml.readings().items():
                self.columns[name] = []
                try:
                    read()
                    self.readings[name] = read
                except NvmlError as error:
                    self.unsupported[name] = str(error)
        self.start_ns = time.perf_counter_ns()
        if self.readings:
            self.thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            if self.readings:
                self.thread.join()

    def _run(self) -> None:
        due = time.perf_counter()
        try:
            while not self.stopping.is_set():
                row: dict[str, int | None] = {"time_ns": self.now_ns()}
                for name, read in self.readings.items():
                    row[name] = read()
                for name, column in self.columns.items():
                    column.append(row.get(name))
                due = max(due + self.interval_s, time.perf_counter())
                time.sleep(max(0.0, due - time.perf_counter()))
        except NvmlError as error:  # what was read so far is kept
            self.failure = str(error)


@dataclass
class Phase:
    """A part of the run. energy_*_mj: the counter, None where there is none."""

    name: str
    start_ns: int
    end_ns: int
    calls: int
    flop: int
    bytes: int
    energy_start_mj: int | None
    energy_end_mj: int | None
    repeat: int = 0
    precision: str = ""
    batch: int = 0


@dataclass
class Work:
    """Calls that can be issued one after the other. flop, bytes: of one call."""

    call: Callable[[], object]
    flop: int
    bytes: int
    call_s: float = 0.0

    def measure(self, wait: Callable[[], None]) -> Work:
        """Warm up, and find how long a call takes."""
        self.call()
        wait()
        times = []
        for _ in range(3):
            count, start = 0, time.perf_counter()
            while count < 3 or time.perf_counter() - start < 0.02:
                self.call()
                count += 1
                if count % 32 == 0:
                    wait()
            wait()
            times.append((time.perf_counter() - start) / count)
        self.call_s = statistics.median(times)
        return self


class Runner:
    """Runs phases on a device, and notes them."""

    def __init__(self, device: torch.device, sampler: Sampler) -> None:
        self.device, self.sampler = device, sampler
        self.on_gpu = device.type == "cuda"
        self.phases: list[Phase] = []

    def wait(self) -> None:
        """Until the device has done everything."""
        if self.on_gpu:
            torch.cuda.synchronize()

    @contextmanager
    def phase(self, name: str, work: Work | None = None, **more: Any) -> Iterator[list[int]]:
        """Note what the block did: it adds the calls that it made to the list."""
        self.wait()
        energy, start, calls = self.sampler.energy_mj(), self.sampler.now_ns(), [0]
        yield calls
        self.wait()
        end, energy_end = self.sampler.now_ns(), self.sampler.energy_mj()
        flop, moved = (work.flop, work.bytes) if work else (0, 0)
        made = calls[0]
        self.phases.append(
            Phase(name, start, end, made, made * flop, made * moved, energy, energy_end, **more)
        )

    def issue(self, work: Work, count: int | None = None, seconds: float = 0.0) -> int:
        """Make `count` calls, or calls for that long, with the queue never empty; returns how many."""
        piece = max(1, round(CHUNK_S / work.call_s))
        made, end, waiting = 0, time.perf_counter() + seconds, []
        while made < count if count is not None else time.perf_counter() < end:
            now = piece if count is None else min(piece, count - made)
            for _ in range(now):
                work.call()
            made += now
            if self.on_gpu:
                event = torch.cuda.Event()
                event.record()
                waiting.append(event)
                if len(waiting) > 1:
                    waiting.pop(0).synchronize()
        self.wait()
        return made

    def idle(self, seconds: float, name: str = "idle") -> None:
        """Do nothing."""
        with self.phase(name):
            time.sleep(seconds)

    def steady(self, work: Work, name: str, seconds: float, **more: Any) -> None:
        """Work for a set time."""
        with self.phase(name, work, **more) as calls:
            calls[0] += self.issue(work, seconds=seconds)


def make_work(kind: str, precision: str, size: int, device: torch.device) -> Work:
    """A square matrix product of random numbers, or a copy of as many bytes as three such matrices."""
    torch.manual_seed(0)
    if kind == "copy":
        count = 3 * size * size
        source = torch.randn(count, device=device)
        target = torch.empty_like(source)
        return Work(lambda: target.copy_(source), 0, 2 * count * source.element_size())
    dtype = _set_precision(precision)
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty(size, size, device=device, dtype=dtype)
    moved = 3 * size * size * out.element_size()
    return Work(lambda: torch.mm(left, right, out=out), 2 * size**3, moved)


def _set_precision(precision: str) -> torch.dtype:
    """The data type of this name; whether the tensor cores may round float32 to tf32 is set."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def trace(runner: Runner, work: Work) -> None:
    """Idle, load, idle; bursts that get shorter; work that comes and goes faster than a sensor looks."""
    runner.idle(1.5)
    runner.steady(work, "steady", 3.0)
    runner.idle(2.0)
    for milliseconds in (400, 100, 25):
        runner.steady(work, f"burst_{milliseconds}ms", milliseconds / 1e3)
        runner.idle(1.2)
    with runner.phase("train_20ms", work) as calls:
        start = time.perf_counter()
        for turn in range(50):
            calls[0] += runner.issue(work, seconds=0.02)
            time.sleep(max(0.0, start + 0.04 * (turn + 1) - time.perf_counter()))
    runner.idle(1.0)


def sweep(runner: Runner, size: int) -> dict[str, float]:
    """Layers of one width at several precisions and batches; returns the error of each precision."""
    torch.manual_seed(0)
    weights = torch.randn(size, size, device=runner.device) / size**0.5
    batches = SWEEP_BATCHES if runner.on_gpu else SWEEP_BATCHES[:2]
    seconds = SWEEP_SECONDS if runner.on_gpu else 0.05
    rows = torch.randn(max(batches), size, device=runner.device)
    kinds = [(precision, batch) for precision in PRECISIONS for batch in batches]
    jobs, errors = {}, {}
    exact = rows[:64].double() @ weights.double()
    for precision, batch in kinds:
        dtype = _set_precision(precision)
        left, right = rows[:batch].to(dtype), weights.to(dtype)
        out = torch.empty(batch, size, device=runner.device, dtype=dtype)
        off = (left[:64] @ right).double() - exact[:batch]
        errors[precision] = float(off.norm() / exact[:batch].norm())
        moved = (left.numel() + right.numel() + out.numel()) * out.element_size()

        def call(left: Any = left, right: Any = right, out: Any = out) -> object:
            return torch.mm(left, right, out=out)

        flop = 2 * batch * size * size
        jobs[precision, batch] = Work(call, flop, moved).measure(runner.wait)
    runner.idle(1.0)
    for repeat in range(SWEEP_REPEATS):
        for precision, batch in kinds:
            _set_precision(precision)
            more = {"repeat": repeat, "precision": precision, "batch": batch}
            runner.steady(jobs[precision, batch], "work", seconds, **more)
    runner.idle(1.0)
    return errors


def pacing(runner: Runner, work: Work) -> None:
    """The same work within the same wall time: at once and then nothing, or in pieces with pauses."""
    wall_s = PACING_WALL_S if runner.on_gpu else 0.2
    calls_in_all = max(1, round(wall_s / 2 / work.call_s))
    runner.idle(1.0)
    for repeat in range(PACING_REPEATS):
        start = time.perf_counter()
        with runner.phase("race_work", work, repeat=repeat) as calls:
            calls[0] += runner.issue(work, calls_in_all)
        with runner.phase("race_idle", repeat=repeat):
            time.sleep(max(0.0, start + wall_s - time.perf_counter()))
        for period_s in PACING_PERIODS_S:
            turns = round(wall_s / period_s)
            name = f"paced_{round(period_s * 1e3)}ms"
            with runner.phase(name, work, repeat=repeat) as calls:
                start = time.perf_counter()
                for turn in range(1, turns + 1):
                    due = calls_in_all * turn // turns
                    calls[0] += runner.issue(work, due - calls[0])
                    time.sleep(max(0.0, start + period_s * turn - time.perf_counter()))
    runner.idle(1.0)


def main() -> None:
    """Read the arguments, run, write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenario", choices=("once", "trace", "sweep", "pacing"), default="once")
    parser.add_argument("--work", choices=("matmul", "copy"), default="matmul")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of a matrix")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--seconds", type=float, default=5.0, help="how long to work (once)")
    amount.add_argument("--calls", type=int, help="how much to work (once)")
    parser.add_argument("--interval-ms", type=float, default=5.0, help="between samples")
    parser.add_argument("--out", type=Path, default=Path("energy.json"))
    parser.add_argument("--cpu", action="store_true", help="do without a GPU")
    arguments = parser.parse_args()
    if min(arguments.size, arguments.seconds, arguments.interval_ms) <= 0:
        parser.error("size, seconds and interval must be above 0")

    on_gpu = torch.cuda.is_available() and not arguments.cpu
    device = torch.device("cuda" if on_gpu else "cpu")
    size = arguments.size if on_gpu else min(arguments.size, 256)
    described: dict[str, Any] = {"name": platform.machine(), "power_limit_w": None}
    nvml = None
    if on_gpu:
        properties = torch.cuda.get_device_properties(device)
        described["name"] = properties.name
        try:
            nvml = Nvml(f"GPU-{properties.uuid}")
            described["power_limit_w"] = nvml.power_limit_w()
            described["highest_sm_clock_mhz"] = nvml.highest_clock_mhz()
        except NvmlError as error:
            print(f"No power: {error}. The work runs and is timed without it.")
    else:
        print("No GPU is used: the work runs on the CPU, smaller, and no power is measured.")

    sampler = Sampler(nvml, arguments.interval_ms / 1e3)
    runner = Runner(device, sampler)
    errors: dict[str, float] = {}
    work = None
    if arguments.scenario != "sweep":
        work = make_work(arguments.work, arguments.precision, size, device).measure(runner.wait)
    with sampler.running():
        if work is None:
            errors = sweep(runner, size)
        elif arguments.scenario == "trace":
            trace(runner, work)
        elif arguments.scenario == "pacing":
            pacing(runner, work)
        else:
            with runner.phase("work", work) as calls:
                calls[0] += runner.issue(work, arguments.calls, arguments.seconds)
    if sampler.failure:
        print(f"Sampling ended early: {sampler.failure}. What was read so far is kept.")

    result = {
        "device": described,
        "torch": torch.__version__,
        "scenario": arguments.scenario,
        "work": arguments.work if work else "matmul",
        "precision": arguments.precision if work else "",
        "size": size,
        "interval_ms": arguments.interval_ms,
        "unsupported": sampler.unsupported,
        "error_ratio": errors,
        "phases": [asdict(phase) for phase in runner.phases],
        "samples": sampler.columns,
    }
    arguments.out.write_text(json.dumps(result, separators=(",", ":")) + "\n", encoding="utf-8")
    busy = [phase for phase in runner.phases if phase.calls]
    report = {
        "samples": len(sampler.columns["time_ns"]),
        "phases": len(runner.phases),
        "calls": sum(phase.calls for phase in busy),
    }
    if nvml is not None and all(p.energy_end_mj is not None for p in busy):
        used = sum((p.energy_end_mj or 0) - (p.energy_start_mj or 0) for p in busy)
        took_ns = sum(p.end_ns - p.start_ns for p in busy)
        report |= {"work_j": round(used / 1e3, 1), "work_w": round(used * 1e6 / took_ns, 1)}
    print("RESULT", json.dumps(report))


if __name__ == "__main__":
    main()
