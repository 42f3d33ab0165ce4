"""A small training loop whose device waits for one line of Python, or for none.

`--variant logging` reads the loss on the host each step, in a helper's helper.
`--variant masking` picks rows by a mask, whose number the host must know before it goes on.
`--variant clean` keeps the losses on the device and weights rows instead of picking them.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from torch import nn
from torch.cuda import nvtx

ROWS, WIDTH, WARM_UP_STEPS, STEPS = 16_384, 16_384, 6, 4


class Network(nn.Module):
    """Rows (rows, width) to one number each, element by element, without a matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(WIDTH))
        self.shift = nn.Parameter(torch.zeros(WIDTH))
        self.weight = nn.Parameter(torch.randn(WIDTH) / WIDTH)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        kept = rows * self.gate(rows)
        return torch.mv(kept, self.weight)

    def gate(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(rows * self.scale + self.shift)


class Meter:
    """A running mean of the loss, as many training scripts have one."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, loss: torch.Tensor) -> None:
        self.total += self.read(loss)
        self.count += 1

    def read(self, loss: torch.Tensor) -> float:
        return loss.item()


class Trainer:
    """One model, its data on the device, and a step."""

    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        rows = ROWS if self.device == "cuda" else 64
        self.network = Network().to(self.device)
        self.rows = torch.randn(rows, WIDTH, device=self.device)
        self.labels = torch.randn(rows, device=self.device)
        self.known = torch.rand(rows, device=self.device) < 0.7
        self.weight = self.known.float() / self.known.float().sum()
        self.losses: list[torch.Tensor] = []
        self.meter = Meter()

    def loss(self, predicted: torch.Tensor) -> torch.Tensor:
        error = (predicted - self.labels) ** 2
        if self.variant == "masking":
            return self.pick(error).mean()
        return (error * self.weight).sum()

    def pick(self, error: torch.Tensor) -> torch.Tensor:
        return error[self.known]

    def apply(self) -> None:
        with torch.no_grad():
            for parameter in self.network.parameters():
                parameter -= 1e-3 * parameter.grad
                parameter.grad = None

    def step(self) -> None:
        predicted = self.network(self.rows)
        loss = self.loss(predicted)
        loss.backward()
        self.apply()
        if self.variant == "logging":
            self.meter.update(loss)
        else:
            self.losses.append(loss.detach())


def run(trainer: Trainer, steps: int) -> None:
    for _ in range(steps):
        with nvtx.range("step"):
            trainer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("logging", "masking", "clean"), required=True)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    trainer = Trainer(arguments.variant)
    run(trainer, WARM_UP_STEPS)
    torch.cuda.synchronize()
    start = time.perf_counter()
    run(trainer, STEPS)
    torch.cuda.synchronize()
    untraced_s = time.perf_counter() - start

    torch.cuda.profiler.start()
    with nvtx.range("training"):
        run(trainer, STEPS)
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()

    last = trainer.meter.total if arguments.variant == "logging" else float(trainer.losses[-1])
    print("RESULT", json.dumps({"steps": STEPS, "untraced_s": round(untraced_s, 6), "loss": last}))


if __name__ == "__main__":
    main()
