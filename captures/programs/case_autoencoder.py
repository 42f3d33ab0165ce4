"""An autoencoder learns from sensor data that lies in pinned memory, taken at a high rate.

`--variant sick` copies each batch and learns from it, one after the other.
`--variant fixed` copies the next batch on a stream of its own while it learns from this one.
`--share` is how long a copy takes, as a share of what the device computes in a step: the rate is chosen
for that, after both have been timed.
"""

from __future__ import annotations

import argparse
import functools

import case_recording as recording
import torch
import torch.nn.functional as F
from torch import nn

CHANNELS, WIDTH, LENGTH, BATCH = (4, 8, 16, 2) if recording.SMOKE else (16, 384, 2048, 96)
MOST_RATE = 256


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv1d(CHANNELS, WIDTH, 5, 1, 2),
            nn.GELU(),
            nn.Conv1d(WIDTH, 2 * WIDTH, 4, 2, 1),
            nn.GELU(),
            nn.Conv1d(2 * WIDTH, 2 * WIDTH, 4, 2, 1),
        )
        self.up = nn.Sequential(
            nn.ConvTranspose1d(2 * WIDTH, 2 * WIDTH, 4, 2, 1),
            nn.GELU(),
            nn.ConvTranspose1d(2 * WIDTH, WIDTH, 4, 2, 1),
            nn.GELU(),
            nn.Conv1d(WIDTH, CHANNELS, 5, 1, 2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(x))


class Learning(recording.Work):
    def __init__(self, variant: str, share: float) -> None:
        torch.manual_seed(17)
        with recording.DEVICE:
            self.model = Autoencoder().to(recording.DTYPE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, foreach=True)
        self.overlaps = variant == "fixed" and not recording.SMOKE
        self.rate = 4 if recording.SMOKE else self.chosen_rate(share)
        shape = (BATCH, CHANNELS, LENGTH, self.rate)
        sample = torch.randint(-99, 99, shape, dtype=torch.int8)
        self.host = [recording.pinned(sample) for _ in range(2)]
        self.on_device = [sample.to(recording.DEVICE) for _ in range(2)]
        if self.overlaps:
            self.copying = torch.cuda.Stream()
            self.arrived = [torch.cuda.Event() for _ in range(2)]
            self.used = [torch.cuda.Event() for _ in range(2)]
            self.under_way = False

    def chosen_rate(self, share: float) -> int:
        """Readings a value, so that a copy takes `share` of the computation."""

        def median_ms(call) -> float:
            times = []
            for _ in range(9):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                call()
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end))
            return sorted(times)[4]

        one = BATCH * CHANNELS * LENGTH
        host = torch.zeros(64 * one, dtype=torch.int8).pin_memory()
        device = host.cuda()
        copy_ms = median_ms(lambda: device.copy_(host, non_blocking=True)) / 64
        readings = torch.zeros(BATCH, CHANNELS, LENGTH, 16, dtype=torch.int8, device="cuda")
        learn_ms = median_ms(lambda: self.learn(readings))
        return max(1, min(MOST_RATE, round(share * learn_ms / copy_ms)))

    def learn(self, readings: torch.Tensor) -> None:
        batch = readings[..., :4].to(recording.DTYPE).mean(-1) / 64
        loss = F.mse_loss(self.model(batch), batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def fetch(self, place: int) -> None:
        with torch.cuda.stream(self.copying):
            self.copying.wait_event(self.used[place])
            self.on_device[place].copy_(self.host[place], non_blocking=True)
            self.arrived[place].record()

    def step(self, number: int) -> None:
        place = number % 2
        if not self.overlaps:
            self.on_device[place].copy_(self.host[place], non_blocking=True)
            self.learn(self.on_device[place])
            return
        if not self.under_way:
            self.fetch(place)
        self.fetch(1 - place)
        self.under_way = True
        torch.cuda.current_stream().wait_event(self.arrived[place])
        self.learn(self.on_device[place])
        self.used[place].record()

    def finish(self) -> None:
        self.under_way = False

    def figures(self) -> dict[str, int]:
        return {"readings_a_value": self.rate}


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--share", type=float, default=0.14)

    arguments = recording.arguments(__doc__ or "", more)
    make = functools.partial(Learning, share=arguments.share)
    recording.run(make, arguments.variant, recording.Plan(recorded_steps=14))


if __name__ == "__main__":
    main()
