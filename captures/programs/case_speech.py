"""Convolutions and a transformer listen to recordings of different length, compiled for exact shapes.

`--variant sick` gives each recording at its own length, and no two are equally long.
`--variant fixed` fills all up to one length.
Compiled by `aot_eager`: traced as for the default backend, and no kernels are generated and tried out.
"""

from __future__ import annotations

import itertools

import case_recording as recording
import torch
import torch.nn.functional as F
from case_layers import Block
from torch import nn

BANDS, WIDTH, HEADS, LAYERS, LETTERS, BATCH, LONGEST = (
    (4, 16, 2, 1, 8, 2, 512) if recording.SMOKE else (80, 512, 8, 2, 64, 192, 2048)
)


class Listener(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(BANDS, WIDTH, 3, 2, 1)
        self.second = nn.Conv1d(WIDTH, WIDTH, 3, 2, 1)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.second(F.gelu(self.first(sound)))).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x).argmax(-1)


class Listening(recording.Work):
    def __init__(self, variant: str) -> None:
        import torch._dynamo

        torch.manual_seed(16)
        torch._dynamo.config.recompile_limit = 1_000
        torch._dynamo.config.accumulated_recompile_limit = 1_000
        self.own_lengths = variant == "sick"
        with recording.DEVICE:
            self.plain = Listener().to(recording.DTYPE).eval()
            self.sound = torch.randn(BATCH, BANDS, LONGEST, dtype=recording.DTYPE)
        self.model = torch.compile(self.plain, dynamic=False, backend="aot_eager")
        self.lengths = itertools.count(LONGEST, -8)

    @torch.no_grad()
    def step(self, number: int) -> None:
        sound = self.sound
        if self.own_lengths:
            sound = sound[:, :, : next(self.lengths)]
        self.letters = self.model(sound)


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    sick = arguments.variant == "sick"
    plan = recording.Plan(
        recorded_steps=2 if sick else 10, timed_steps=2, rounds=5, warm_up_steps=1, watch="torch"
    )
    recording.run(Listening, arguments.variant, plan)


if __name__ == "__main__":
    main()
