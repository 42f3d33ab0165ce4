"""Checks of `energy_ex01`: a sensor in virtual time, made-up and recorded power."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from grading.checks import task
from grading.checks.assertions import (
    judge,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding, problems

TRACES = recordings("energy_trace_bf16", "energy_trace_copy", holding="energy.json")
MS = 1_000_000


# -- a sensor in virtual time -------------------------------------------------------------------------


class Sensor:
    """A clock, a sleep that oversleeps, and a sensor that takes its time to be read."""

    def __init__(self, read_ns: list[int], over_ns: int, breaks_at: int = -1) -> None:
        self.now, self.over_ns, self.breaks_at = 987_654_321, over_ns, breaks_at
        self.start = self.now
        self.read_ns = read_ns
        self.read_at: list[int] = []
        self.slept: list[int] = []

    def clock_ns(self) -> int:
        return self.now

    def sleep_ns(self, duration: int) -> None:
        self.slept.append(duration)
        self.now += max(0, duration) + self.over_ns

    def read_mw(self) -> int:
        place = len(self.read_at)
        if place == self.breaks_at:
            raise RuntimeError("NVML: the GPU is lost")
        if place > 500:
            raise AssertionError("sample_power reads and reads and does not end")
        self.read_at.append(self.now - self.start)
        self.now += self.read_ns[place % len(self.read_ns)]
        return 100_000 + place

    def run(self, stub: Any, duration_ns: int, interval_ns: int) -> dict[str, Any]:
        return stub.sample_power(
            self.read_mw, self.clock_ns, self.sleep_ns, duration_ns, interval_ns
        )


def due_times(read_ns: list[int], over_ns: int, duration_ns: int, interval_ns: int) -> list[int]:
    """When such a sensor is read, by a table of due times: those that passed are left out."""
    now, out = 0, []
    for due in range(0, duration_ns, interval_ns):
        if due < now:
            continue
        now = due if due == now else due + over_ns
        out.append(now)
        now += read_ns[(len(out) - 1) % len(read_ns)]
    return out


def judge_samples(stub: Any, read_ns: list[int], over_ns: int, duration_ns: int, why: str) -> None:
    interval = 10 * MS
    sensor = Sensor(read_ns, over_ns)
    got = sensor.run(stub, duration_ns, interval)
    want = due_times(read_ns, over_ns, duration_ns, interval)
    judge(
        f"sample_power(…, duration_ns={duration_ns}, interval_ns={interval}), a reading taking "
        f"{read_ns[0] / MS:g} ms or so and a sleep {over_ns / MS:g} ms too long,",
        got,
        {"time_ns": want, "power_mw": [100_000 + i for i in range(len(want))], "error": ""},
        "ns, mW",
        {"time_ns": why},
    )
    require(
        all(slept > 0 for slept in sensor.slept) and sum(sensor.slept) < duration_ns,
        f"sample_power slept for {show(sensor.slept)} ns: only for what is left, above 0, until the next "
        "reading is due, and not after the last",
    )


@task("energy_ex01.sample_power")
def test_readings_come_at_regular_times(stub: Any, seed: int) -> None:
    chance = random.Random(f"regular {seed}")
    late = chance.randrange(MS // 10, MS)
    why = "Readings are due at multiples of the interval; waiting for an interval after each one drifts"
    judge_samples(stub, [2 * MS, 3 * MS], late, 200 * MS, why)
    judge_samples(stub, [2 * MS], 0, 195 * MS, why)
    judge_samples(stub, [0], 0, 95 * MS, why)
    judge_samples(stub, [10 * MS - 1], 0, 95 * MS, why)
    why = "The last reading is due in time; that the sleep before it ends late does not cancel it"
    judge_samples(stub, [MS], 6 * MS, 195 * MS, why)


@task("energy_ex01.sample_power")
def test_a_clock_moves_between_two_looks(stub: Any) -> None:
    sensor = Sensor([MS], 0)

    def clock_ns() -> int:
        sensor.now += 1000
        return sensor.now

    got = stub.sample_power(sensor.read_mw, clock_ns, sensor.sleep_ns, 95 * MS, 10 * MS)
    times = got["time_ns"] if isinstance(got, dict) and "time_ns" in got else None
    require(
        isinstance(times, list)
        and len(times) == 10
        and all(10 * i * MS <= at < 10 * i * MS + MS // 10 for i, at in enumerate(times)),
        "sample_power(…, duration_ns=95000000, interval_ns=10000000) with a clock that is 1 µs later at "
        f"each look returned {show(got)}, expected ten readings, each less than 100 µs after its due "
        "time: the first is due at once, however little has passed since the start was noted",
    )


@task("energy_ex01.sample_power")
def test_what_was_missed_is_left_out(stub: Any) -> None:
    why = "A reading took longer than the interval: skip the readings that fell due meanwhile, and do not catch up"
    judge_samples(stub, [2 * MS, 2 * MS, 34 * MS], 0, 300 * MS, why)
    judge_samples(stub, [2 * MS, 18 * MS, 8 * MS], 2 * MS, 300 * MS, why)


@task("energy_ex01.sample_power")
def test_an_error_keeps_what_was_read(stub: Any) -> None:
    sensor = Sensor([MS], 0, breaks_at=4)
    got = sensor.run(stub, 200 * MS, 10 * MS)
    judge(
        "sample_power(…) of a sensor whose fifth reading fails",
        got,
        {
            "time_ns": [0, 10 * MS, 20 * MS, 30 * MS],
            "power_mw": [100_000, 100_001, 100_002, 100_003],
            "error": "NVML: the GPU is lost",
        },
        "ns, mW",
        {"time_ns": "What was read before the error is kept, and sampling ends there"},
    )


@task("energy_ex01.sample_power")
def test_duration_and_interval_must_be_above_0(stub: Any) -> None:
    for duration, interval in ((0, MS), (MS, 0)):
        with stub.raises(ValueError, why=f"duration {duration} ns, interval {interval} ns"):
            Sensor([MS], 0).run(stub, duration, interval)
    judge_samples(stub, [1], 0, 1, "A duration of 1 ns has room for the first reading")
    with stub.raises(ValueError, why="an interval of -1 ns"):
        Sensor([MS], 0).run(stub, MS, -1)


# -- energy_between -----------------------------------------------------------------------------------


def area(times: list[int], powers: list[int], start: float, end: float) -> float:
    """The area under a broken line in J, by interpolating the ends (numpy)."""
    inside = [t for t in times if start < t < end]
    x = np.array([start, *inside, end], dtype=float)
    y = np.interp(x, times, powers)
    return float(np.sum((y[1:] + y[:-1]) / 2 * np.diff(x)) / 1e12)


@task("energy_ex01.energy_between")
def test_energy_of_irregular_samples(stub: Any, seed: int) -> None:
    chance = random.Random(f"irregular {seed}")
    for _ in range(3):
        gaps = [chance.choice((3, 5, 40)) * MS + chance.randrange(MS) for _ in range(60)]
        times = [int(t) for t in np.cumsum(gaps)]
        powers = [chance.choice((90_000, 650_000)) for _ in times]
        for start, end in (
            (times[0], times[-1]),
            (times[5] + MS, times[40] + 2 * MS),
            (times[7] + 0.25 * MS, times[7] + 0.75 * MS),
        ):
            got = stub.energy_between(times, powers, start, end, 50 * MS)
            want = area(times, powers, start, end)
            require(
                near(got, want, 1e-9),
                f"energy_between of {len(times)} irregular samples from {start:.0f} to {end:.0f} ns "
                f"returned {show(got)}, expected {want:.9g} J: each stretch counts for as long as it "
                "lasts, and power changes evenly from sample to sample",
            )


@task("energy_ex01.energy_between")
def test_a_gap_is_refused(stub: Any) -> None:
    times, powers = [0, 10 * MS, 200 * MS, 210 * MS, 220 * MS], [1000, 1000, 1000, 1000, 1000]
    why = "no sample for 190 ms, and 50 ms are allowed"
    for start, end in ((0, 220 * MS), (150 * MS, 220 * MS), (5 * MS, 11 * MS)):
        with stub.raises(ValueError, why=why):
            stub.energy_between(times, powers, start, end, 50 * MS)
    for start, end, gap in ((200 * MS, 220 * MS, 50 * MS), (0, 10 * MS, 10 * MS)):
        got = stub.energy_between(times, powers, start, end, gap)
        require(
            near(got, (end - start) / 1e9),
            f"energy_between({times}, …, {start}, {end}, {gap}) of 1 W returned {show(got)}, expected "
            f"{(end - start) / 1e9} J: there is no gap longer than {gap} ns in that time",
        )


@task("energy_ex01.energy_between")
def test_bad_samples(stub: Any) -> None:
    good = [0, 10, 20]
    for times, powers, start, end, why in (
        ([], [], 0, 1, "no sample"),
        ([0], [5], 0, 0, "a single sample"),
        ([0], [5], 0, 1, "a single sample"),
        (good, [5, 5], 0, 20, "three times and two powers"),
        ([0, 10, 10], [5, 5, 5], 0, 10, "two samples at the same time"),
        ([0, 20, 10, 30], [5, 5, 5, 5], 0, 30, "times that go back"),
        (good, [5, 5, 5], 10, 10, "an end that is the start"),
        (good, [5, 5, 5], -1, 10, "a start before the first sample"),
        (good, [5, 5, 5], 0, 21, "an end after the last sample"),
    ):
        with stub.raises(ValueError, why=why):
            stub.energy_between(times, powers, start, end, 100)
    got = stub.energy_between([0, 10], [3000, 3000], 0, 10, 10)
    require(near(got, 3e-8), f"two samples of 3 W, 10 ns apart: {show(got)}, expected 3e-08 J")


# -- a made-up recording ------------------------------------------------------------------------------


class Made:
    """A recording with known power: phases of constant power, sensors that lag behind them."""

    def __init__(self, seed: object, **options: Any) -> None:
        chance = random.Random(f"power {seed}")
        self.idle_mw, self.load_mw = (
            chance.randrange(70, 140) * 1000,
            chance.randrange(300, 600) * 1000,
        )
        self.delay_ns = chance.randrange(20, 60) * MS
        self.average_ns = chance.randrange(500, 1000) * MS
        self.phases: list[dict[str, Any]] = []
        self.levels: list[tuple[int, int]] = []  # from when on, mW
        now = 0
        plan = [("idle", 1500), ("steady", 2500), ("idle", 1800), ("burst", 120), ("idle", 900)]
        for name, length_ms in options.get("plan", plan):
            length = length_ms * MS + chance.randrange(MS)
            # after work the device idles above its level for a while
            power = self.load_mw if name != "idle" else self.idle_mw
            if name == "idle" and self.phases:
                self.levels += [(now, power + 25_000), (now + 400 * MS, power)]
            else:
                self.levels.append((now, power))
            self.phases.append({"name": name, "start_ns": now, "end_ns": now + length})
            now += length
        self.chance, self.end = chance, now
        self.edges = [start for start, _ in self.levels] + [now]
        self.sample(chance, options)

    def energy(self, until: int) -> float:
        """True energy from 0 until then, in mW ns."""
        total = min(0, until) * self.idle_mw
        for (start, power), end in zip(self.levels, self.edges[1:], strict=True):
            total += power * max(0, min(until, end) - start)
        return total

    def sample(self, chance: random.Random, options: dict[str, Any]) -> None:
        times, now = [], 0
        while now < self.end:
            times.append(now)
            now += chance.randrange(3000, 6000) * 1000
        period = chance.randrange(18, 30) * MS
        ticks = list(range(-2 * period, self.end, period))
        noise = [chance.randrange(-900, 900) for _ in ticks]
        last = (np.searchsorted(ticks, times, side="right") - 1).tolist()

        def mean(tick: int, window: int) -> int:
            return int((self.energy(tick) - self.energy(tick - window)) / window)

        instant = [mean(tick - self.delay_ns, 10 * MS) + noise[i] for i, tick in enumerate(ticks)]
        average = [mean(tick, self.average_ns) for tick in ticks]
        counter = {tick: 5_000_000 + int(self.energy(tick) / 1e9) for tick in ticks}
        for phase in self.phases:
            for end in ("start", "end"):
                at = ticks[int(np.searchsorted(ticks, phase[f"{end}_ns"], side="right")) - 1]
                phase[f"energy_{end}_mj"] = counter[at]
        clock, reasons = options.get("clock", 1800), options.get("reasons", 0x4)
        steady = self.phases[1]
        working = [steady["start_ns"] <= t < steady["end_ns"] for t in times]
        late = [t - steady["start_ns"] > 900 * MS for t in times]
        self.document: dict[str, Any] = {
            "device": {"name": "made up", "highest_sm_clock_mhz": 2000},
            "unsupported": {},
            "phases": self.phases,
            "samples": {
                "time_ns": times,
                "instant_mw": [instant[i] for i in last],
                "average_mw": [average[i] for i in last],
                "energy_mj": [counter[ticks[i]] for i in last],
                "sm_clock_mhz": [
                    clock if w and la else 2000 for w, la in zip(working, late, strict=True)
                ],
                "reasons": [
                    (reasons if chance.random() < options.get("often", 1.0) else 0)
                    if w and la
                    else 0x1
                    for w, la in zip(working, late, strict=True)
                ],
            },
        }

    def save(self, folder: Path) -> str:
        """Write it; returns the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "energy.json").write_text(json.dumps(self.document), encoding="utf-8")
        return str(folder)


