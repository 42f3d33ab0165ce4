"""Questions are compared with a large store of passages; a pool of streams takes the requests.

`--variant sick` waits for the answer to each request before it takes the next one.
`--variant fixed` hands all requests over and waits once.
"""

from __future__ import annotations

from contextlib import nullcontext

import case_recording as recording
import torch
from case_layers import Block
from torch import nn

STREAMS, WIDTH, HEADS, WORDS, LENGTH, BATCH, PASSAGES = (
    (4, 16, 2, 64, 4, 2, 100) if recording.SMOKE else (8, 768, 12, 8192, 32, 512, 400_000)
)
USED_STREAMS = 1  # the other workers of the pool have nothing to do


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(4)))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.words(text)).mean(1)


class Searching(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(20)
        self.waits = variant == "sick"
        with recording.DEVICE:
            self.encoder = Encoder().to(recording.DTYPE).eval()
            self.store = torch.randn(WIDTH, PASSAGES, dtype=recording.DTYPE)
            self.question = torch.randint(0, WORDS, (BATCH, LENGTH))
            self.seen = torch.zeros(STREAMS)
        self.streams = [None if recording.SMOKE else torch.cuda.Stream() for _ in range(STREAMS)]
        self.found: list[torch.Tensor] = []

    def before_steps(self) -> None:
        """Every worker of the pool says that it is there."""
        for place, stream in enumerate(self.streams):
            with torch.cuda.stream(stream) if stream is not None else nullcontext():
                self.seen[place].add_(1)

    @torch.no_grad()
    def step(self, number: int) -> None:
        stream = self.streams[number % USED_STREAMS]
        with torch.cuda.stream(stream) if stream is not None else nullcontext():
            scores = self.encoder(self.question) @ self.store
            self.found.append(scores.view(BATCH, -1, 50).amax(-1).argmax(-1))
            if self.waits:
                self.found[-1].cpu()

    def finish(self) -> None:
        recording.wait()
        torch.stack(self.found).cpu()
        self.found.clear()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    recording.run(Searching, arguments.variant, recording.Plan(recorded_steps=24))


if __name__ == "__main__":
    main()
