"""Device memory over a few steps, with every allocation written down.

`--variant growth` evaluates a model and keeps each loss as it came.
`--variant detached` keeps the losses without their graphs.
`--variant peak` trains attention that stores its scores.
`--variant checkpoint` computes them again in the backward pass instead.
The losses of the first two are the same, and so are those of the last two.
"""

from __future__ import annotations

import argparse
import math
import time

import torch
import torch.nn.functional as F
import torch_recording as recording
from torch import nn
from torch.profiler import record_function
from torch.utils.checkpoint import checkpoint

ON_GPU = recording.device().type == "cuda"
BATCH, TOKENS, WIDTH, HEADS, LAYERS, CLASSES = (
    (8, 512, 512, 8, 4, 1000) if ON_GPU else (2, 8, 16, 2, 2, 10)
)
PROFILED_STEPS = 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def weights(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        scores = query @ key.transpose(-1, -2)
        scores = scores / math.sqrt(query.shape[-1])
        return F.softmax(scores, dim=-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm(x)).view(BATCH, TOKENS, 3, HEADS, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = self.weights(query, key) @ value
        return x + self.out(attended.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))


class Model(nn.Module):
    def __init__(self, recompute: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.recompute = recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.head(x.mean(dim=1))


class Work:
    """A model, its data, and what is kept from step to step."""

    def __init__(self, recompute: bool) -> None:
        torch.manual_seed(0)
        self.device = recording.device()
        self.model = Model(recompute).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.inputs = torch.randn(BATCH, TOKENS, WIDTH, device=self.device)
        self.labels = torch.randint(CLASSES, (BATCH,), device=self.device)
        self.losses: list[torch.Tensor] = []
        self.allocated: list[int] = []

    def loss(self) -> torch.Tensor:
        return F.cross_entropy(self.model(self.inputs), self.labels)

    def note_memory(self) -> None:
        if ON_GPU:
            self.allocated.append(torch.cuda.memory_allocated())

    def step_growth(self, number: int) -> None:
        with record_function("evaluate"):
            self.losses.append(self.loss())
        self.note_memory()

    def step_detached(self, number: int) -> None:
        with record_function("evaluate"):
            self.losses.append(self.loss().detach())
        self.note_memory()

    def step_training(self, number: int) -> None:
        with record_function("forward"):
            loss = self.loss()
        with record_function("backward"):
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with record_function("optimizer"):
            self.optimizer.step()
        self.losses.append(loss.detach())
        del loss
        self.note_memory()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    variants = ("growth", "detached", "peak", "checkpoint")
    parser.add_argument("--variant", choices=variants, required=True)
    parser.add_argument("--cpu", action="store_true", help="try it without a GPU, on small shapes")
    variant = parser.parse_args().variant

    work = Work(recompute=variant == "checkpoint")
    recording.start_memory_history()  # parameters are older than the history
    if ON_GPU:
        torch.cuda.reset_peak_memory_stats()
    step = {"growth": work.step_growth, "detached": work.step_detached}.get(
        variant, work.step_training
    )
    profiler = recording.profile_steps(step, PROFILED_STEPS, memory=True)
    figures = recording.memory_figures()
    recording.write_snapshot()
    recording.write_trace(profiler)
    losses = [float(loss.detach()) for loss in work.losses]
    if not all(map(math.isfinite, losses)):
        raise SystemExit("the loss is not finite")

    recording.wait()
    work.losses.clear()
    start = time.perf_counter()
    for number in range(PROFILED_STEPS):
        step(number)
    recording.wait()
    untraced_s = time.perf_counter() - start
    recording.report(
        {
            "steps": len(losses),
            "profiled_steps": PROFILED_STEPS,
            "step_ms_unprofiled": round(untraced_s / PROFILED_STEPS * 1e3, 3),
            **figures,
            "allocated_after_step_bytes": work.allocated[: len(losses)],
            "checksum": round(sum(losses), 3),
        }
    )


if __name__ == "__main__":
    main()
