"""Conjugate gradients solve a dense system of equations, one iteration a step.

`--variant sick` fetches both scalar products of an iteration, and computes with them on the host.
`--variant fixed` leaves them on the device, and looks at the residual once in 32 iterations.
`--unknowns` is the number of equations: what a fetch costs stays the same, the rest grows with it.
"""

from __future__ import annotations

import argparse
import functools

import case_recording as recording
import torch

UNKNOWNS = 48 if recording.SMOKE else 14_336
LOOKS_EVERY = 32
LEAST_SHARE = 1e-9  # of the first residual: solved


class Solving(recording.Work):
    def __init__(self, variant: str, unknowns: int) -> None:
        torch.manual_seed(25)
        self.fetches = variant == "sick"
        with recording.DEVICE:
            self.matrix = torch.rand(unknowns, unknowns)
            self.matrix += self.matrix.T.clone()
            self.matrix.diagonal().add_(torch.linspace(4, 900, unknowns) * unknowns / 100)
            self.right_side = torch.rand(unknowns)
        self.restart()

    def restart(self) -> None:
        self.found = torch.zeros_like(self.right_side)
        self.residual = self.right_side.clone()
        self.direction = self.residual.clone()
        first = self.residual @ self.residual
        self.squared = first.item() if self.fetches else first
        self.least = LEAST_SHARE * first.item()

    def step(self, number: int) -> None:
        (self.iterate_fetching if self.fetches else self.iterate)()
        looks = self.fetches or number % LOOKS_EVERY == LOOKS_EVERY - 1
        if looks and float(self.squared) < self.least:
            self.restart()

    def iterate_fetching(self) -> None:
        product = self.matrix @ self.direction
        length = self.squared / (self.direction @ product).item()
        self.found.add_(self.direction, alpha=length)
        self.residual.sub_(product, alpha=length)
        squared = (self.residual @ self.residual).item()
        self.direction.mul_(squared / self.squared).add_(self.residual)
        self.squared = squared

    def iterate(self) -> None:
        product = self.matrix @ self.direction
        length = self.squared / (self.direction @ product)
        self.found.addcmul_(self.direction, length)
        self.residual.addcmul_(product, length, value=-1)
        squared = self.residual @ self.residual
        self.direction.mul_(squared / self.squared).add_(self.residual)
        self.squared = squared


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--unknowns", type=int, default=UNKNOWNS)

    arguments = recording.arguments(__doc__ or "", more)
    make = functools.partial(Solving, unknowns=UNKNOWNS if recording.SMOKE else arguments.unknowns)
    plan = recording.Plan(recorded_steps=48, timed_steps=64)
    with torch.no_grad():
        recording.run(make, arguments.variant, plan)


if __name__ == "__main__":
    main()
