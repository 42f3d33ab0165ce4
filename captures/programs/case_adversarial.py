"""Two networks learn against each other: one draws, the other tells drawings from the rest.

`--variant sick` prints both losses of every step and counts how often the drawings were recognised.
`--variant fixed` keeps all that on the device. Its recording begins with a warm-up in the sick manner, on
few drawings.
"""

from __future__ import annotations

import case_recording as recording
import torch
import torch.nn.functional as F
from torch import nn

SEED_WIDTH, SIDE, WIDTH, BATCH, FEW = (
    (8, 8, 4, 4, 2) if recording.SMOKE else (128, 64, 192, 512, 16)
)
WARM_UP_STEPS = 1 if recording.SMOKE else 2


def generator() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(SEED_WIDTH, WIDTH * 2 * (SIDE // 4) ** 2),
        nn.Unflatten(1, (WIDTH * 2, SIDE // 4, SIDE // 4)),
        nn.ConvTranspose2d(WIDTH * 2, WIDTH, 4, 2, 1),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
        nn.ConvTranspose2d(WIDTH, 3, 4, 2, 1),
        nn.Tanh(),
    )


def critic() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(WIDTH, WIDTH * 2, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(WIDTH * 2 * (SIDE // 4) ** 2, 1),
    )


class Contest(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(12)
        self.prints = self.prints_all = variant == "sick"
        with recording.DEVICE:
            self.draws = generator().to(recording.DTYPE)
            self.judges = critic().to(recording.DTYPE)
            self.pictures = torch.rand(BATCH, 3, SIDE, SIDE, dtype=recording.DTYPE) * 2 - 1
        self.optimizers = [
            torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
            for model in (self.draws, self.judges)
        ]
        self.losses: list[torch.Tensor] = []
        self.lines: list[str] = []
        self.one_step(self.pictures[:FEW])  # what a shape costs once is over

    def tell(self, name: str, *values: torch.Tensor) -> None:
        if self.prints:
            self.lines.append(name + " ".join(f" {value.item():.4f}" for value in values))
        else:
            self.losses += [value.detach() for value in values]

    def one_step(self, pictures: torch.Tensor) -> None:
        count = len(pictures)
        seeds = torch.randn(count, SEED_WIDTH, device=recording.DEVICE, dtype=recording.DTYPE)
        drawn = self.draws(seeds)
        ones, zeros = (make(count, 1).to(pictures) for make in (torch.ones, torch.zeros))
        of_real, of_drawn = self.judges(pictures), self.judges(drawn.detach())
        judging = F.binary_cross_entropy_with_logits(of_real, ones)
        judging = judging + F.binary_cross_entropy_with_logits(of_drawn, zeros)
        self.optimizers[1].zero_grad(set_to_none=True)
        judging.backward()
        self.tell("judging", judging.detach(), (of_drawn.detach() < 0).float().mean())
        self.optimizers[1].step()
        drawing = F.binary_cross_entropy_with_logits(self.judges(drawn), ones)
        self.optimizers[0].zero_grad(set_to_none=True)
        drawing.backward()
        self.tell("drawing", drawing.detach())
        self.optimizers[0].step()

    def before_steps(self) -> None:
        if self.prints_all:
            return
        self.prints = True
        with recording.marked("warm-up"):
            for _ in range(WARM_UP_STEPS):
                self.one_step(self.pictures[:FEW])
        self.prints = False

    def step(self, number: int) -> None:
        self.one_step(self.pictures)

    def finish(self) -> None:
        if self.losses:
            torch.stack([loss.float() for loss in self.losses]).cpu()
            self.losses.clear()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=10 if arguments.variant == "fixed" else 5)
    recording.run(Contest, arguments.variant, plan)


if __name__ == "__main__":
    main()
