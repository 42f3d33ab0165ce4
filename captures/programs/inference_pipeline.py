"""A transformer encoder that answers batch after batch: host batch, copy in, forward, copy out, answer.

`--variant baseline` does one thing after the other, with pageable host memory.
`--variant improved` keeps pinned buffers, copies on streams of their own, prepares the next batch
while the device works and reads each output one step late.
Both give the same answers: every run ends by printing a checksum of them.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda import nvtx

BATCH, SEQUENCE, FEATURES = 32, 64, 1024
WIDTH, HEADS, LAYERS = 3072, 24, 4
VOCABULARY, CLASSES = 8192, 4096
WARM_UP_STEPS, STEPS = 8, 8


class Block(nn.Module):
    """One encoder layer: attention and a two-layer perceptron, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.expand = nn.Linear(WIDTH, 4 * WIDTH)
        self.contract = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        qkv = self.query_key_value(self.norm_attention(x))
        q, k, v = qkv.view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.project(attended.reshape(batch, length, WIDTH))
        return x + self.contract(F.gelu(self.expand(self.norm_mlp(x))))


class Encoder(nn.Module):
    """Embeddings (batch, sequence, features) in float32 to logits (batch, sequence, classes)."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = nn.Linear(FEATURES, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.widen(embeddings.to(torch.bfloat16))))


class Requests:
    """Token ids per step and the embedding table, both on the host."""

    def __init__(self, steps: int) -> None:
        generator = torch.Generator().manual_seed(7)
        self.table = torch.randn(VOCABULARY, FEATURES, generator=generator)
        self.tokens = torch.randint(VOCABULARY, (steps, BATCH * SEQUENCE), generator=generator)

    def fill(self, step: int, out: torch.Tensor) -> None:
        """Write the embeddings of one step into `out` (batch, sequence, features)."""
        torch.index_select(self.table, 0, self.tokens[step], out=out.view(-1, FEATURES))


def answer(logits: torch.Tensor, peak: float) -> list[str]:
    """The label of each sequence, from its last token, as text. `logits` is on the host."""
    scores, labels = logits[:, -1].max(dim=-1)
    return [
        f"{label}:{score / peak:.3f}"
        for label, score in zip(labels.tolist(), scores.tolist(), strict=True)
    ]


def run_baseline(model: Encoder, requests: Requests, steps: range) -> list[str]:
    answers: list[str] = []
    for step in steps:
        with nvtx.range("step"):
            with nvtx.range("make_batch"):
                batch = torch.empty(BATCH, SEQUENCE, FEATURES)
                requests.fill(step, batch)
            with nvtx.range("copy_in"):
                embeddings = batch.to("cuda")
            with nvtx.range("forward"):
                logits = model(embeddings).float()
                peak = logits.amax()
            with nvtx.range("copy_out"):
                host_logits = logits.cpu()
                host_peak = peak.item()
            with nvtx.range("postprocess"):
                answers += answer(host_logits, host_peak)
    return answers


class Slot:
    """The buffers of one step in flight, and the events that say when each may be used again."""

    def __init__(self) -> None:
        self.host_in = torch.empty(BATCH, SEQUENCE, FEATURES, pin_memory=True)
        self.device_in = torch.empty(BATCH, SEQUENCE, FEATURES, device="cuda")
        self.device_out = torch.empty(BATCH, SEQUENCE, CLASSES, device="cuda")
        self.host_out = torch.empty(BATCH, SEQUENCE, CLASSES, pin_memory=True)
        self.device_peak = torch.empty((), device="cuda")
        self.host_peak = torch.empty((), pin_memory=True)
        self.copied_in = torch.cuda.Event()
        self.computed = torch.cuda.Event()
        self.copied_out = torch.cuda.Event()


def run_improved(
    model: Encoder,
    requests: Requests,
    steps: range,
    slots: tuple[Slot, Slot],
    copy_in: torch.cuda.Stream,
    copy_out: torch.cuda.Stream,
) -> list[str]:
    compute = torch.cuda.current_stream()
    answers: list[str] = []

    def send(step: int) -> None:
        slot = slots[step % 2]
        with nvtx.range("make_batch"):
            slot.copied_in.synchronize()
            requests.fill(step, slot.host_in)
        with nvtx.range("copy_in"), torch.cuda.stream(copy_in):
            copy_in.wait_event(slot.computed)
            slot.device_in.copy_(slot.host_in, non_blocking=True)
            slot.copied_in.record(copy_in)

    def read(step: int) -> None:
        slot = slots[step % 2]
        with nvtx.range("postprocess"):
            slot.copied_out.synchronize()
            answers.extend(answer(slot.host_out, slot.host_peak.item()))

    send(steps[0])
    for step in steps:
        slot = slots[step % 2]
        with nvtx.range("step"):
            with nvtx.range("forward"):
                compute.wait_event(slot.copied_in)
                compute.wait_event(slot.copied_out)
                slot.device_out.copy_(model(slot.device_in))
                torch.amax(slot.device_out, dim=(0, 1, 2), out=slot.device_peak)
                slot.computed.record(compute)
            with nvtx.range("copy_out"), torch.cuda.stream(copy_out):
                copy_out.wait_event(slot.computed)
                slot.host_out.copy_(slot.device_out, non_blocking=True)
                slot.host_peak.copy_(slot.device_peak, non_blocking=True)
                slot.copied_out.record(copy_out)
            if step + 1 in steps:
                send(step + 1)
            if step - 1 in steps:
                read(step - 1)
    read(steps[-1])
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("baseline", "improved"), required=True)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Encoder().to(torch.bfloat16).eval()
    requests = Requests(WARM_UP_STEPS + 2 * STEPS)
    warm_up = range(WARM_UP_STEPS)
    untraced = range(WARM_UP_STEPS, WARM_UP_STEPS + STEPS)
    traced = range(WARM_UP_STEPS + STEPS, WARM_UP_STEPS + 2 * STEPS)

    if arguments.variant == "baseline":

        def run(steps: range) -> list[str]:
            return run_baseline(model, requests, steps)

    else:
        slots = (Slot(), Slot())
        copy_in, copy_out = torch.cuda.Stream(), torch.cuda.Stream()

        def run(steps: range) -> list[str]:
            return run_improved(model, requests, steps, slots, copy_in, copy_out)

    with torch.inference_mode():
        run(warm_up)
        torch.cuda.synchronize()
        start = time.perf_counter()
        run(untraced)
        torch.cuda.synchronize()
        untraced_s = time.perf_counter() - start

        torch.cuda.profiler.start()
        start = time.perf_counter()
        with nvtx.range("inference"):
            answers = run(traced)
            torch.cuda.synchronize()
        traced_s = time.perf_counter() - start
        torch.cuda.profiler.stop()

    labels = [int(text.split(":")[0]) for text in answers]
    result = {
        "steps": STEPS,
        "steps_per_s": round(STEPS / untraced_s, 1),
        "steps_per_s_traced": round(STEPS / traced_s, 1),
        "checksum": sum((index + 1) * label for index, label in enumerate(labels)),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
