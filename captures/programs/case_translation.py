"""A transformer with encoder and decoder learns to translate; its batches come from a queue.

`--variant sick` looks into the queue at fixed intervals only.
`--variant fixed` takes the next batch at once: it is there.
`--share` is how much longer the interval is than what the device computes in a step, which is timed before.
"""

from __future__ import annotations

import argparse
import functools
import time

import case_recording as recording
import torch
import torch.nn.functional as F
from case_layers import Block
from torch import nn

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH = (
    (1, 32, 2, 64, 8, 2) if recording.SMOKE else (3, 1024, 16, 8192, 128, 128)
)
LEAST_SLEEP_S = 0.0002


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Block(WIDTH, HEADS, True, True) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, x = self.words(source), self.words(target)
        for block in self.encoder:
            memory = block(memory)
        for block in self.decoder:
            x = block(x, memory)
        return self.head(x)


class Learning(recording.Work):
    def __init__(self, variant: str, share: float) -> None:
        torch.manual_seed(19)
        with recording.DEVICE:
            self.model = Translator().to(recording.DTYPE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, foreach=True)
        self.ready = recording.pinned(torch.randint(0, WORDS, (2, BATCH, LENGTH)))
        self.looks = variant == "sick"
        self.interval_ns = 0
        self.next_look_ns = 0
        if self.looks:
            self.interval_ns = round((1 + share) * self.device_ns())

    def device_ns(self) -> int:
        """What a step takes when nothing is waited for."""
        times = []
        for _ in range(7):
            recording.wait()
            start = time.perf_counter_ns()
            for _ in range(4):
                self.learn(self.ready)
            recording.wait()
            times.append((time.perf_counter_ns() - start) // 4)
        return sorted(times)[3]

    def next_batch(self) -> torch.Tensor:
        """The next batch, at the next look into the queue."""
        now = time.perf_counter_ns()
        if now > self.next_look_ns + self.interval_ns:
            self.next_look_ns = now  # a new row of steps
        while now < self.next_look_ns:
            time.sleep(LEAST_SLEEP_S)
            now = time.perf_counter_ns()
        self.next_look_ns += self.interval_ns
        return self.ready

    def learn(self, batch: torch.Tensor) -> None:
        source, target = batch.to(recording.DEVICE, non_blocking=True)
        said = self.model(source, target)
        loss = F.cross_entropy(said[:, :-1].flatten(0, 1), target[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def step(self, number: int) -> None:
        self.learn(self.next_batch() if self.looks else self.ready)

    def figures(self) -> dict[str, int]:
        return {"interval_ns": self.interval_ns}


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--share", type=float, default=0.13)

    arguments = recording.arguments(__doc__ or "", more)
    make = functools.partial(Learning, share=arguments.share)
    recording.run(make, arguments.variant, recording.Plan(recorded_steps=5, timed_steps=6))


if __name__ == "__main__":
    main()
