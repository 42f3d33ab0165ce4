"""What the profiler costs the steps that it watches, by what it is told to note.

Steps of profile_training.py, one model, all ways in turns in one process: without the profiler, and with it
noting more and more. Every sample is the wall time of one step, from one wait for the device to the
next; a round of a way is WARM_UP steps that are thrown away (the profiler's own warm-up among them) and
SAMPLES that count. `file_bytes` is the size of the trace that such a round writes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

program: Any = importlib.import_module("profile_training")  # copied beside this one

ROUNDS, WARM_UP, SAMPLES = 4, 3, 6
WAYS: dict[str, dict[str, bool] | None] = {
    "none": None,
    "device_only": {},
    "cpu_and_device": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "stacks": {"with_stack": True},
    "everything": {"record_shapes": True, "profile_memory": True, "with_stack": True},
}


def round_of(way: str, training: program.Training, batch: program.Batch) -> tuple[list[int], int]:
    """Times of the steps of a round in ns, and the size of its trace."""
    options = WAYS[way]
    profiler = None
    if options is not None:
        watched = program.activities(training.device)
        if way == "device_only" and ProfilerActivity.CUDA in watched:
            watched = [ProfilerActivity.CUDA]
        plan = schedule(wait=0, warmup=WARM_UP, active=SAMPLES, repeat=1)
        profiler = profile(activities=watched, schedule=plan, **options)
        profiler.start()
    times = []
    for _ in range(WARM_UP + SAMPLES):
        program.wait(training.device)
        start = time.perf_counter_ns()
        training.step(iter([batch]))
        program.wait(training.device)
        times.append(time.perf_counter_ns() - start)
        if profiler is not None:
            profiler.step()
    size = 0
    if profiler is not None:
        profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "trace.json")
            profiler.export_chrome_trace(file)
            size = os.path.getsize(file)
    return times[WARM_UP:], size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    training = program.Training(device, given.width, given.batch, ready=False)
    batch = training.prepare(0)
    samples: dict[str, list[int]] = {way: [] for way in WAYS}
    sizes = dict.fromkeys(WAYS, 0)
    for number in range(ROUNDS + 1):  # the first round warms up
        for way in WAYS:
            times, sizes[way] = round_of(way, training, batch)
            training.losses.clear()
            if number:
                samples[way] += times
    out = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "width": given.width,
        "batch": given.batch,
        "samples_ns": samples,
        "file_bytes": sizes,
        "steps_in_file": SAMPLES,
    }
    Path("overhead.json").write_text(json.dumps(out, indent=1), encoding="utf-8")
    print("RESULT", json.dumps({"ways": len(WAYS), "samples": ROUNDS * SAMPLES}))


if __name__ == "__main__":
    main()
