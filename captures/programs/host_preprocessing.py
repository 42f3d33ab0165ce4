"""Image classification whose pictures are prepared with NumPy on the host.

`--variant inline` prepares each batch in the loop that launches the device's work.
`--variant prefetch` lets worker threads prepare the next batches meanwhile.
Both classify the same pictures and give the same labels.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import nn
from torch.cuda import nvtx

BATCH, SIDE, CHANNELS, BLOCKS, CLASSES = 48, 128, 384, 10, 100
WARM_UP_STEPS, STEPS, WORKERS, AHEAD = 12, 14, 6, 6
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)[:, None, None] * 255
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)[:, None, None] * 255


class Network(nn.Module):
    """Pictures (batch, 3, side, side) to logits (batch, classes)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, CHANNELS, kernel_size=4, stride=4)
        self.blocks = nn.ModuleList(
            nn.Conv2d(CHANNELS, CHANNELS, kernel_size=3, padding=1) for _ in range(BLOCKS)
        )
        self.head = nn.Linear(CHANNELS, CLASSES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        x = self.patches(pictures.to(torch.bfloat16).contiguous(memory_format=torch.channels_last))
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.head(x.mean(dim=(2, 3)))


class Pictures:
    """Raw pictures on the host and the pinned buffers that prepared ones are written to."""

    def __init__(self) -> None:
        generator = np.random.default_rng(3)
        self.raw = generator.integers(0, 256, (4, BATCH, SIDE, SIDE, 3), dtype=np.uint8)
        self.flip = generator.random((64, BATCH)) < 0.5
        self.buffers = [
            torch.empty(BATCH, 3, SIDE, SIDE, pin_memory=True) for _ in range(AHEAD + 2)
        ]
        self.copied = [torch.cuda.Event() for _ in self.buffers]

    def prepare(self, step: int) -> torch.Tensor:
        """Normalise, compress and flip one batch; returns a pinned (batch, 3, side, side) tensor."""
        with nvtx.range("preprocess"):
            place = step % len(self.buffers)
            self.copied[place].synchronize()
            out = self.buffers[place].numpy()
            np.copyto(out, self.raw[step % 4].transpose(0, 3, 1, 2))
            np.subtract(out, MEAN, out=out)
            np.divide(out, DEVIATION, out=out)
            np.tanh(out, out=out)
            np.arctan(out, out=out)
            flip = self.flip[step % 64]
            out[flip] = out[flip, :, :, ::-1]
            return self.buffers[place]


def in_line(pictures: Pictures, steps: range) -> Iterator[tuple[int, torch.Tensor]]:
    for step in steps:
        yield step, pictures.prepare(step)


def prefetched(
    pictures: Pictures, steps: range, workers: ThreadPoolExecutor
) -> Iterator[tuple[int, torch.Tensor]]:
    waiting: deque[tuple[int, Future[torch.Tensor]]] = deque()
    ahead = iter(steps)
    for step in ahead:
        waiting.append((step, workers.submit(pictures.prepare, step)))
        if len(waiting) == AHEAD:
            break
    while waiting:
        step, future = waiting.popleft()
        with nvtx.range("wait_for_batch"):
            batch = future.result()
        yield step, batch
        following = next(ahead, None)
        if following is not None:
            waiting.append((following, workers.submit(pictures.prepare, following)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("inline", "prefetch"), required=True)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    network = Network().to("cuda", torch.bfloat16).to(memory_format=torch.channels_last).eval()
    pictures = Pictures()
    workers = ThreadPoolExecutor(WORKERS)

    steps = range(WARM_UP_STEPS + 2 * STEPS)
    if arguments.variant == "inline":
        batches = in_line(pictures, steps)
    else:
        batches = prefetched(pictures, steps, workers)

    def run(count: int) -> torch.Tensor:
        labels = []
        for _ in range(count):
            with nvtx.range("step"):
                step, batch = next(batches)
                with nvtx.range("copy_in"):
                    on_device = batch.to("cuda", non_blocking=True)
                    pictures.copied[step % len(pictures.buffers)].record()
                with nvtx.range("forward"):
                    labels.append(network(on_device).argmax(dim=-1))
        return torch.cat(labels)

    with torch.inference_mode():
        run(WARM_UP_STEPS)
        torch.cuda.synchronize()
        start = time.perf_counter()
        run(STEPS)
        torch.cuda.synchronize()
        untraced_s = time.perf_counter() - start

        torch.cuda.profiler.start()
        start = time.perf_counter()
        with nvtx.range("classification"):
            labels = run(STEPS)
            torch.cuda.synchronize()
        traced_s = time.perf_counter() - start
        torch.cuda.profiler.stop()
    workers.shutdown()

    result = {
        "steps": STEPS,
        "steps_per_s": round(STEPS / untraced_s, 1),
        "steps_per_s_traced": round(STEPS / traced_s, 1),
        "checksum": sum((i + 1) * label for i, label in enumerate(labels.tolist())),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
