"""A small network says how a swarm moves, and Runge and Kutta's method follows it through time.

`--variant sick` issues every kernel of every stage.
`--variant fixed` replays one CUDA graph a step.
"""

from __future__ import annotations

import case_recording as recording
import torch
from torch import nn

BODIES, VALUES, HIDDEN, STEPS_AT_A_TIME = (8, 4, 16, 1) if recording.SMOKE else (256, 32, 512, 4)
INTERVAL = 0.01


class Following(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(28)
        with recording.DEVICE:
            self.moves = nn.Sequential(
                nn.Linear(VALUES, HIDDEN),
                nn.Tanh(),
                nn.Linear(HIDDEN, HIDDEN),
                nn.Tanh(),
                nn.Linear(HIDDEN, VALUES),
            ).to(recording.DTYPE)
            self.places = torch.randn(BODIES, VALUES, dtype=recording.DTYPE)
        self.graph = None
        if variant == "fixed" and not recording.SMOKE:
            self.graph = self.captured()

    def captured(self) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.follow()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.follow()
        return graph

    @torch.no_grad()
    def follow(self) -> None:
        x = self.places
        for _ in range(STEPS_AT_A_TIME):
            first = self.moves(x)
            second = self.moves(x + INTERVAL / 2 * first)
            third = self.moves(x + INTERVAL / 2 * second)
            fourth = self.moves(x + INTERVAL * third)
            x = x + INTERVAL / 6 * (first + 2 * second + 2 * third + fourth)
        self.places.copy_(x.clamp(-4, 4))

    def step(self, number: int) -> None:
        if self.graph is None:
            self.follow()
        else:
            self.graph.replay()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=4, timed_steps=20, watch="torch")
    recording.run(Following, arguments.variant, plan)


if __name__ == "__main__":
    main()
