"""A recommender in the manner of DLRM learns from tables of features and a few numbers.

`--variant sick` gives all memory that is not in use back to the driver after every step.
`--variant fixed` leaves it with the allocator.
"""

from __future__ import annotations

import itertools

import case_recording as recording
import torch
import torch.nn.functional as F
from torch import nn

TABLES, ROWS, WIDTH, NUMBERS, BATCH, HIDDEN = (
    (3, 50, 8, 4, 8, 16) if recording.SMOKE else (26, 20_000, 64, 13, 16384, 2048)
)


def perceptron(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, width in itertools.pairwise(widths):
        layers += [nn.Linear(before, width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.Embedding(TABLES * ROWS, WIDTH)  # all of them, one after the other
        self.bottom = perceptron(NUMBERS, HIDDEN // 4, WIDTH)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = perceptron(pairs + WIDTH, HIDDEN, HIDDEN, HIDDEN // 2, 1)
        above = torch.triu_indices(TABLES + 1, TABLES + 1, 1)
        self.register_buffer("above", above[0] * (TABLES + 1) + above[1])

    def forward(self, features: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(numbers)
        rows = torch.cat([dense[:, None], self.tables(features)], 1)
        products = (rows @ rows.transpose(1, 2)).flatten(1).index_select(1, self.above)
        return self.top(torch.cat([dense, products], 1)).squeeze(1)


class Training(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(11)
        self.gives_back = variant == "sick" and not recording.SMOKE
        with recording.DEVICE:
            self.model = Recommender().to(recording.DTYPE)
            offsets = torch.arange(TABLES) * ROWS
            self.features = torch.randint(0, ROWS, (BATCH, TABLES)) + offsets
            self.numbers = torch.randn(BATCH, NUMBERS, dtype=recording.DTYPE)
            self.clicked = (torch.rand(BATCH) < 0.2).to(recording.DTYPE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2, foreach=True)

    def step(self, number: int) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        said = self.model(self.features, self.numbers)
        F.binary_cross_entropy_with_logits(said, self.clicked).backward()
        self.optimizer.step()
        if self.gives_back:
            torch.cuda.empty_cache()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=5)
    recording.run(Training, arguments.variant, plan)


if __name__ == "__main__":
    main()
