"""A perceptron trained on the device, watched in two ways.

`--variant item` reads loss, accuracy and gradient norm with `.item()` in every step, and waits for
the device before it writes them down.
`--variant async` keeps the same numbers on the device and reads them every ten steps.
Both train the same model on the same data and end with the same losses.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda import nvtx

BATCH, WIDTH, LAYERS, CLASSES = 8192, 5120, 2, 1024
EXAMPLES = 4 * BATCH
WARM_UP_STEPS, STEPS, READ_EVERY = 10, 20, 10


def make_model() -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


class Training:
    """Model, optimizer and examples on the device; the sampler on the host."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        with torch.device("cuda"):
            self.model = make_model().to(torch.bfloat16)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-3, momentum=0.9, foreach=True
        )
        self.inputs = torch.randn(EXAMPLES, WIDTH, device="cuda", dtype=torch.bfloat16)
        self.labels = torch.randint(CLASSES, (EXAMPLES,), device="cuda")
        self.random = random.Random(11)
        self.losses: list[float] = []
        self.log: list[str] = []

    def sample(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw a batch of neighbouring pairs: indices on the host, rows and labels on the device."""
        with nvtx.range("sample"):
            pairs = torch.tensor(self.random.choices(range(0, EXAMPLES, 2), k=BATCH // 2))
            drawn = torch.stack((pairs, pairs + 1), dim=1).view(-1)
            chosen = drawn.pin_memory().to("cuda", non_blocking=True)
            return self.inputs[chosen], self.labels[chosen]

    def run_item(self, steps: int) -> None:
        for _ in range(steps):
            with nvtx.range("step"):
                inputs, labels = self.sample()
                with nvtx.range("forward"):
                    logits = self.model(inputs)
                    loss = F.cross_entropy(logits.float(), labels)
                    if not math.isfinite(loss.item()):
                        raise SystemExit("the loss is not finite")
                    accuracy = (logits.argmax(dim=-1) == labels).float().mean().item()
                with nvtx.range("backward"):
                    self.optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0).item()
                with nvtx.range("optimizer"):
                    self.optimizer.step()
                with nvtx.range("log"):
                    torch.cuda.synchronize()
                    self.note(loss.item(), accuracy, norm)

    def run_async(self, steps: int) -> None:
        watched: list[torch.Tensor] = []
        for step in range(steps):
            with nvtx.range("step"):
                inputs, labels = self.sample()
                with nvtx.range("forward"):
                    logits = self.model(inputs)
                    loss = F.cross_entropy(logits.float(), labels)
                    accuracy = (logits.argmax(dim=-1) == labels).float().mean()
                with nvtx.range("backward"):
                    self.optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                with nvtx.range("optimizer"):
                    self.optimizer.step()
                watched.append(torch.stack((loss.detach(), accuracy, norm.float())))
                if (step + 1) % READ_EVERY == 0:
                    with nvtx.range("log"):
                        for row in torch.stack(watched).tolist():
                            self.note(*row)
                        watched.clear()

    def note(self, loss: float, accuracy: float, norm: float) -> None:
        if not math.isfinite(loss):
            raise SystemExit("the loss is not finite")
        self.losses.append(loss)
        self.log.append(f"loss {loss:.4f}, accuracy {accuracy:.4f}, gradient norm {norm:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("item", "async"), required=True)
    arguments = parser.parse_args()

    training = Training()
    run = training.run_item if arguments.variant == "item" else training.run_async
    run(WARM_UP_STEPS)
    torch.cuda.synchronize()
    start = time.perf_counter()
    run(STEPS)
    torch.cuda.synchronize()
    untraced_s = time.perf_counter() - start

    torch.cuda.profiler.start()
    start = time.perf_counter()
    with nvtx.range("training"):
        run(STEPS)
        torch.cuda.synchronize()
    traced_s = time.perf_counter() - start
    torch.cuda.profiler.stop()

    result = {
        "steps": STEPS,
        "steps_per_s": round(STEPS / untraced_s, 1),
        "steps_per_s_traced": round(STEPS / traced_s, 1),
        "checksum": round(sum(training.losses), 4),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
