"""Checks of improved.cu.

Without a GPU the source is compiled by nvcc and linked to a recording stand-in for the CUDA runtime
(grading/checks/cuda): what its host code issues is judged. With `--live` it also runs.
"""

from __future__ import annotations

import math
import random
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import fail
from grading.checks.cuda import on_gpu, runs, toolchain
from grading.checks.cuda.recording import run_on_stand_in
from grading.checks.cuda.schedule import FLOAT_BYTES, Access, Label, Operation, Piece, Schedule
from grading.checks.cuda.simulation import Costs, simulate

# A program whose host runs ahead takes 1.0 to 1.1 times what its kernels take, one that prepares all tables
# first 1.2 times; one wait a step costs 1.27 times or more.
LONGEST_RATIO = 1.25
SMALLEST_SPEEDUP = 1.5
FEWEST_BLOCKS = (
    64  # of a kernel on 20 000 particles or more; the course's devices have over 100 SMs
)
ZERO = "a memset wrote there"  # what Schedule says of such bytes
MOVED = {"position": "positions", "velocity": "velocities"}  # what drift and kick leave there
KERNELS = ("kick", "drift", "energy", "total")
SUM_BYTES = 8


class Steps(Schedule):
    """What a run issued, and whether each step had its own table, order and sum.

    wrong: sentences, in the order in which the host issued what is wrong. logged: (phase, step).
    """

    def __init__(self, lines: list[dict[str, Any]], table_bytes: int) -> None:
        self.table_bytes = table_bytes
        self.wrong: list[str] = []
        self.logged: list[tuple[int, int]] = []
        self.kernels: list[tuple[int, str]] = []  # phase, name
        self.state: dict[str, tuple[int, int]] = {}  # which memory holds positions and velocities
        super().__init__(lines, table_bytes // FLOAT_BYTES)

    def _kernel(self, line: dict[str, Any]) -> None:
        name = line["name"]
        operation = Operation(line["line"], "kernel", f"kernel {name}", line["stream"], kernel=name)
        values = [a["value"] for a in line["arguments"] if "value" in a]
        pointers = [a["pointer"] for a in line["arguments"] if "pointer" in a]
        if name not in KERNELS:
            self.wrong.append(f"kernel {name} is none of the given ones")
        elif any(p is None or p["memory"] != "device" for p in pointers):
            self.wrong.append(f"kernel {name} was given memory that is not the device's")
        else:
            self._given(operation, pointers, values[-1])
        self._add(operation, line)
        self.kernels.append((self._phase, name))

    def _given(self, operation: Operation, pointers: list[dict], particles: int) -> None:
        name = operation.kernel
        step = sum(1 for phase, other in self.kernels if phase == self._phase and other == name)
        sizes = {
            "each": 4,
            "position": 4,
            "velocity": 4,
            "table": self.table_bytes,
            "sum": SUM_BYTES,
        }
        names = {
            "kick": ("velocity", "position", "table"),
            "drift": ("position", "velocity"),
            "energy": ("each", "position", "velocity"),
            "total": ("sum", "each"),
        }[name]
        accesses = {}
        for index, (what, pointer) in enumerate(zip(names, pointers, strict=True)):
            size = sizes[what] * (particles if sizes[what] == 4 else 1)
            start = pointer["offset"]
            if start + size > self.buffers[pointer["buffer"]]["bytes"]:
                self.wrong.append(
                    f"kernel {name} of step {step}: its {what} reaches past its memory"
                )
                return
            accesses[what] = Access(pointer["buffer"], start, start + size, index == 0)
            operation.accesses.append(accesses[what])
            place = pointer["buffer"], start
            if what in ("position", "velocity") and self.state.setdefault(what, place) != place:
                self.wrong.append(
                    f"kernel {name} of step {step}: its {what} is not where it was before"
                )
        if name == "kick":
            self._expect(accesses["table"], Label(step, 0, 0), f"kick of step {step}: its table")
            for what, moved in MOVED.items():
                if any(p.label not in (ZERO, moved) for p in self._read(accesses[what])):
                    self.wrong.append(f"kick of step {step}: its {what} was never set to 0")
            self._write(accesses["velocity"], [Piece(0, 4 * particles, MOVED["velocity"])])
        elif name == "drift":
            self._write(accesses["position"], [Piece(0, 4 * particles, MOVED["position"])])
        elif name == "energy":
            self._write(accesses["each"], [Piece(0, 4 * particles, Label(step, 1, 0))])
        else:
            if [p.label for p in self._read(accesses["sum"])] != [ZERO]:
                self.wrong.append(f"total of step {step} adds to a sum that no memset has set to 0")
            self._expect(accesses["each"], Label(step, 1, 0), f"total of step {step}: the energies")
            self._write(accesses["sum"], [Piece(0, SUM_BYTES, Label(step, 2, 0))])

    def _expect(self, access: Access, label: Label, what: str) -> None:
        for piece in self._read(access):
            found = piece.label
            if isinstance(found, Label) and found.stage == label.stage:
                if found.batch != label.batch:
                    self.wrong.append(f"{what} is that of step {found.batch}")
                    return
            else:
                self.wrong.append(f"{what} did not arrive there: {found}")
                return

    def _host_access(self, line: dict[str, Any]) -> None:
        at, size, step = line["at"], line["bytes"], line["batch"]
        access = Access(at["buffer"], at["offset"], at["offset"] + size, line["write"])
        operation = Operation(line["line"], "host_access", line["what"], None, [access], batch=step)
        self._add(operation, line)
        if at["memory"] == "device":
            self.wrong.append(f"{line['what']}({step}) was given memory of the device")
        elif line["write"]:
            self._write(access, [Piece(0, size, Label(step, 0, 0))])
        else:
            self.logged.append((self._phase, step))
            self._expect(access, Label(step, 2, 0), f"log_energy({step}): the sum")

    @property
    def kernel_names(self) -> list[str]:
        return [name for phase, name in self.kernels if phase == 1]


@dataclass(frozen=True)
class StepCosts(Costs):
    """How long things take, ns: of the size that the captures nsys_baseline and nsys_improved show."""

    host_access_ns: float = 11_000.0  # prepare_step
    call_ns: float = 4_500.0
    allocation_ns: float = 150_000.0
    short_ns: float = 2_500.0
    kick_ns: float = 40_000.0
    other_ns: float = 11_000.0

    def of(self, operation: Operation) -> float:
        if operation.kind == "kernel":
            return self.kick_ns if operation.kernel == "kick" else self.other_ns
        return self.short_ns if operation.kind in ("copy", "memset") else 0.0

    @property
    def kernels_of_a_step_ns(self) -> float:
        return self.kick_ns + 3 * self.other_ns


def table_bytes(given: Path) -> int:
    found = re.search(r"kTable = (\d+);", (given / "particles.cuh").read_text(encoding="utf-8"))
    assert found
    return FLOAT_BYTES * int(found[1])


def issued(cuda_stub: Any, steps: int, particles: int, warmup: int) -> tuple[str, Steps]:
    """The words for a run and what it issued, or a failed check that says why there is nothing."""
    called = (
        f"{cuda_stub.source.name} --steps {steps} --particles {particles} --warmup-steps {warmup}"
    )
    arguments = [
        "--steps",
        str(steps),
        "--particles",
        str(particles),
        "--warmup-steps",
        str(warmup),
    ]
    with runs.failures_told(cuda_stub):
        program = toolchain.build_alone(cuda_stub.source, cuda_stub.given)
        result, lines = run_on_stand_in(called, [str(program.executable), *arguments])
    refused = [line for line in lines if line["kind"] == "refused"]
    if refused:
        fail(
            f"{called}: {refused[0]['function']} returned {refused[0]['error']}: {refused[0]['why']}. A "
            "refused call does nothing: what should have followed from it is missing."
        )
    if result.returncode != 0:
        fail(f"{called} ended with code {result.returncode}: {result.stderr.strip()[-400:]}")
    return called, Steps(lines, table_bytes(cuda_stub.given))


def drawn(seed: int) -> tuple[int, int, int]:
    """Steps, particles and steps of the warm-up, from the session's seed."""
    chance = random.Random(f"steps {seed}")
    return chance.randint(24, 40), chance.randint(20_000, 60_000), chance.randint(1, 3)


@task("nsys_ex01.improved")
@pytest.mark.parametrize(
    "change",
    [{}, {"steps": 1}, {"warmup": 0}, {"steps": 90}],
    ids=["drawn", "one step", "cold", "many"],
)
def test_every_step_is_done(cuda_stub: Any, seed: int, change: dict[str, int]) -> None:
    steps, particles, warmup = drawn(seed)
    steps, warmup = change.get("steps", steps), change.get("warmup", warmup)
    called, schedule = issued(cuda_stub, steps, particles, warmup)
    if schedule.wrong:
        fail(f"{called}: {schedule.wrong[0]} ({len(schedule.wrong)} such findings in all)")
    for phase, count, words in ((0, warmup, "warm-up"), (1, steps, "measured part")):
        launched = [name for at, name in schedule.kernels if at == phase]
        if launched != [*KERNELS] * count:
            fail(
                f"{called}: the {words} launched {len(launched)} kernels ({' '.join(launched[:8])} …), "
                f"expected {' '.join(KERNELS)} for each of {count} steps, in this order"
            )
        logged = sorted(step for at, step in schedule.logged if at == phase)
        if logged != list(range(count)):
            fail(
                f"{called}: in the {words} log_energy was called for {logged}, expected each of {count} "
                "steps once: a run that logs less does less work"
            )
    for line in schedule.lines:
        if line["kind"] == "kernel":
            if line["arguments"][-1]["value"] != particles:
                fail(f"{called}: kernel {line['name']} was not given all {particles} particles")
            if math.prod(line["grid"]) < FEWEST_BLOCKS:
                fail(
                    f"{called}: kernel {line['name']} has {math.prod(line['grid'])} blocks for {particles} "
                    f"particles, expected at least {FEWEST_BLOCKS}: the rest of the device would idle"
                )


@task("nsys_ex01.improved")
def test_nothing_is_overwritten_on_its_way(cuda_stub: Any, seed: int) -> None:
    called, schedule = issued(cuda_stub, *drawn(seed))
    if len(schedule.threads) > 1:
        fail(f"{called}: CUDA was called from {len(schedule.threads)} host threads; one is enough")
    races = schedule.races()
    if races:
        race = races[0]
        fail(
            f"{called}: nothing orders the {race.first} before the {race.second}; both use "
            f"{schedule.buffer_name(race.access.buffer)}, and one writes ({race.count} such pairs). Such "
            "an error is hard to find, because the timing often hides it."
        )


@task("nsys_ex01.improved")
def test_the_device_stays_at_work(cuda_stub: Any, seed: int) -> None:
    steps, particles, warmup = drawn(seed)
    called, schedule = issued(cuda_stub, steps, particles, warmup)
    costs = StepCosts(batch_bytes=1)
    schedule.lines = [line for line in schedule.lines if line.get("what") != "log_energy"]
    simulation = simulate(schedule, costs)
    bound = steps * costs.kernels_of_a_step_ns
    ratio = simulation.makespan_ns / bound
    if ratio <= LONGEST_RATIO:
        return
    blocked = ", ".join(
        f"{ns / 1e6:.2f} ms in {what}" for what, ns in simulation.host_blocked_ns.most_common(3)
    )
    idle = simulation.makespan_ns - simulation.busy_ns("kernels")
    fail(
        f"{called}: what it issues takes {simulation.makespan_ns / 1e6:.2f} ms where its kernels take "
        f"{bound / 1e6:.2f} ms: {ratio:.2f} times as long, expected at most {LONGEST_RATIO}. No kernel ran "
        f"for {idle / 1e6:.2f} ms; the host was held up for {blocked or 'no time at all'}. While it waits "
        "it issues nothing, and the device runs dry."
    )


@task("nsys_ex01.improved")
def test_everything_is_released(cuda_stub: Any, seed: int) -> None:
    called, schedule = issued(cuda_stub, *drawn(seed))
    if left := schedule.unreleased():
        fail(
            f"{called}: never released after destroy_simulation: {', '.join(left)}. Expected: nothing "
            "left. What is not released adds up in a program that runs for long."
        )


# -- on a GPU -------------------------------------------------------------------------------------


@task("nsys_ex01.improved_live")
def test_live_same_energies_in_less_time(cuda_stub: Any, tmp_path: Path) -> None:
    times: list[list[float]] = [[], []]
    sums: set[str] = set()
    programs = [
        on_gpu.build(source, cuda_stub.given, tmp_path)
        for source in (cuda_stub.given / "baseline.cu", cuda_stub.source)
    ]
    for _ in range(3):  # in turns, so that a change of clocks meets both
        for program, own in zip(programs, times, strict=True):
            time_us, checksum = on_gpu.timed(program, "us_per_step")
            own.append(time_us)
            sums.add(checksum)
    if len(sums) != 1:
        fail(
            f"the programs printed the checksums {sorted(sums)}, expected one: some energy is wrong"
        )
    before, after = map(statistics.median, times)
    if before < SMALLEST_SPEEDUP * after:
        fail(
            f"a step takes {after:.1f} µs, in the baseline {before:.1f} µs (medians of 3 runs in turns): "
            f"{before / after:.2f} times as fast, expected at least {SMALLEST_SPEEDUP}"
        )
