"""A residual network learns from pictures that are cropped, turned and normalised at random.

`--variant sick` prepares each batch on the host, picture by picture, right before it is used.
`--variant fixed` sends the raw bytes and prepares them on the device. Its recording begins with the
first step of a run: the data set is put in order and the allocator holds nothing yet.
"""

from __future__ import annotations

import itertools

import case_recording as recording
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SIDE, CROP, BATCH, WIDTHS, CLASSES = (
    (12, 8, 4, (4, 8), 10) if recording.SMOKE else (72, 64, 768, (128, 256, 512), 100)
)
PICTURES = 4 * BATCH
SHARD = 1_000 if recording.SMOKE else 110_000


class Residual(nn.Module):
    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, width, 3, 2, 1, bias=False)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(before, width, 1, 2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.short(x))


class Training(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(8)
        self.random = np.random.default_rng(8)
        self.on_host = variant == "sick"
        widths = (64 if not recording.SMOKE else 4, *WIDTHS)
        with recording.DEVICE:
            self.model = nn.Sequential(
                nn.Conv2d(3, widths[0], 3, 1, 1),
                *(Residual(a, b) for a, b in itertools.pairwise(widths)),
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
                nn.Linear(widths[-1], CLASSES),
            )
        self.model.to(recording.DTYPE).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2, foreach=True)
        shape = (PICTURES, 3, SIDE, SIDE)
        self.pictures = self.random.integers(0, 256, shape, dtype=np.uint8)
        self.raw = recording.pinned(torch.from_numpy(self.pictures))
        self.labels = torch.randint(0, CLASSES, (PICTURES,)).to(recording.DEVICE)

    def prepared_on_host(self, first: int) -> torch.Tensor:
        batch = np.empty((BATCH, 3, CROP, CROP), dtype=np.float32)
        for place in range(BATCH):
            down, right = self.random.integers(0, SIDE - CROP, 2)
            picture = self.pictures[first + place, :, down : down + CROP, right : right + CROP]
            batch[place] = picture[:, :, ::-1] if self.random.random() < 0.5 else picture
        batch -= 127.5
        batch /= 64.0
        return torch.from_numpy(batch).to(recording.DEVICE)

    def prepared_on_device(self, first: int) -> torch.Tensor:
        raw = self.raw[first : first + BATCH].to(recording.DEVICE, non_blocking=True)
        down, right = self.random.integers(0, SIDE - CROP, 2)
        batch = raw[:, :, down : down + CROP, right : right + CROP].to(recording.DTYPE)
        turned = torch.rand(BATCH, 1, 1, 1, device=recording.DEVICE) < 0.5
        return (torch.where(turned, batch.flip(-1), batch) - 127.5) / 64.0

    def before_steps(self) -> None:
        """The first step of a run: an order of the data set, memory from the driver."""
        if self.on_host:
            return
        if not recording.SMOKE:
            torch.cuda.empty_cache()
        with recording.marked("first step"):
            self.step(0)
            recording.wait()
            np.argsort(self.random.random(SHARD))

    def step(self, number: int) -> None:
        first = number % 4 * BATCH
        batch = self.prepared_on_host(first) if self.on_host else self.prepared_on_device(first)
        batch = batch.to(recording.DTYPE).contiguous(memory_format=torch.channels_last)
        loss = F.cross_entropy(self.model(batch), self.labels[first : first + BATCH])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    steps = 4 if arguments.variant == "sick" else 14
    plan = recording.Plan(recorded_steps=steps, timed_steps=4)
    recording.run(Training, arguments.variant, plan)


if __name__ == "__main__":
    main()
