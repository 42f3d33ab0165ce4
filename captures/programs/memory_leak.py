"""Training steps of a small model in which something may keep tensors, with every allocation noted.

`--variant history` keeps the activations of one layer of every step, for a plot that nobody draws.
`--variant bounded` keeps those of the last three steps only.
`--variant seldom` keeps a batch whose loss was high, which happens at every second step.
`--variant clean` keeps nothing.
`--size other` is a model of other sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
SIZES = {"first": (2048, 1024, 3), "other": (1536, 768, 4)}  # batch, width, layers
STEPS, CLASSES, BOUND = 8, 1000, 3
PAUSE_S = 0.005  # between steps: far more than two clocks may differ


class Model(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.head(x)


class Training:
    """A model, its optimizer, and what is kept from step to step."""

    def __init__(self, variant: str, size: str) -> None:
        self.batch, self.width, layers = SIZES[size]
        self.phases: list[dict[str, Any]] = []
        self.variant = variant
        self.kept: Any = deque(maxlen=BOUND) if variant == "bounded" else []
        with self.phase("setup", -1):
            self.model = Model(self.width, layers).to(DEVICE)
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        if variant in ("history", "bounded"):
            self.model.layers[-1].register_forward_hook(self.watch)

    @contextmanager
    def phase(self, name: str, step: int) -> Iterator[None]:
        """Note when a phase began and ended, in µs since 1970, as the allocator's history does."""
        start = time.time_ns() // 1000
        yield
        end = time.time_ns() // 1000
        self.phases.append({"name": name, "step": step, "start_us": start, "end_us": end})

    def watch(self, layer: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        """A hook on a layer: its activations, for later."""
        self.kept.append(output.detach().float().abs())

    def load(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch of random numbers, from the host as always."""
        inputs = torch.randn(self.batch, self.width).to(DEVICE)
        labels = torch.randint(CLASSES, (self.batch,)).to(DEVICE)
        if self.variant == "seldom" and step % 2:
            self.keep_hard_batch(inputs)
        return inputs, labels

    def keep_hard_batch(self, inputs: torch.Tensor) -> None:
        """A copy of a batch to train on again, some day."""
        self.kept.append(inputs.clone())

    def step(self, number: int) -> float:
        """One training step, phase by phase."""
        with self.phase("load", number):
            inputs, labels = self.load(number)
        with self.phase("forward", number):
            loss = F.cross_entropy(self.model(inputs), labels)
        with self.phase("backward", number):
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with self.phase("optimizer", number):
            self.optimizer.step()
        return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    variants = ("history", "bounded", "seldom", "clean")
    parser.add_argument("--variant", choices=variants, required=True)
    parser.add_argument("--size", choices=tuple(SIZES), default="first")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    if ON_GPU:
        torch.cuda.init()
        torch.cuda.memory._record_memory_history(max_entries=50_000, stacks="python")
        time.sleep(PAUSE_S)
    training = Training(arguments.variant, arguments.size)
    losses, allocated, reserved = [], [], []
    for number in range(STEPS):
        time.sleep(PAUSE_S)
        losses.append(training.step(number))
        if ON_GPU:
            torch.cuda.synchronize()
            allocated.append(torch.cuda.memory_allocated())
            reserved.append(torch.cuda.memory_reserved())
        time.sleep(PAUSE_S)
    if not all(map(math.isfinite, losses)):
        raise SystemExit("the loss is not finite")
    snapshot: Any = {"segments": [], "device_traces": [[]]}
    if ON_GPU:
        snapshot = torch.cuda.memory._snapshot()
    figures = {
        "steps": STEPS,
        "losses": [round(loss, 3) for loss in losses],
        "allocated_after_step_bytes": allocated,
        "reserved_after_step_bytes": reserved,
    }
    snapshot["phases"] = training.phases
    snapshot["measured"] = figures
    Path("snapshot.json").write_text(json.dumps(snapshot) + "\n", encoding="utf-8")
    print("RESULT", json.dumps(figures))


if __name__ == "__main__":
    main()
