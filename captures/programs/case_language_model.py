"""A recurrent language model (GRU) is tried on held-out text; the scores are summed up at the end.

`--variant sick` keeps what the model said of each batch until then, with all that led to it.
`--variant fixed` keeps one number a batch.
"""

from __future__ import annotations

import case_recording as recording
import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, LAYERS, LENGTH, BATCH = (
    (64, 16, 1, 8, 2) if recording.SMOKE else (4096, 1024, 2, 64, 64)
)


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.recurrent = nn.GRU(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.words(text))[0])


class Trying(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(10)
        self.keeps_all = variant == "sick"
        with recording.DEVICE:
            self.model = LanguageModel().to(recording.DTYPE)
            self.model.recurrent.flatten_parameters()
            self.text = torch.randint(0, WORDS, (4, BATCH, LENGTH + 1))
        self.kept: list[torch.Tensor] = []

    def loss(self, said: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(said.flatten(0, 1).float(), text[:, 1:].flatten())

    def step(self, number: int) -> None:
        text = self.text[number % 4]
        with torch.set_grad_enabled(self.keeps_all):
            said = self.model(text[:, :-1])
            self.kept.append(self.loss(said, text))

    def finish(self) -> None:
        torch.stack(self.kept).detach().cpu()
        self.kept.clear()


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=5, watch="torch", memory=True)
    recording.run(Trying, arguments.variant, plan)


if __name__ == "__main__":
    main()
