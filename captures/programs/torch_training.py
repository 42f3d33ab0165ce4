"""A classifier trained on examples that the host has ready, watched in two ways.

`--variant sync` picks the labelled examples with a mask, checks the loss, clips the gradients by a
number read from the device and logs a line, in every step.
`--variant clean` does the same sums on the device and reads them after the last step.
Both train the same model on the same examples.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import torch
import torch.nn.functional as F
import torch_recording as recording
from torch import nn
from torch.profiler import record_function

ON_GPU = recording.device().type == "cuda"
BATCH, FEATURES, WIDTH, HIDDEN, CLASSES = (
    (24576, 32, 4096, 4, 1024) if ON_GPU else (64, 8, 32, 2, 16)
)
WARM_UP_STEPS, STEPS, PROFILED_STEPS = 5, 10, 3
UNLABELLED, LARGEST_NORM = -100, 1.0
DTYPE = torch.bfloat16 if ON_GPU else torch.float32


def make_model() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(FEATURES, WIDTH), nn.GELU()]
    for _ in range(HIDDEN):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


class Training:
    """Model and optimizer on the device, examples on the host."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.device = recording.device()
        with self.device:
            self.model = make_model().to(DTYPE)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-2, momentum=0.9, foreach=True
        )
        random = np.random.default_rng(7)
        self.batches = [self.make_batch(random) for _ in range(4)]
        self.losses: list[float] = []
        self.kept: list[torch.Tensor] = []
        self.lines: list[str] = []

    @staticmethod
    def make_batch(random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        examples = random.random((BATCH, FEATURES), dtype=np.float32)
        labels = random.integers(0, CLASSES, BATCH)
        labels[random.random(BATCH) < 0.2] = UNLABELLED
        return torch.from_numpy(examples), torch.from_numpy(labels)

    # -- sync: a number is read from the device in every step --------------------------------------

    def copy_and_wait(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.to(self.device)

    def loss_of_labelled(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        labelled = labels != UNLABELLED
        return F.cross_entropy(logits[labelled].float(), labels[labelled])

    def check_loss(self, loss: torch.Tensor) -> None:
        if not math.isfinite(loss.item()):
            raise SystemExit("the loss is not finite")

    def clip_when_large(self) -> None:
        gradients = [parameter.grad for parameter in self.model.parameters()]
        norm = nn.utils.get_total_norm(gradients)
        if norm.item() > LARGEST_NORM:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), LARGEST_NORM, norm)

    def log_line(self, loss: torch.Tensor) -> None:
        self.losses.append(float(loss.detach()))
        self.lines.append(f"loss {self.losses[-1]:.4f}")

    def step_sync(self, number: int) -> None:
        with record_function("data"):
            examples, labels = self.batches[number % len(self.batches)]
            examples, labels = self.copy_and_wait(examples), self.copy_and_wait(labels)
        with record_function("forward"):
            loss = self.loss_of_labelled(self.model(examples.to(DTYPE)), labels)
            self.check_loss(loss)
        with record_function("backward"):
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.clip_when_large()
        with record_function("optimizer"):
            self.optimizer.step()
        with record_function("log"):
            self.log_line(loss)

    # -- clean: the same, and the device is never asked --------------------------------------------

    def copy_and_go_on(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.pin_memory().to(self.device, non_blocking=True) if ON_GPU else batch

    def step_clean(self, number: int) -> None:
        with record_function("data"):
            examples, labels = self.batches[number % len(self.batches)]
            examples, labels = self.copy_and_go_on(examples), self.copy_and_go_on(labels)
        with record_function("forward"):
            logits = self.model(examples.to(DTYPE)).float()
            loss = F.cross_entropy(logits, labels, ignore_index=UNLABELLED)
        with record_function("backward"):
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), LARGEST_NORM)
        with record_function("optimizer"):
            self.optimizer.step()
        with record_function("log"):
            self.kept.append(loss.detach())

    def read_losses(self) -> list[float]:
        """Every loss so far; the one place where the clean variant reads the device."""
        if self.kept:
            self.losses += torch.stack(self.kept).tolist()
            self.kept.clear()
        if not all(map(math.isfinite, self.losses)):
            raise SystemExit("the loss is not finite")
        return self.losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("sync", "clean"), required=True)
    parser.add_argument("--cpu", action="store_true", help="try it without a GPU, on small shapes")
    arguments = parser.parse_args()

    training = Training()
    step = training.step_sync if arguments.variant == "sync" else training.step_clean
    for number in range(WARM_UP_STEPS):
        step(number)
    recording.wait()
    start = time.perf_counter()
    for number in range(STEPS):
        step(number)
    recording.wait()
    untraced_s = time.perf_counter() - start

    profiler = recording.profile_steps(step, PROFILED_STEPS, stacks=True)
    recording.write_trace(profiler)
    losses = training.read_losses()
    recording.report(
        {
            "profiled_steps": PROFILED_STEPS,
            "step_ms_unprofiled": round(untraced_s / STEPS * 1e3, 3),
            "losses": len(losses),
            "checksum": round(sum(losses) / len(losses), 2),
        }
    )


if __name__ == "__main__":
    main()
