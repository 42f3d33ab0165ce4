"""Convolutions over letters learn to tell what a message is about.

`--variant sick` looks up each letter's number in Python, message by message, right before a step.
`--variant fixed` has done so before the first step.
"""

from __future__ import annotations

import random

import case_recording as recording
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

MESSAGES, LENGTH, WIDTH, SUBJECTS = (4, 32, 8, 3) if recording.SMOKE else (640, 256, 384, 20)
LETTERS = "abcdefghijklmnopqrstuvwxyz .,-"


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(3))
        self.head = nn.Linear(WIDTH, SUBJECTS)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        x = self.letters(numbers).transpose(1, 2)
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(x.amax(-1))


class Learning(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(29)
        self.looks_up = variant == "sick"
        self.number_of = {letter: place for place, letter in enumerate(LETTERS)}
        chosen = random.Random(29)
        self.messages = ["".join(chosen.choices(LETTERS, k=LENGTH)) for _ in range(MESSAGES)]
        with recording.DEVICE:
            self.model = Reader().to(recording.DTYPE)
            self.subjects = torch.randint(0, SUBJECTS, (MESSAGES,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, foreach=True)
        self.ready = self.looked_up()

    def looked_up(self) -> torch.Tensor:
        numbers = np.empty((MESSAGES, LENGTH), dtype=np.int64)
        for place, message in enumerate(self.messages):
            numbers[place] = [self.number_of[letter] for letter in message]
        return recording.pinned(torch.from_numpy(numbers))

    def step(self, number: int) -> None:
        numbers = self.looked_up() if self.looks_up else self.ready
        said = self.model(numbers.to(recording.DEVICE, non_blocking=True))
        loss = F.cross_entropy(said, self.subjects)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=4, watch="torch")
    recording.run(Learning, arguments.variant, plan)


if __name__ == "__main__":
    main()
