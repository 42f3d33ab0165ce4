"""A transformer with encoder and decoder learns to translate; its batches are made from packed text.

`--variant sick` unpacks and makes each batch right before it is used.
`--variant fixed` takes batches that were made before.
`--share` is how much longer the host is at it in a step than the device computes: the number of
packed texts is chosen for that, after both have been timed.
"""

from __future__ import annotations

import argparse
import functools
import random
import time
import zlib

import case_recording as recording
import numpy as np
import torch
import torch.nn.functional as F
from case_layers import Block
from torch import nn

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH = (
    (1, 32, 2, 64, 8, 2) if recording.SMOKE else (3, 1024, 16, 8192, 128, 384)
)
PACKED_BYTES = 16_384


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
        letters = random.Random(19).choices(range(32), k=PACKED_BYTES)
        self.packed = zlib.compress(bytes(letters), 6)
        self.makes = variant == "sick"
        self.texts_read = 0
        self.ready = self.made(4)
        if self.makes:
            self.texts_read = 4 if recording.SMOKE else self.chosen_count(share)

    def made(self, texts_read: int) -> torch.Tensor:
        """A batch of numbers: all texts read are unpacked, and the last one is taken."""
        text = b""
        for _ in range(texts_read):
            text = zlib.decompress(self.packed)
        letters = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
        numbers = np.resize(letters, 2 * BATCH * LENGTH)
        return recording.pinned(torch.from_numpy(numbers).view(2, BATCH, LENGTH))

    def chosen_count(self, share: float) -> int:
        """Texts to read, so that the host takes 1 + share of the device's time for a step."""

        def median_s(texts_read: int) -> float:
            """A step's time; without texts to read, that of the device alone."""
            times = []
            for _ in range(5):
                recording.wait()
                start = time.perf_counter()
                for _ in range(3):
                    self.learn(self.made(texts_read) if texts_read else self.ready)
                recording.wait()
                times.append((time.perf_counter() - start) / 3)
            return sorted(times)[2]

        median_s(0)
        few, many = 2_600, 3_600  # for both, the device waits for the host
        costs = {texts_read: median_s(texts_read) for texts_read in (few, many)}
        each = (costs[many] - costs[few]) / (many - few)
        wanted = (1 + share) * median_s(0)
        return max(1, min(4_000, round(few + (wanted - costs[few]) / each)))

    def learn(self, batch: torch.Tensor) -> None:
        source, target = batch.to(recording.DEVICE, non_blocking=True)
        said = self.model(source, target)
        loss = F.cross_entropy(said[:, :-1].flatten(0, 1), target[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def step(self, number: int) -> None:
        self.learn(self.made(self.texts_read) if self.makes else self.ready)

    def figures(self) -> dict[str, int]:
        return {"texts_read": self.texts_read}


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--share", type=float, default=0.14)

    arguments = recording.arguments(__doc__ or "", more)
    make = functools.partial(Learning, share=arguments.share)
    recording.run(make, arguments.variant, recording.Plan(recorded_steps=4, timed_steps=3))


if __name__ == "__main__":
    main()
