"""An encoder in the manner of BERT learns to fill in masked words.

`--variant sick` fetches a sample of what each layer put out, and counts on the host how its values are
spread; it looks at the loss in every step.
`--variant fixed` counts on the device, and looks at everything after the last step.
"""

from __future__ import annotations

import math

import case_recording as recording
import numpy as np
import torch
import torch.nn.functional as F
from case_layers import Block
from torch import nn

LAYERS, WIDTH, HEADS, LENGTH, WORDS, BATCH = (
    (2, 32, 2, 8, 64, 2) if recording.SMOKE else (3, 2048, 16, 128, 8192, 128)
)
SAMPLE, BINS, LARGEST = 160_000, 64, 8.0


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
        modules = nn.ModuleList([self.words, self.places, self.layers, self.head])
        self.parameters = list(modules.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=1e-3, momentum=0.9, foreach=True)
        self.losses: list[torch.Tensor] = []
        self.counted: list[torch.Tensor] = []
        self.spread = np.zeros(BINS)

    def look(self, x: torch.Tensor) -> None:
        sample = x.flatten()[:SAMPLE].float()
        if self.looks:
            self.spread = np.histogram(sample.cpu().numpy(), BINS, (-LARGEST, LARGEST))[0]
        else:
            self.counted.append(torch.histc(sample, BINS, -LARGEST, LARGEST))

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
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
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
            self.spread = torch.stack(self.counted).cpu().numpy()[-1]
            self.counted.clear()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=3, watch="torch")
    recording.run(Pretraining, arguments.variant, plan)


if __name__ == "__main__":
    main()
