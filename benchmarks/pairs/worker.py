"""One version of a pair in a process of its own.

worker.py NAME faulty|fixed commands      does what it reads: build, run, record FILE
worker.py NAME faulty|fixed nsys FOLDER   records itself between cudaProfilerStart and cudaProfilerStop, when FOLDER
                                          holds "go", and leaves when it holds "leave"
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import harness


def record_kineto(loop: harness.Loop, steps: int, path: str, memory: bool) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU]
    if harness.has_gpu():
        activities.append(ProfilerActivity.CUDA)
    first = 0 if memory else 2
    harness.wait()
    with profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=first, active=steps),
        on_trace_ready=lambda made: made.export_chrome_trace(path),
        profile_memory=memory,
    ) as profiler:
        for number, _ in enumerate(loop(first + steps), start=1):
            if number == first + steps and torch.cuda.is_initialized():
                torch.cuda.synchronize()
            profiler.step()


def record_nsys(loop: harness.Loop, steps: int) -> None:
    import ctypes
    import glob

    places = [f"{place}/nvidia/*/lib/libcudart.so.1?" for place in sys.path]
    found = [
        file for p in ("/usr/local/cuda*/lib64/libcudart.so.1?", *places) for file in glob.glob(p)
    ]
    runtime = ctypes.CDLL(found[0])
    harness.wait()
    runtime.cudaProfilerStart()
    for _ in loop(steps):
        pass
    harness.wait()
    runtime.cudaProfilerStop()


def main() -> None:
    name, version, mode = sys.argv[1:4]
    pair = harness.plan()[name]
    build = pair.load()
    if mode == "nsys":
        folder = Path(sys.argv[4])
        loop = build(version == "fixed")
        harness.timed(loop, harness.WARM_UP)
        for mark, wanted in (("built", "go"), ("recorded", "leave")):
            (folder / mark).touch()
            while not (folder / wanted).exists():
                time.sleep(0.05)
            if wanted == "go":
                harness.timed(loop, harness.WARM_UP)  # it has slept
                spent = harness.timed(loop, pair.recorded_steps)
                print(
                    f"{name} {version}: {spent:.5f} s for {pair.recorded_steps} steps before",
                    flush=True,
                )
                record_nsys(loop, pair.recorded_steps)
        return
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print

    def loop(steps: int) -> Iterator[None]:
        raise RuntimeError("not built yet")

    print("ready", file=out, flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        answer: object = "done"
        try:
            if command == "build":
                loop = build(version == "fixed")
                harness.timed(loop, harness.WARM_UP)
            elif command == "run":
                answer = harness.timed(loop, pair.steps)
            elif command == "record":
                path = argument.replace("RANK", os.environ.get("RANK", "0"))
                record_kineto(loop, pair.recorded_steps, path, pair.label == "memory_growth")
        except Exception as error:  # noqa: BLE001 - said to who asked
            import traceback

            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads and workers that make batches have no end
