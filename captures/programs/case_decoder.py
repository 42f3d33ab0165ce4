"""A transformer decoder writes text token by token, with a cache of keys and values.

`--variant sick` issues every kernel of every token and asks after each token whether it was the last.
`--variant fixed` replays one CUDA graph a token and reads all tokens at the end.
Both compute the same tokens.
"""

from __future__ import annotations

import case_recording as recording
import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, LENGTH, WORDS, BATCH = (
    (2, 32, 2, 16, 64, 2) if recording.SMOKE else (8, 1024, 16, 256, 8192, 4)
)
END = -1  # no token has this number: every text goes on


class DecoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        shape = (BATCH, HEADS, LENGTH, WIDTH // HEADS)
        self.keys, self.values = (
            torch.zeros(shape, device=recording.DEVICE, dtype=recording.DTYPE) for _ in "kv"
        )

    def forward(self, x: torch.Tensor, place: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        parts = self.project(self.before(x)).view(BATCH, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        self.keys.index_copy_(2, place, key)
        self.values.index_copy_(2, place, value)
        scores = query @ self.keys.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        mixed = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ self.values
        x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, 1, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class Decoding(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(3)
        with recording.DEVICE:
            self.words = nn.Embedding(WORDS, WIDTH).to(recording.DTYPE)
            self.layers = nn.ModuleList(DecoderLayer() for _ in range(LAYERS)).to(recording.DTYPE)
            self.head = nn.Linear(WIDTH, WORDS, bias=False).to(recording.DTYPE)
            self.token = torch.zeros(BATCH, dtype=torch.long)
            self.place = torch.zeros(1, dtype=torch.long)
            self.places = torch.arange(LENGTH)
        self.graph = None
        if variant == "fixed" and not recording.SMOKE:
            self.graph = self.captured()
        self.asks = variant == "sick"
        self.written: list[torch.Tensor] = []

    def captured(self) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.one_token()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.one_token()
        return graph

    @torch.no_grad()
    def one_token(self) -> None:
        x = self.words(self.token).unsqueeze(1)
        seen = self.places <= self.place
        for layer in self.layers:
            x = layer(x, self.place, seen)
        self.token.copy_(self.head(x[:, 0]).argmax(-1))
        self.place.add_(1).remainder_(LENGTH)

    def step(self, number: int) -> None:
        if self.graph is not None:
            self.graph.replay()
        else:
            self.one_token()
        if self.asks:
            if bool((self.token == END).all().item()):
                raise SystemExit("the text is complete")
        else:
            self.written.append(self.token.clone())

    def finish(self) -> None:
        if self.written:
            torch.stack(self.written).cpu()
            self.written.clear()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    steps = 6 if arguments.variant == "sick" else 40
    plan = recording.Plan(recorded_steps=steps, timed_steps=20)
    recording.run(Decoding, arguments.variant, plan)


if __name__ == "__main__":
    main()
