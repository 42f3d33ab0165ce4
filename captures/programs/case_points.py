"""A network in the manner of PointNet learns from clouds of points that a scanner left in memory.

`--variant sick` sends each cloud's points from ordinary memory, right before they are used.
`--variant fixed` keeps them in pinned memory and sends the next batch on a stream of its own.
"""

from __future__ import annotations

import case_recording as recording
import torch
import torch.nn.functional as F
from torch import nn

CLOUDS, POINTS, READINGS, WIDTHS, KINDS = (
    (2, 16, 4, (8, 16), 5) if recording.SMOKE else (256, 4096, 12, (64, 128, 1024), 40)
)


class PointNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = READINGS
        for width in WIDTHS:
            layers += [nn.Linear(before, width), nn.ReLU()]
            before = width
        self.each = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(before, 256), nn.ReLU(), nn.Linear(256, KINDS))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.head(self.each(points).amax(1))


class Learning(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(27)
        with recording.DEVICE:
            self.model = PointNetwork().to(recording.DTYPE)
            self.kinds = torch.randint(0, KINDS, (CLOUDS,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, foreach=True)
        self.sends_ahead = variant == "fixed" and not recording.SMOKE
        scanned = [torch.randn(CLOUDS, POINTS, READINGS) for _ in range(2)]
        self.scanned = [recording.pinned(s) for s in scanned] if self.sends_ahead else scanned
        if self.sends_ahead:
            self.sending = torch.cuda.Stream()
            self.on_device = [s.to(recording.DEVICE) for s in scanned]
            self.arrived = [torch.cuda.Event() for _ in range(2)]
            self.used = [torch.cuda.Event() for _ in range(2)]
        self.under_way = False

    def send(self, place: int) -> None:
        with torch.cuda.stream(self.sending):
            self.sending.wait_event(self.used[place])
            self.on_device[place].copy_(self.scanned[place], non_blocking=True)
            self.arrived[place].record()

    def learn(self, points: torch.Tensor) -> None:
        loss = F.cross_entropy(self.model(points.to(recording.DTYPE)), self.kinds)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def step(self, number: int) -> None:
        place = number % 2
        if not self.sends_ahead:
            self.learn(self.scanned[place].to(recording.DEVICE))
            return
        if not self.under_way:
            self.send(place)
        self.under_way = True
        self.send(1 - place)
        torch.cuda.current_stream().wait_event(self.arrived[place])
        self.learn(self.on_device[place])
        self.used[place].record()

    def finish(self) -> None:
        self.under_way = False


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    recording.run(Learning, arguments.variant, recording.Plan(recorded_steps=8))


if __name__ == "__main__":
    main()