def drawn(folder: Path, values: list[int], reasons: list[int] | None = None, over: int = 0) -> str:
    """A sample every 10 ns: five idle ones, and all others, less the last `over`, while work runs."""
    end = 10 * (len(values) - over)
    counter = list(range(len(values)))
    document = {
        "device": {"highest_sm_clock_mhz": 2000},
        "phases": [
            {"name": "idle", "start_ns": 0, "end_ns": 50},
            {"name": "steady", "start_ns": 50, "end_ns": end},
        ],
        "samples": {
            "time_ns": [10 * place for place in counter],
            "instant_mw": values,
            "energy_mj": counter,
            "sm_clock_mhz": values,
            "reasons": reasons or counter,
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "energy.json").write_text(json.dumps(document), encoding="utf-8")
    return str(folder)


class Read:
    """A recording as the checks read it: columns as arrays, phases by name."""

    def __init__(self, capture: str) -> None:
        self.document = json.loads(captures.text(capture, "energy.json"))
        self.columns = {
            name: np.array(values, dtype=np.int64)
            for name, values in self.document["samples"].items()
            if None not in values
        }
        self.times = self.columns["time_ns"]
        self.phases = self.document["phases"]

    def place(self, name: str) -> int:
        return [phase["name"] for phase in self.phases].index(name)

    def part(self, name: str, start: float, end: float) -> np.ndarray:
        return self.columns[name][(self.times >= start) & (self.times < end)]

    def later_half(self, place: int, name: str) -> np.ndarray:
        phase = self.phases[place]
        start, end = phase["start_ns"], phase["end_ns"]
        return self.part(name, start + (end - start) / 2, end)


def judge_row(call: str, got: Any, want: dict[str, float], why: dict[str, str]) -> None:
    """Hold a dict of numbers against another; integers stand for floats."""
    if isinstance(got, dict):
        got = {key: float(v) if type(v) is int else v for key, v in got.items()}
    judge(call, got, want, "unit in the name", why)


def own_trace(capture: str) -> None:
    """A learner's own recording of another scenario, or without power, is not judged."""
    read = Read(capture)
    if "steady" not in [phase["name"] for phase in read.phases] or "instant_mw" not in read.columns:
        raise NotGraded("not run", f"{Path(capture).name} is no trace with power")


# -- update_period ------------------------------------------------------------------------------------


def judge_period(stub: Any, capture: str, name: str) -> None:
    read = Read(capture)
    values = read.columns[name]
    new = read.times[1:][values[1:] != values[:-1]]
    want = {
        "polled_ns": float(np.median(np.diff(read.times))),
        "period_ns": float(np.median(np.diff(new))),
        "stale_pct": 100 * float(np.mean(values[1:] == values[:-1])),
    }
    judge_row(
        f"update_period({Path(capture).name!r}, {name!r})",
        stub.update_period(capture, name),
        want,
        {
            "polled_ns": "The median time between samples, whatever they read",
            "period_ns": f"{len(new)} of {len(values)} readings differ from the one before; the time "
            "between these is the sensor's",
            "stale_pct": "A reading that equals the one before is not new; the first one is neither",
        },
    )


@task("energy_ex01.update_period")
@TRACES
def test_period_of_a_recording(stub: Any, recording: str) -> None:
    own_trace(recording)
    judge_period(stub, recording, "instant_mw")
    judge_period(stub, recording, "energy_mj")


@task("energy_ex01.update_period")
def test_period_of_a_made_up_sensor(stub: Any, seed: int, tmp_path: Path) -> None:
    judge_period(stub, Made(seed).save(tmp_path), "instant_mw")


@task("energy_ex01.update_period")
def test_a_file_that_is_no_recording(stub: Any, tmp_path: Path) -> None:
    made = Made(2)
    made.document["samples"]["instant_mw"].pop()
    with stub.raises(CaptureError, why="a column is shorter than the others"):
        stub.update_period(made.save(tmp_path / "short"))
    made = Made(2)
    made.document["phases"] = []
    with stub.raises(CaptureError, why="there are no phases"):
        stub.update_period(made.save(tmp_path / "no phases"))


@task("energy_ex01.update_period")
def test_period_from_the_second_sample_on(stub: Any, tmp_path: Path) -> None:
    judge_period(stub, drawn(tmp_path, [100, 200, 200, 300, 300, 300]), "instant_mw")


@task("energy_ex01.update_period")
def test_period_needs_readings(stub: Any, tmp_path: Path) -> None:
    made = Made(1)
    count = len(made.document["samples"]["time_ns"])
    made.document["samples"]["instant_mw"] = [5] * (count - 1) + [6]
    made.document["samples"]["average_mw"] = [None] * count
    made.document["samples"]["energy_mj"] = [5] * (count - 2) + [6, 7]
    folder = made.save(tmp_path)
    with stub.raises(
        CaptureError, why="instant_mw changes once, so there is no time between changes"
    ):
        stub.update_period(folder)
    with stub.raises(CaptureError, why="average_mw was never read"):
        stub.update_period(folder, "average_mw")
    judge_period(stub, folder, "energy_mj")


# -- sensor_delay -------------------------------------------------------------------------------------


def judge_delay(stub: Any, capture: str, name: str, step: str = "steady") -> dict[str, float]:
    read = Read(capture)
    place = read.place(step)
    phase = read.phases[place]
    low = float(np.median(read.later_half(place - 1, name)))
    high = float(np.median(read.later_half(place, name)))
    start, end = phase["start_ns"], phase["end_ns"]
    times, values = read.part("time_ns", start, end), read.part(name, start, end)

    def first(share: float) -> int:
        return int(times[np.argmax(values >= low + share * (high - low))])

    want = {"half_ns": float(first(0.5) - start), "rise_ns": float(first(0.9) - first(0.1))}
    judge_row(
        f"sensor_delay({Path(capture).name!r}, {name!r}, {step!r})",
        stub.sensor_delay(capture, name, step),
        want,
        {
            "half_ns": f"From {low / 1e3:.1f} W before to {high / 1e3:.1f} W in the second half; the "
            "phase's start counts, not the recording's; the step goes from the low level to the high one",
            "rise_ns": "From a tenth to nine tenths of the step from the low level to the high one",
        },
    )
    return want


@task("energy_ex01.sensor_delay")
@TRACES
def test_delay_in_a_recording(stub: Any, recording: str) -> None:
    own_trace(recording)
    judge_delay(stub, recording, "instant_mw")
    judge_delay(stub, recording, "average_mw")


@task("energy_ex01.sensor_delay")
def test_delay_of_a_made_up_sensor(stub: Any, seed: int, tmp_path: Path) -> None:
    made = Made(seed + 1)
    folder = made.save(tmp_path)
    found = judge_delay(stub, folder, "instant_mw")
    assert abs(found["half_ns"] - made.delay_ns) < 50 * MS  # the generator is what it says
    judge_delay(stub, folder, "average_mw")


@task("energy_ex01.sensor_delay")
def test_delay_where_a_share_is_met_exactly(stub: Any, tmp_path: Path) -> None:
    values = [100] * 7 + [110, 120, 150, 160, 190, 195] + [200] * 12
    judge_delay(stub, drawn(tmp_path / "within", values), "instant_mw")
    # The first sample of the work is a tenth already, and no part of the idle phase that ends there.
    values = [100, 100, 100, 90, 110, 112, 109, 120, 150, 160, 190, 195] + [200] * 12 + [230]
    judge_delay(stub, drawn(tmp_path / "at the start", values), "instant_mw")


@task("energy_ex01.sensor_delay")
def test_delay_from_the_phase_right_before(stub: Any, tmp_path: Path) -> None:
    times = [0, 20, 40, 60, 80, 100, 110, 120, 130, 140, 150, 152, 154, 156, 158, 160, 180, 199]
    times += [200, 230, 290, 300, 340]
    values = [10, 10, 10, 10, 10, 60, 70, 80, 100, 100, 100, 198, 240, 260, 290, 240, 300, 300]
    values += [100, 100, 100, 500, 500]
    plan = [("idle", 0), ("light", 100), ("steady", 150), ("light", 200), ("steady", 300)]
    ends = [start for _, start in plan[1:]] + [350]
    document = {
        "phases": [
            {"name": name, "start_ns": start, "end_ns": end}
            for (name, start), end in zip(plan, ends, strict=True)
        ],
        "samples": {"time_ns": times, "instant_mw": values},
    }
    (tmp_path / "energy.json").write_text(json.dumps(document), encoding="utf-8")
    judge_delay(stub, str(tmp_path), "instant_mw")
    judge_delay(stub, str(tmp_path), "instant_mw", "light")


@task("energy_ex01.sensor_delay")
def test_delay_needs_a_step(stub: Any, tmp_path: Path) -> None:
    made = Made(3)
    folder = made.save(tmp_path / "good")
    with stub.raises(CaptureError, why="there is no phase of that name"):
        stub.sensor_delay(folder, "instant_mw", "stead")
    with stub.raises(CaptureError, why="the first phase has none before it"):
        stub.sensor_delay(folder, "instant_mw", "idle")
    samples = made.document["samples"]
    samples["instant_mw"] = [7 for _ in samples["time_ns"]]
    with stub.raises(CaptureError, why="the reading is the same before and during the phase"):
        stub.sensor_delay(made.save(tmp_path / "flat"))
    made = Made(3)
    made.phases[1]["start_ns"] = made.phases[1]["end_ns"] - 10
    made.phases[1]["end_ns"] -= 5
    with stub.raises(CaptureError, why="no sample was taken in the phase"):
        stub.sensor_delay(made.save(tmp_path / "short"))
    made = Made(3)
    made.phases[0]["end_ns"] = -1
    with stub.raises(CaptureError, why="no sample was taken in the phase before"):
        stub.sensor_delay(made.save(tmp_path / "nothing before"))


# -- phase_energy -------------------------------------------------------------------------------------


def judge_energy(stub: Any, capture: str, name: str) -> dict[str, float]:
    read = Read(capture)
    phase = read.phases[read.place(name)]
    start, end = phase["start_ns"], phase["end_ns"]
    times = read.times.tolist()
    idle = np.concatenate(
        [
            read.part("instant_mw", one["start_ns"] + 500 * MS, one["end_ns"])
            for one in read.phases
            if one["name"] == "idle"
        ]
    )
    idle_w = float(np.median(idle)) / 1e3
    counter = (phase["energy_end_mj"] - phase["energy_start_mj"]) / 1e3
    want = {
        "counter_j": counter,
        "error_j": float(np.diff(read.columns["energy_mj"]).max()) / 1e3,
        "instant_j": area(times, read.columns["instant_mw"].tolist(), start, end),
        "average_j": area(times, read.columns["average_mw"].tolist(), start, end),
        "idle_w": idle_w,
        "above_idle_j": counter - idle_w * (end - start) / 1e9,
    }
    judge_row(
        f"phase_energy({Path(capture).name!r}, {name!r})",
        stub.phase_energy(capture, name),
        want,
        {
            "counter_j": "The counter was read at the phase's start and at its end, in mJ",
            "error_j": "The counter moves in steps, and the largest step of the recording bounds the error",
            "idle_w": "Only samples of idle phases, half a second or more after their start, are idle",
            "above_idle_j": "Subtract what an idle device takes in the same time, at idle_w",
        },
    )
    return want


@task("energy_ex01.phase_energy")
@TRACES
def test_energy_of_a_recorded_phase(stub: Any, recording: str, own_recording: bool) -> None:
    own_trace(recording)
    names = [phase["name"] for phase in Read(recording).phases]
    for name in dict.fromkeys(n for n in names if n != "idle"):
        if own_recording or name in ("steady", "burst_100ms"):
            judge_energy(stub, recording, name)


@task("energy_ex01.phase_energy")
def test_energy_of_a_made_up_phase(stub: Any, seed: int, tmp_path: Path) -> None:
    made = Made(seed + 2)
    folder = made.save(tmp_path)
    for name in ("steady", "burst"):
        found = judge_energy(stub, folder, name)
        phase = next(p for p in made.phases if p["name"] == name)
        true = (made.energy(phase["end_ns"]) - made.energy(phase["start_ns"])) / 1e12
        assert abs(found["counter_j"] - true) <= found["error_j"] + 0.01


@task("energy_ex01.phase_energy")
def test_energy_of_a_drawn_phase(stub: Any, tmp_path: Path) -> None:
    plan = [("idle", 0, 1_000), ("steady", 1_000, 21_000), ("idle_hot", 21_000, 22_000)]
    # (ms, mW, mJ): one sample half a second into the idle phase, one at its end, twenty seconds without
    rows = [(0, 900, 0), (499, 800, 0), (500, 50, 0), (700, 60, 7), (900, 80, 7), (1000, 90, 7)]
    rows += [(21_000, 300, 40), (21_600, 500, 45), (22_000, 500, 45)]
    columns = dict(
        zip(("time_ns", "instant_mw", "energy_mj"), zip(*rows, strict=True), strict=True)
    )
    document = {
        "phases": [
            {"name": name, "start_ns": start * MS, "end_ns": end * MS} for name, start, end in plan
        ],
        "samples": {
            "time_ns": [at * MS for at in columns["time_ns"]],
            "instant_mw": columns["instant_mw"],
            "average_mw": [70] * len(rows),
            "energy_mj": columns["energy_mj"],
        },
    }
    document["phases"][1] |= {"energy_start_mj": 0, "energy_end_mj": 40}
    (tmp_path / "energy.json").write_text(json.dumps(document), encoding="utf-8")
    judge_energy(stub, str(tmp_path), "steady")


@task("energy_ex01.phase_energy")
def test_energy_needs_a_counter_and_an_idle_phase(stub: Any, tmp_path: Path) -> None:
    made = Made(4)
    samples = made.document["samples"]
    samples["energy_mj"] = [5 for _ in samples["time_ns"]]
    with stub.raises(CaptureError, why="the counter never advances"):
        stub.phase_energy(made.save(tmp_path / "still"), "steady")
    for count in (1, len(samples["time_ns"]) - 1):
        made = Made(4)
        samples = made.document["samples"]
        samples["energy_mj"] = [5 + (i >= count) for i in range(len(samples["time_ns"]))]
        judge_energy(stub, made.save(tmp_path / f"once {count}"), "steady")
    for end in ("start", "end"):
        made = Made(4)
        made.phases[1][f"energy_{end}_mj"] = None
        with stub.raises(CaptureError, why=f"the counter was not read at the phase's {end}"):
            stub.phase_energy(made.save(tmp_path / f"unread {end}"), "steady")
    made = Made(4, plan=[("idle", 480), ("steady", 1000), ("idle", 300)])
    folder = made.save(tmp_path / "short")
    with stub.raises(CaptureError, why="no idle phase is longer than half a second"):
        stub.phase_energy(folder, "steady")
    with stub.raises(CaptureError, why="there is no phase of that name"):
        stub.phase_energy(folder, "burst")
    count = len(made.document["samples"]["time_ns"])
    made.document["samples"]["energy_mj"] = [None] * count
    made.document["unsupported"] = {
        "energy_mj": "nvmlDeviceGetTotalEnergyConsumption: Not Supported"
    }
    with stub.raises(CaptureError, why="the device offers no energy counter"):
        stub.phase_energy(made.save(tmp_path / "unsupported"), "steady")


# -- power_verdict ------------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str) -> str:
    """Hold a verdict against the samples; returns the category that is expected."""
    read = Read(capture)
    place = read.place("steady")
    phase = read.phases[place]
    clocks, reasons = (read.later_half(place, name) for name in ("sm_clock_mhz", "reasons"))
    ratio = float(np.median(clocks)) / read.document["device"]["highest_sm_clock_mhz"]
    bits = sum(1 << bit for bit in (2, 3, 5, 6, 7))
    limited = 100 * float(np.mean((reasons & bits) != 0))
    window = phase["end_ns"] - phase["start_ns"]
    category = "throttled" if limited > 50 and ratio < 0.98 else "healthy"
    got = stub.power_verdict(capture)
    call = f"power_verdict({Path(capture).name!r})"
    facts = (
        f"the clock is at {100 * ratio:.1f} % of the highest, and {limited:.0f} % of the samples "
        "of the second half name a reason that limits it"
    )
    judge_finding(
        *(call, got, category, "device:0"),
        {
            "clock_ratio": ratio,
            "limited_pct": limited,
            "window_ns": float(window),
            "recoverable_ns": float(max(0, round(window * (1 - ratio)))),
        },
        facts,
        why={
            "clock_ratio": "The median clock of the second half over the highest that the device offers",
            "limited_pct": "Not every reason is a limit: an idle device has a reason, too",
        },
    )
    judge_recommendation(
        call,
        got,
        f"{facts}; the floor is 0.98, and within 0.01 of it a verdict is borderline",
        borderline=abs(ratio - 0.98) <= 0.01,
        anywhere=True,
    )
    return category


@task("energy_ex01.power_verdict")
@TRACES
def test_verdict_on_a_recording(stub: Any, recording: str) -> None:
    own_trace(recording)
    judge_verdict(stub, recording)


@task("energy_ex01.power_verdict")
@pytest.mark.parametrize(
    ("options", "category"),
    [
        ({"clock": 1700, "reasons": 0x4}, "throttled"),
        ({"clock": 1500, "reasons": 0x20}, "throttled"),
        ({"clock": 1500, "reasons": 0x80}, "throttled"),
        ({"clock": 1500, "reasons": 0x48}, "throttled"),
        ({"clock": 1500, "reasons": 0x2}, "healthy"),
        ({"clock": 1500, "reasons": 0x11}, "healthy"),
        ({"clock": 2000, "reasons": 0x4}, "healthy"),
        ({"clock": 2030, "reasons": 0x0}, "healthy"),
        ({"clock": 1500, "reasons": 0x4, "often": 0.3}, "healthy"),
        ({"clock": 1500, "reasons": 0x4, "often": 0.8}, "throttled"),
        ({"clock": 1970, "reasons": 0x4}, "healthy"),
        ({"clock": 1950, "reasons": 0x4}, "throttled"),
        ({"clock": 1960, "reasons": 0x4}, "healthy"),
    ],
)
def test_verdict_on_made_up_clocks(
    stub: Any, seed: int, tmp_path: Path, options: dict, category: str
) -> None:
    expected = judge_verdict(stub, Made(seed + 3, **options).save(tmp_path))
    assert expected == category


@task("energy_ex01.power_verdict")
def test_verdict_where_half_of_the_samples_are_limited(stub: Any, tmp_path: Path) -> None:
    for share, category in (([0, 4], "healthy"), ([0, 4, 4], "throttled")):
        # The last sample is taken as the phase ends, and does not count.
        folder = drawn(tmp_path / category, [1500] * 30, [1] * 17 + (share * 6)[:12] + [4], over=1)
        assert judge_verdict(stub, folder) == category


@task("energy_ex01.power_verdict")
def test_verdict_needs_samples_and_a_highest_clock(stub: Any, tmp_path: Path) -> None:
    made = Made(5)
    folder = made.save(tmp_path / "good")
    with stub.raises(CaptureError, why="there is no phase of that name"):
        stub.power_verdict(folder, "burst_2")
    del made.document["device"]["highest_sm_clock_mhz"]
    with stub.raises(CaptureError, why="the highest clock of the device is not named"):
        stub.power_verdict(made.save(tmp_path / "no clock"))
    made = Made(5)
    made.phases[1]["start_ns"] = made.phases[1]["end_ns"] - 10
    made.phases[1]["end_ns"] -= 5
    with stub.raises(CaptureError, why="no sample was taken in the phase"):
        stub.power_verdict(made.save(tmp_path / "short"))


# -- clock_verdict ------------------------------------------------------------------------------------

CLOCK = "GPC Clock Frequency [MHz]"
GHZ = 1_000_000_000


def judge_clock(stub: Any, capture: str, device: int = 0) -> str:
    """Hold a verdict against kernels and samples, a launch at a time; returns the expected category."""
    recording = captures.open(capture)
    samples = recording.gpu_metrics.filter(
        (pl.col("device") == device) & (pl.col("metric") == CLOCK)
    ).sort("timestamp_ns")
    kernels = (
        recording.kernels.filter(pl.col("device") == device)
        .with_columns(middle=(pl.col("start_ns") + pl.col("end_ns")) // 2)
        .sort("middle")
        .join_asof(samples, left_on="middle", right_on="timestamp_ns", strategy="forward")
        .drop_nulls("value")
    )
    likes = ["demangled_name", *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")]
    highest = pl.col("value").max().over(likes)
    rows = kernels.with_columns(highest=highest, full=pl.col("value") >= 0.98 * highest)
    lost = weighted = worked = 0.0
    for _, group in rows.group_by(likes):
        full = group.filter("full")["duration_ns"]
        if full.len() < 5:
            continue
        for ns, clock, top, fast in group.select(
            "duration_ns", "value", "highest", "full"
        ).iter_rows():
            if not fast:
                lost += max(0.0, min(ns - float(np.median(full.to_numpy())), ns - ns * clock / top))
            weighted += ns * clock / top
            worked += ns
    work = recording.device_operations.filter(pl.col("device") == device)
    start, end = work.select(pl.min("start_ns"), pl.max("end_ns")).row(0)
    window = end - start
    ratio = round(lost) / window
    category = "throttled" if ratio >= 0.10 else "healthy"
    got = stub.clock_verdict(capture, device) if device else stub.clock_verdict(capture)
    call = f"clock_verdict({Path(capture).name!r}{f', {device}' if device else ''})"
    require(isinstance(got, Finding), f"{call} returned {show(got)}, expected a Finding")
    wrong = problems(got)
    require(not wrong, f"{call}: {'; '.join(wrong)}")
    judge_row(
        f"evidence of {call}",
        got.evidence,
        {
            "recoverable_ns": float(round(lost)),
            "window_ns": float(window),
            "recoverable_ratio": ratio,
            "margin_ratio": ratio - 0.10,
            "clock_ratio": weighted / worked if worked else 1.0,
        },
        {
            "recoverable_ns": "Compare a launch with launches of the same kernel, grid and block at full "
            "clock, if there are enough of them. It loses no more than its lower clock explains",
            "clock_ratio": "Each launch's clock over the highest of its group, weighted by duration",
        },
    )
    require(
        got.category == category,
        f"{call} says {got.category}, but at full clock {ratio:.1%} of the window would not have been "
        "needed, and the floor is 10 %",
    )
    require(
        got.subject == f"device:{device}", f"{call} is about {got.subject}, not device:{device}"
    )
    borderline = abs(ratio - 0.10) <= 0.02
    require(
        got.recommendation.startswith("borderline") == borderline,
        f"{call} recommends {got.recommendation!r}; the share is {ratio:.2%} and the floor 10 %: within "
        "two points of it a verdict begins with borderline",
    )
    require(
        borderline or (got.recommendation == "none") == (category == "healthy"),
        f"{call} recommends {got.recommendation!r}, but it says {category}",
    )
    return category


@task("energy_ex01.clock_verdict")
@recordings("case_power_a", "torch_inference_baseline", "torch_inference_improved")
def test_clock_on_a_recording(stub: Any, recording: str) -> None:
    if captures.kind(recording) != "timeline":
        raise NotGraded("not run", f"{Path(recording).name} is no timeline")
    if captures.open(recording).gpu_metrics.filter(pl.col("metric") == CLOCK).is_empty():
        raise NotGraded("not run", f"{recording} has no clock: add --gpu-metrics-devices=all")
    judge_clock(stub, recording)


@task("energy_ex01.clock_verdict")
def test_clock_on_a_generated_timeline(stub: Any, generated: Any) -> None:
    judge_clock(stub, str(generated("gpu_metrics_low_sm").path))


def clocked(
    draw: Any, seed: int, slow: float, *, factor: float | None = None, fast: int = 8
) -> Any:
    """Launches of two kernels: `fast` of each at full clock, then more at `slow` of it.

    factor: how much longer they take then; None: as much as the clock says.
    """
    chance = random.Random(seed)
    timeline = draw()
    now = 1_000_000
    for place in range(5 * fast):
        clock = 1.0 if place < fast else slow
        for name, ns in (("product", 40_000), ("sum", 9_000)):
            longer = 1 / clock if factor is None or clock == 1 else factor
            length = round(ns * longer * chance.uniform(0.99, 1.01))
            timeline.kernel(now, now + length, name=name)
            now += length + 1_000
        timeline.sample(now - 500, {CLOCK: round(2 * GHZ * clock * chance.uniform(0.995, 1))})
        timeline.sample(now - 500, {CLOCK: GHZ // 3}, device=1)
    return timeline


@task("energy_ex01.clock_verdict")
@pytest.mark.parametrize(
    ("slow", "factor", "category"),
    [
        (0.7, None, "throttled"),
        (0.985, None, "healthy"),  # at full speed still
        (0.7, 1.0, "healthy"),  # memory sets the pace: the clock costs nothing
        (0.9, 1.5, "healthy"),  # longer, but not by the clock
        (0.8, 1.5, "throttled"),  # longer than the clock accounts for
        (0.88, None, "healthy"),
        (0.86, None, "throttled"),
    ],
)
def test_clock_of_drawn_launches(
    stub: Any, draw: Any, seed: int, slow: float, factor: float | None, category: str
) -> None:
    expected = judge_clock(stub, clocked(draw, seed, slow, factor=factor).save())
    assert expected == category, "the drawing is another case than it is meant to be"


@task("energy_ex01.clock_verdict")
@pytest.mark.parametrize("fast", [4, 5])
def test_a_few_launches_are_no_reference(stub: Any, draw: Any, seed: int, fast: int) -> None:
    expected = judge_clock(stub, clocked(draw, seed, 0.7, fast=fast).save())
    assert expected == ("healthy" if fast < 5 else "throttled")


@task("energy_ex01.clock_verdict")
def test_launches_are_held_against_their_likes(stub: Any, draw: Any) -> None:
    """Grid, block and whole name differ; one launch is behind the last sample, one on another device."""
    timeline = draw()
    now = 100_000
    axes = [what + axis for what in ("grid", "block") for axis in "XYZ"]
    for place in range(40):
        slow = place >= 20
        for axis, size in zip(axes, range(1, 7), strict=True):
            length = 5_000 * size if slow else 4_000 * size + place
            timeline.kernel(now, now + length, name="tiled")
            timeline._rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1][axis] = 7
            now += length
        for kind, size in (("float", 8), ("double", 40)):
            length = 1_250 * size if slow else 1_000 * size + place
            timeline.kernel(now, now + length, name="tiled")
            row = timeline._rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1]
            row["demangledName"] = timeline._string(f"void tiled<{kind}>({kind} *)")
            now += length
        timeline.copy(now, now + 3_000)
        timeline.graph(now + 3_000, now + 8_000)
        now += 8_000
        timeline.kernel(now - 40_000, now, device=1, stream=9)
        timeline.sample(
            now,
            {
                "SYS Clock Frequency [MHz]": (2 + slow) * GHZ,
                CLOCK: (3 - slow) * GHZ,
                "SMs Active [Throughput %]": 99,
            },
        )
        timeline.sample(now, {CLOCK: (1 + slow) * GHZ}, device=1)
    timeline.kernel(now + 1, now + 400_000, name="tiled")
    capture = timeline.save()
    judge_clock(stub, capture)
    judge_clock(stub, capture, 1)


@task("energy_ex01.clock_verdict")
def test_the_middle_of_a_launch_decides(stub: Any, draw: Any) -> None:
    timeline = draw()
    for place in range(12):
        start = 100_000 + 10_000 * place
        timeline.kernel(start, start + 6_000 + 3_000 * (place > 5))
    for time, clock in ((153_000, 2 * GHZ), (164_500, GHZ), (214_499, GHZ), (214_500, 2 * GHZ)):
        timeline.sample(time, {CLOCK: clock})
    judge_clock(stub, timeline.save())


@task("energy_ex01.clock_verdict")
@pytest.mark.parametrize("lost", [7_999, 8_000, 9_999, 10_000, 12_000, 12_001])
def test_clock_at_the_floor(stub: Any, draw: Any, lost: int) -> None:
    timeline = draw()
    for place in range(6):
        timeline.kernel(1_000 * place, 1_000 * place + 1_000)
    timeline.kernel(6_000, 7_000 + lost)
    timeline.memset(99_000, 100_000)
    timeline.sample(6_000, {CLOCK: 2 * GHZ})
    timeline.sample(90_000, {CLOCK: GHZ // 100})
    judge_clock(stub, timeline.save())


@task("energy_ex01.clock_verdict")
def test_clock_needs_samples_and_work(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.kernel(1_000, 2_000)
    timeline.sample(2_000, {"SMs Active [Throughput %]": 50})
    timeline.sample(2_000, {CLOCK: GHZ}, device=3)
    capture = timeline.save()
    with stub.raises(CaptureError, "gpu-metrics-devices", why="the clock was not sampled"):
        stub.clock_verdict(capture)
    with stub.raises(CaptureError, "device 3", why="nothing ran on device 3"):
        stub.clock_verdict(capture, 3)


@task("energy_ex01.clock_verdict")
def test_a_clock_of_98_percent_is_full_speed(stub: Any, draw: Any) -> None:
    timeline = draw()
    now = 10_000
    for place in range(16):
        clock, length = [(2 * GHZ, 1_000), (1_960_000_000, 1_100), (GHZ, 1_600)][min(place // 5, 2)]
        timeline.kernel(now, now + length)
        now += length
        timeline.sample(now, {CLOCK: clock})
    judge_clock(stub, timeline.save())
