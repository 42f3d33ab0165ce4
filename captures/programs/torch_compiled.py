"""A compiled encoder that is given sentences of several lengths.

`--variant recompiles` compiles for exact shapes and passes every batch at its own length.
`--variant breaks` notes a mean in the middle of the forward pass, and asks whether a number is large.
`--variant fixed` pads each batch to one length, notes nothing, and asks on the device.
All of them compute the same means from the same sentences.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import torch
import torch_recording as recording
from torch import nn
from torch._dynamo.utils import counters
from torch.profiler import record_function

ON_GPU = recording.device().type == "cuda"
BATCH, WIDTH, LONGEST = (64, 512, 256) if ON_GPU else (2, 16, 32)
LENGTHS = [LONGEST, LONGEST, LONGEST] + [LONGEST * part // 16 for part in (11, 13, 9, 12)]
PROFILED_STEPS, REPEATS, LARGE = 4, 20, 50.0


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.second(torch.nn.functional.gelu(self.first(self.norm(x))))
        x = torch.where(x.abs() > LARGE, x.sign() * LARGE, x)
        return (x * mask).sum(dim=1) / mask.sum(dim=1)


class AskingEncoder(Encoder):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    @torch.compiler.disable
    def note(self, x: torch.Tensor) -> None:
        self.seen.append(x.mean().item())

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.first(self.norm(x)))
        self.note(hidden)
        x = x + self.second(hidden)
        if x.abs().max() > LARGE:
            x = torch.where(x.abs() > LARGE, x.sign() * LARGE, x)
        return (x * mask).sum(dim=1) / mask.sum(dim=1)


class Work:
    """Sentences, the compiled model, and the means that it computed."""

    def __init__(self, variant: str) -> None:
        torch.manual_seed(0)
        self.pad = variant != "recompiles"
        kind = AskingEncoder if variant == "breaks" else Encoder
        with recording.device():
            self.plain = kind().eval()
            self.batches = [torch.randn(BATCH, length, WIDTH) for length in LENGTHS]
        self.model = torch.compile(self.plain, dynamic=False)
        self.answers: list[torch.Tensor] = []

    def step(self, number: int) -> None:
        batch = self.batches[number]
        length = batch.shape[1]
        with record_function("data"):
            missing = LONGEST - length if self.pad else 0
            padded = nn.functional.pad(batch, (0, 0, 0, missing))
            mask = torch.zeros(length + missing, 1, device=batch.device)
            mask[:length] = 1
            mask = mask.expand(BATCH, -1, -1).contiguous()
        with record_function("model"):
            answer = self.model(padded, mask)
        with record_function("copy_out"):
            self.answers.append(answer.to("cpu"))


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("recompiles", "breaks", "fixed"), required=True)
    parser.add_argument("--cpu", action="store_true", help="try it without a GPU, on small shapes")
    arguments = parser.parse_args()

    work = Work(arguments.variant)
    work.step(0)
    recording.wait()
    before = dict(counters["stats"])
    profiler = recording.profile_steps(
        work.step, PROFILED_STEPS, stacks=arguments.variant != "recompiles"
    )
    recording.write_trace(profiler)
    # Triton's options of a launch ("XBLOCK=2") are spelled like a machine's environment.
    trace = Path("trace.json")
    trace.write_text(re.sub(r"\b([A-Z][A-Z0-9_]+)=(\w+)", r"\1: \2", trace.read_text("utf-8")))
    compiled = counters["stats"]["unique_graphs"] - before["unique_graphs"]

    for answer, batch in zip(work.answers[1:], work.batches, strict=True):
        ones = torch.ones(BATCH, batch.shape[1], 1, device=batch.device)
        torch.testing.assert_close(answer, work.plain(batch, ones).cpu(), rtol=1e-3, atol=1e-3)
    recording.wait()
    start = time.perf_counter()
    for _ in range(REPEATS):
        for number in range(len(work.batches)):
            work.step(number)
    recording.wait()
    steady_s = time.perf_counter() - start
    recording.report(
        {
            "profiled_steps": PROFILED_STEPS,
            "graphs_before": before["unique_graphs"],
            "graphs_compiled_while_profiled": compiled,
            "graph_breaks": sum(counters["graph_break"].values()),
            "step_ms_when_nothing_compiles": round(steady_s / REPEATS / len(LENGTHS) * 1e3, 3),
            "checksum": round(float(torch.stack(work.answers[1:8]).square().sum()), 1),
        }
    )


if __name__ == "__main__":
    main()
