"""A vision transformer classifies pictures that lie in pinned memory of the host.

`--variant sick` copies each batch to the device, classifies it, and copies the next one.
`--variant fixed` copies the next batch on a stream of its own while this one is classified.
"""

from __future__ import annotations

import case_recording as recording
import torch
from case_layers import Block
from torch import nn

LAYERS, WIDTH, HEADS, PATCH, SIDE, BATCH, CLASSES = (
    (2, 32, 2, 8, 16, 2, 10) if recording.SMOKE else (4, 512, 8, 16, 224, 256, 1000)
)


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.places = nn.Parameter(torch.zeros((SIDE // PATCH) ** 2, WIDTH))
        self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        x = self.patches(pictures).flatten(2).transpose(1, 2) + self.places
        return self.head(self.blocks(x).mean(1))


class Classifying(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(6)
        with recording.DEVICE:
            self.model = VisionTransformer().to(recording.DTYPE).eval()
        self.host = [recording.pinned(torch.rand(BATCH, 3, SIDE, SIDE)) for _ in range(2)]
        self.on_device = [batch.to(recording.DEVICE) for batch in self.host]
        self.overlaps = variant == "fixed" and not recording.SMOKE
        self.best: list[torch.Tensor] = []
        if self.overlaps:
            self.copying = torch.cuda.Stream()
            self.arrived = [torch.cuda.Event() for _ in self.host]
            self.used = [torch.cuda.Event() for _ in self.host]
            self.under_way = False

    @torch.no_grad()
    def classify(self, pictures: torch.Tensor) -> None:
        self.best.append(self.model(pictures.to(recording.DTYPE)).argmax(-1))

    def fetch(self, place: int) -> None:
        with torch.cuda.stream(self.copying):
            self.copying.wait_event(self.used[place])
            self.on_device[place].copy_(self.host[place], non_blocking=True)
            self.arrived[place].record()

    def step(self, number: int) -> None:
        place = number % 2
        if not self.overlaps:
            self.on_device[place].copy_(self.host[place], non_blocking=True)
            self.classify(self.on_device[place])
            return
        if not self.under_way:
            self.fetch(place)
        self.fetch(1 - place)
        self.under_way = True
        torch.cuda.current_stream().wait_event(self.arrived[place])
        self.classify(self.on_device[place])
        self.used[place].record()

    def finish(self) -> None:
        torch.stack(self.best).cpu()
        self.best.clear()
        self.under_way = False


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=10, timed_steps=8)
    recording.run(Classifying, arguments.variant, plan)


if __name__ == "__main__":
    main()
