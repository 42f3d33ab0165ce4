"""Four small models of an ensemble answer the same question, each on a stream of its own.

`--variant sick` creates the streams with cudaStreamCreate, as a library in C would, and counts answers
on the default stream in between, which such streams wait for.
`--variant fixed` takes PyTorch's streams, which do not, and counts after the four have answered.
"""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from typing import Any

import case_recording as recording
import torch
from torch import nn

MEMBERS, LAYERS, WIDTH, BATCH = (4, 2, 16, 4) if recording.SMOKE else (4, 6, 5120, 64)


class Member(nn.Module):
    """A perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu_()
        return x


def blocking_stream() -> Any:
    made = ctypes.c_void_p()
    runtime: Any = torch.cuda.cudart()
    status = runtime.cudaStreamCreate(ctypes.addressof(made))
    if int(status):
        raise SystemExit(f"cudaStreamCreate failed: {status}")
    return torch.cuda.ExternalStream(made.value)


class Answering(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(13)
        self.counts_between = variant == "sick"
        with recording.DEVICE:
            self.members = [Member().eval() for _ in range(MEMBERS)]
            self.question = torch.randn(BATCH, WIDTH)
            self.answered = torch.zeros(MEMBERS, dtype=torch.long)
        self.streams: list[Any] = [None] * MEMBERS
        if not recording.SMOKE:
            new = blocking_stream if self.counts_between else torch.cuda.Stream
            self.streams = [new() for _ in range(MEMBERS)]
        self.answers: list[torch.Tensor] = []

    @torch.no_grad()
    def step(self, number: int) -> None:
        answers = []
        for place, (member, stream) in enumerate(zip(self.members, self.streams, strict=True)):
            with torch.cuda.stream(stream) if stream is not None else nullcontext():
                answers.append(member(self.question))
            if self.counts_between:
                self.answered[place] += 1
        if not self.counts_between:
            self.answered += 1
        self.answers = answers

    def finish(self) -> None:
        recording.wait()
        torch.stack(self.answers).mean(0).cpu()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=8, timed_steps=10)
    recording.run(Answering, arguments.variant, plan)


if __name__ == "__main__":
    main()
