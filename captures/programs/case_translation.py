"""A transformer with encoder and decoder learns to translate; its batches are made from raw text.

`--variant sick` makes each batch, word by word, right before it is used.
`--variant fixed` takes batches that were made before.
`--share` is how much longer the host is at it in a step than the device computes: the length of the raw
texts is chosen for that, after both have been timed.
"""

from __future__ import annotations

import argparse
import functools
import random
import time

import case_recording as recording
import torch
import torch.nn.functional as F
from case_layers import Block
from torch import nn

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH = (
    (1, 32, 2, 64, 8, 2) if recording.SMOKE else (3, 1024, 16, 8192, 128, 128)
)


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
        spelled = [f"w{number}" for number in range(WORDS)]
        self.number_of = {word: number for number, word in enumerate(spelled)}
        self.text = random.Random(19).choices(spelled, k=400_000)
        self.makes = variant == "sick"
        self.words_read = 0
        self.ready = self.made(1_000, 0)
        self.words_read = 1_000 if recording.SMOKE else self.chosen_length(share)

    def made(self, words_read: int, number: int) -> torch.Tensor:
        """A batch of numbers: all words read are looked up, and the first ones are taken."""
        first = number * 997 % 1000
        counted: dict[str, int] = {}
        numbers = []
        for word in self.text[first : first + words_read]:
            counted[word] = counted.get(word, 0) + 1
            numbers.append(self.number_of[word])
        wanted = 2 * BATCH * LENGTH
        numbers = (numbers * (wanted // len(numbers) + 1))[:wanted]
        return recording.pinned(torch.tensor(numbers).view(2, BATCH, LENGTH))

    def chosen_length(self, share: float) -> int:
        """Words to read, so that the host takes 1 + share of the device's time for a step."""

        def median_s(words_read: int) -> float:
            """A step's time; without words to read, that of the device alone."""
            times = []
            for number in range(5):
                recording.wait()
                start = time.perf_counter()
                for step in range(3):
                    self.learn(self.made(words_read, number + step) if words_read else self.ready)
                recording.wait()
                times.append((time.perf_counter() - start) / 3)
            return sorted(times)[2]

        median_s(0)
        few, many = 150_000, 300_000  # for both, the device waits for the host
        costs = {words_read: median_s(words_read) for words_read in (few, many)}
        each = (costs[many] - costs[few]) / (many - few)
        wanted = (1 + share) * median_s(0)
        return max(1_000, min(390_000, round(few + (wanted - costs[few]) / each)))

    def learn(self, batch: torch.Tensor) -> None:
        source, target = batch.to(recording.DEVICE, non_blocking=True)
        said = self.model(source, target)
        loss = F.cross_entropy(said[:, :-1].flatten(0, 1), target[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def step(self, number: int) -> None:
        self.learn(self.made(self.words_read, number) if self.makes else self.ready)

    def figures(self) -> dict[str, int]:
        return {"words_read": self.words_read}


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--share", type=float, default=0.14)

    arguments = recording.arguments(__doc__ or "", more)
    make = functools.partial(Learning, share=arguments.share)
    recording.run(make, arguments.variant, recording.Plan(recorded_steps=8, timed_steps=4))


if __name__ == "__main__":
    main()
