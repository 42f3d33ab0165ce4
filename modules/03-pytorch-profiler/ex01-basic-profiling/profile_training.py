"""A small training loop with named phases, and the profiler around it: a program to practise on.

    python profile_training.py                          # train; how long is a step?
    python profile_training.py --profile                # the same, and write trace.json
    python profile_training.py --profile --data ready   # other threads prepare the batches
    python profile_training.py --cpu --steps 12         # without a GPU, small

Open the trace at https://ui.perfetto.dev (it stays in the browser). The program needs torch and numpy and
runs on a CPU or on one GPU.

`--profile` watches PROFILED_STEPS steps after FIRST_STEPS others, writes `trace.json` and
`key_averages.json` (torch's table of operators) into the current folder, and changes nothing of what is
trained: the checksum of the losses is the same with and without it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

FIRST_STEPS, PROFILED_STEPS = 5, 3
WORKERS = 8

Batch = tuple[torch.Tensor, torch.Tensor]


class Training:
    """A model, its optimizer, and batches that the host prepares.

    width, batch: size of a layer, examples in a batch. ready: whether WORKERS threads prepare batches
    ahead; else each batch is prepared when it is asked for.
    """

    def __init__(self, device: torch.device, width: int, batch: int, *, ready: bool) -> None:
        torch.manual_seed(0)
        self.device, self.width, self.batch, self.ready = device, width, batch, ready
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Linear(width, width), nn.GELU()]
        self.model = nn.Sequential(*layers, nn.Linear(width, 16)).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.losses: list[torch.Tensor] = []
        random = np.random.default_rng(0)
        self.raw = random.integers(0, 256, (2 * batch, width), dtype=np.uint8)
        self.labels = random.integers(0, 16, 2 * batch)

    def prepare(self, number: int) -> Batch:
        """Batch `number`: chosen, normalised, and in memory that the device can read from by itself."""
        rows = np.random.default_rng(number).permutation(len(self.raw))[: self.batch]
        examples = self.raw[rows].astype(np.float32)
        examples -= examples.mean(axis=1, keepdims=True)
        examples /= examples.std(axis=1, keepdims=True)
        batch = torch.from_numpy(examples), torch.from_numpy(self.labels[rows])
        if self.device.type == "cuda":
            return batch[0].pin_memory(), batch[1].pin_memory()
        return batch

    def batches(self, count: int) -> Iterator[Batch]:
        """The batches in their order."""
        if not self.ready:
            yield from map(self.prepare, range(count))
            return
        with ThreadPoolExecutor(WORKERS) as workers:
            ahead: collections.deque[Future[Batch]] = collections.deque()
            for number in range(count + WORKERS):
                if number < count:
                    ahead.append(workers.submit(self.prepare, number))
                if number >= WORKERS:
                    yield ahead.popleft().result()

    def step(self, batches: Iterator[Batch]) -> None:
        """One training step, in five named phases."""
        with record_function("data"):
            examples, labels = next(batches)
            examples = examples.to(self.device, non_blocking=True)
            labels = labels.to(self.device, non_blocking=True)
        with record_function("forward"):
            loss = F.cross_entropy(self.model(examples), labels)
        with record_function("backward"):
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with record_function("optimizer"):
            self.optimizer.step()
        with record_function("log"):
            self.losses.append(loss.detach())  # read after the last step: reading is waiting


def wait(device: torch.device) -> None:
    """Let the device finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def activities(device: torch.device) -> list[ProfilerActivity]:
    """What the profiler can watch here."""
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    return both if device.type == "cuda" else both[:1]


def watched(
    device: torch.device, on: Callable[[profile], None]
) -> contextlib.AbstractContextManager[Any]:
    """A profiler that skips FIRST_STEPS steps, the last two of them with the profiler warming up."""
    return profile(
        activities=activities(device),
        schedule=schedule(wait=FIRST_STEPS - 2, warmup=2, active=PROFILED_STEPS, repeat=1),
        on_trace_ready=on,
    )


def write(profiler: profile) -> None:
    """Write the trace, and the table of operators with the names of this torch's columns."""
    profiler.export_chrome_trace("trace.json")
    rows = [
        {
            "name": row.key,
            "calls": row.count,
            "device_type": row.device_type.name,  # CPU: an operator; CUDA: a kernel, or a range's mark
            "is_user_annotation": bool(getattr(row, "is_user_annotation", False)),
            "self_cpu_time_total": row.self_cpu_time_total,
            "cpu_time_total": row.cpu_time_total,
            "self_device_time_total": row.self_device_time_total,
            "device_time_total": row.device_time_total,
        }
        for row in profiler.key_averages()
    ]
    text = ",\n".join(json.dumps(row) for row in rows)
    Path("key_averages.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def main() -> None:
    """Train, and watch some of the steps if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", choices=("inline", "ready"), default="inline")
    parser.add_argument("--steps", type=int, default=FIRST_STEPS + PROFILED_STEPS + 12)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--profile", action="store_true", help="write trace.json")
    parser.add_argument("--cpu", action="store_true", help="use no GPU, and small shapes")
    given = parser.parse_args()
    if given.steps <= FIRST_STEPS + PROFILED_STEPS:
        parser.error(f"--steps: more than {FIRST_STEPS + PROFILED_STEPS}")

    small = given.cpu or not torch.cuda.is_available()
    device = torch.device("cpu" if small else "cuda")
    width, batch = (64, 128) if small else (given.width, given.batch)
    training = Training(device, width, batch, ready=given.data == "ready")
    batches = training.batches(given.steps)
    times_ms = []
    rest_start = 0.0
    with watched(device, write) if given.profile else contextlib.nullcontext() as profiler:
        for number in range(given.steps):
            if number == FIRST_STEPS + PROFILED_STEPS:
                wait(device)
                rest_start = time.perf_counter()
            start = time.perf_counter()
            training.step(batches)
            if profiler is not None:
                profiler.step()
            times_ms.append((time.perf_counter() - start) * 1e3)
        wait(device)
    rest = given.steps - FIRST_STEPS - PROFILED_STEPS
    rest_ms = (time.perf_counter() - rest_start) * 1e3 / rest
    losses = torch.stack(training.losses).tolist()
    report = {
        "data": given.data,
        "steps": given.steps,
        "step_ms": [round(x, 3) for x in times_ms],  # of the host: it need not wait for the device
        "rest_step_ms": round(
            rest_ms, 3
        ),  # a step after the recording, with the device's work done
        "checksum": round(sum(losses), 4),
    }
    print("RESULT", json.dumps(report))


if __name__ == "__main__":
    main()
