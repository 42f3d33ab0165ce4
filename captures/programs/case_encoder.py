"""An encoder in the manner of BERT learns to fill in masked words.

`--variant sick` looks after every layer whether a number has become infinite, before it goes on, and at
the loss and the size of the gradients in every step.
`--variant fixed` keeps these answers on the device and looks at them after the last step.
"""

from __future__ import annotations

import math

import case_recording as recording
import torch
import torch.nn.functional as F
from case_layers import Block
from torch import nn

LAYERS, WIDTH, HEADS, LENGTH, WORDS, BATCH = (
    (2, 32, 2, 8, 64, 2) if recording.SMOKE else (6, 1024, 16, 128, 8192, 64)
)


class Pretraining(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(5)
        self.looks = variant == "sick"
        with recording.DEVICE:
            self.words = nn.Embedding(WORDS, WIDTH).to(recording.DTYPE)
            self.places = nn.Embedding(LENGTH, WIDTH).to(recording.DTYPE)
            self.layers = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
            self.layers.to(recording.DTYPE)
            self.head = nn.Linear(WIDTH, WORDS).to(recording.DTYPE)
            self.text = torch.randint(0, WORDS, (BATCH, LENGTH))
            self.masked = torch.rand(BATCH, LENGTH) < 0.15
            self.finite = torch.ones((), dtype=torch.bool)
        modules = nn.ModuleList([self.words, self.places, self.layers, self.head])
        self.parameters = list(modules.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=1e-3, momentum=0.9, foreach=True)
        self.losses: list[torch.Tensor] = []

    def look(self, x: torch.Tensor) -> None:
        finite = torch.isfinite(x.sum())
        if self.looks:
            if not finite.item():
                raise SystemExit("a number is not finite")
        else:
            self.finite.logical_and_(finite)

    def step(self, number: int) -> None:
        words = self.text.masked_fill(self.masked, 0)
        x = self.words(words) + self.places.weight
        for layer in self.layers:
            x = layer(x)
            self.look(x.detach())
        targets = self.text.masked_fill(~self.masked, -100)
        loss = F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten(), ignore_index=-100)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.look(norm.detach())
        self.optimizer.step()
        if self.looks:
            if not math.isfinite(loss.item()):
                raise SystemExit("the loss is not finite")
        else:
            self.losses.append(loss.detach())

    def finish(self) -> None:
        if self.losses:
            torch.stack(self.losses).cpu()
            self.losses.clear()
            if not self.finite.item():
                raise SystemExit("a number was not finite")


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=3, watch="torch", stacks=arguments.variant == "sick")
    recording.run(Pretraining, arguments.variant, plan)


if __name__ == "__main__":
    main()
