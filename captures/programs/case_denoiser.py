"""A U-Net takes noise out of pictures, step by step, and each step leaves a preview.

`--variant sick` waits for the preview of a step, and packs it before the next step begins.
`--variant fixed` packs the preview of an earlier step, which has arrived long ago, while the device works.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import case_recording as recording
import torch
import torch.nn.functional as F
from torch import nn

SIDE, BATCH, WIDTHS = (8, 1, (4, 8)) if recording.SMOKE else (128, 96, (128, 256, 512))
BEHIND = 3  # previews that may be under way
PACKED_PICTURES = 1 if recording.SMOKE else 13


def convolutions(before: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, width, 3, 1, 1),
        nn.GroupNorm(4, width),
        nn.SiLU(),
        nn.Conv2d(width, width, 3, 1, 1),
        nn.SiLU(),
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (WIDTHS[0], *WIDTHS)
        self.first = nn.Conv2d(3, WIDTHS[0], 3, 1, 1)
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(convolutions(a, b) for a, b in pairs)
        self.up = nn.ModuleList(convolutions(2 * b, a) for a, b in reversed(pairs))
        self.last = nn.Conv2d(WIDTHS[0], 3, 1)
        self.time = nn.Linear(1, WIDTHS[0])

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        x = self.first(x) + self.time(time)[:, :, None, None]
        kept = []
        for layer in self.down:
            kept.append(layer(x))
            x = F.avg_pool2d(kept[-1], 2)
        for layer, skipped in zip(self.up, reversed(kept), strict=True):
            x = F.interpolate(x, scale_factor=2.0)
            x = layer(torch.cat([x, skipped], 1))
        return self.last(x)


class Denoising(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(9)
        self.waits = variant == "sick" or recording.SMOKE
        with recording.DEVICE:
            self.model = UNet().to(recording.DTYPE).eval().to(memory_format=torch.channels_last)
            self.noise = torch.randn(BATCH, 3, SIDE, SIDE, dtype=recording.DTYPE)
            self.times = torch.linspace(1, 0, 64, dtype=recording.DTYPE)[:, None, None]
        self.noise = self.noise.contiguous(memory_format=torch.channels_last)
        shape = (BATCH, 3, SIDE, SIDE)
        self.previews = [
            recording.pinned(torch.empty(shape, dtype=torch.uint8)) for _ in range(BEHIND)
        ]
        self.arrived: list[Any] = [None] * BEHIND  # events
        self.packed_bytes = 0

    def pack(self, preview: torch.Tensor) -> None:
        for picture in preview[:PACKED_PICTURES].numpy():
            self.packed_bytes += len(zlib.compress(picture.tobytes(), 6))

    @torch.no_grad()
    def step(self, number: int) -> None:
        self.noise.sub_(self.model(self.noise, self.times[number % 64]) * 0.05)
        preview = (self.noise.clamp(-2, 2) * 63 + 128).to(torch.uint8)
        place = number % BEHIND
        if self.waits:
            self.pack(preview.cpu())
            return
        event = self.arrived[place]
        if event is not None:
            event.synchronize()  # of BEHIND steps ago
            self.pack(self.previews[place])
        self.previews[place].copy_(preview, non_blocking=True)
        self.arrived[place] = torch.cuda.Event()
        self.arrived[place].record()

    def finish(self) -> None:
        recording.wait()
        self.arrived = [None] * BEHIND

    def figures(self) -> dict[str, int]:
        return {"packed_bytes": self.packed_bytes}


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=14, timed_steps=8)
    recording.run(Denoising, arguments.variant, plan)


if __name__ == "__main__":
    main()
