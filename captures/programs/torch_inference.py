"""A small transformer that answers one short batch after the other.

`--variant eager` launches every kernel of a step by itself.
`--variant graph` records the step once into a CUDA graph and replays it.
Both compute the same answers from the same inputs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
import torch_recording as recording
from torch import nn
from torch.profiler import record_function

ON_GPU = recording.device().type == "cuda"
BATCH, TOKENS, WIDTH, HEADS, LAYERS = (1, 512, 1024, 16, 16) if ON_GPU else (1, 4, 32, 2, 2)
DTYPE = torch.bfloat16 if ON_GPU else torch.float32
WARM_UP_STEPS, STEPS, PROFILED_STEPS = 10, 50, 3
SPREAD = 2e-2  # of answers, relative: bfloat16 keeps 8 bits


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm_1(x)).view(BATCH, TOKENS, 3, HEADS, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Service:
    """The model, the inputs it is asked about, and two ways to answer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.device = recording.device()
        with self.device:
            self.model = nn.Sequential(*(Block() for _ in range(LAYERS))).to(DTYPE).eval()
        shape = (8, BATCH, TOKENS, WIDTH)
        self.inputs = torch.randn(shape, dtype=DTYPE)
        if ON_GPU:
            self.inputs = self.inputs.pin_memory()
        self.answers: list[torch.Tensor] = []
        # The host reads an answer while the device is at the next one: two places for answers.
        self.places = torch.empty(2, BATCH, WIDTH, dtype=DTYPE, pin_memory=ON_GPU)
        self.arrived = [torch.cuda.Event() for _ in self.places] if ON_GPU else []
        self.expected = 0  # number of the answer that is read next

    def copy_out(self, number: int, answer: torch.Tensor) -> None:
        self.places[number % 2].copy_(answer[:, -1], non_blocking=True)
        if ON_GPU:
            self.arrived[number % 2].record()

    def read_answers(self, before: int) -> None:
        """Read the answers that are due, up to that of step `before` - 1."""
        while self.expected < before:
            if ON_GPU:
                self.arrived[self.expected % 2].synchronize()
            self.answers.append(self.places[self.expected % 2].clone())
            self.expected += 1

    def run(self, step: Callable[[int], None], steps: int) -> list[torch.Tensor]:
        """The answers of `steps` steps."""
        self.answers, self.expected = [], 0
        for number in range(steps):
            step(number)
        self.read_answers(steps)
        return self.answers

    def step_eager(self, number: int) -> None:
        with record_function("copy_in"):
            batch = self.inputs[number % len(self.inputs)].to(self.device, non_blocking=True)
        with record_function("model"):
            answer = self.model(batch)
        with record_function("copy_out"):
            self.copy_out(number, answer)
        with record_function("read_previous"):
            self.read_answers(before=number)

    def make_step_graph(self) -> Callable[[int], None]:
        if not ON_GPU:
            return self.step_eager
        batch = self.inputs[0].to(self.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(batch)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = self.model(batch)

        def step_graph(number: int) -> None:
            with record_function("copy_in"):
                batch.copy_(self.inputs[number % len(self.inputs)], non_blocking=True)
            with record_function("model"):
                graph.replay()
            with record_function("copy_out"):
                self.copy_out(number, answer)
            with record_function("read_previous"):
                self.read_answers(before=number)

        return step_graph


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("eager", "graph"), required=True)
    parser.add_argument("--cpu", action="store_true", help="try it without a GPU, on small shapes")
    arguments = parser.parse_args()

    service = Service()
    expected = service.run(service.step_eager, 8)
    step = service.step_eager if arguments.variant == "eager" else service.make_step_graph()
    service.run(step, WARM_UP_STEPS)
    recording.wait()
    start = time.perf_counter()
    service.run(step, STEPS)
    recording.wait()
    untraced_s = time.perf_counter() - start

    service.answers, service.expected = [], 0
    profiler = recording.profile_steps(step, PROFILED_STEPS)
    recording.write_trace(profiler)
    for number, answer in enumerate(service.answers):  # the last one is not read
        torch.testing.assert_close(answer, expected[number % 8], rtol=SPREAD, atol=SPREAD)
    recording.report(
        {
            "profiled_steps": PROFILED_STEPS,
            "step_ms_unprofiled": round(untraced_s / STEPS * 1e3, 3),
            "checksum": round(float(torch.stack(expected).float().square().mean()), 3),
        }
    )


if __name__ == "__main__":
    main()
