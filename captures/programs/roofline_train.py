"""Time training steps of a small language model: forward, backward, optimizer.

Writes measurements.json: the model's sizes and, for each way of running a step, samples in
nanoseconds. The ways differ in batch, and in whether activations are kept or computed again in the
backward pass. Weights, activations and gradients are bfloat16.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from typing import Any

import torch
import torch.nn.functional as F
from roofline_timing import write_table
from torch import nn
from torch.utils.checkpoint import checkpoint

MODELS = {
    "small": {"layers": 12, "hidden": 1024, "heads": 16, "tokens": 1024, "vocabulary": 32768},
    "long": {"layers": 8, "hidden": 1536, "heads": 12, "tokens": 4096, "vocabulary": 16384},
}
# name, sequences in a batch, recompute activations
WAYS = {
    "small": [
        ("batch 1", 1, False),
        ("batch 8", 8, False),
        ("batch 32", 32, False),
        ("batch 32, recomputed", 32, True),
    ],
    "long": [
        ("batch 1", 1, False),
        ("batch 8", 8, False),
        ("batch 8, recomputed", 8, True),
    ],
}
STEPS, WARM_UP = 12, 4


class Block(nn.Module):
    """Attention and a fourfold MLP, each after a layer norm; no biases."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(hidden)
        self.norm_mlp = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.up = nn.Linear(hidden, 4 * hidden, bias=False)
        self.down = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, hidden = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, tokens, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, hidden))
        return x + self.down(F.gelu(self.up(self.norm_mlp(x))))


class Model(nn.Module):
    def __init__(self, layers: int, hidden: int, heads: int, tokens: int, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, hidden)
        self.position = nn.Embedding(tokens, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def multiplied(self) -> int:
        """Weights of matrix products: no embeddings, no norms; the head is a product."""
        linear = [m for m in self.modules() if isinstance(m, nn.Linear)]
        return sum(layer.weight.numel() for layer in linear)

    def forward(self, ids: torch.Tensor, recompute: bool) -> torch.Tensor:
        x = self.embed(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
        return self.head(self.norm(x))


def samples(model: Model, sizes: dict, batch: int, recompute: bool) -> tuple[list[int], float]:
    """Times of steps in ns, and the last loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    generator = torch.Generator("cuda").manual_seed(batch)
    shape = (batch, sizes["tokens"] + 1)
    ids = torch.randint(sizes["vocabulary"], shape, device="cuda", generator=generator)
    loss = torch.zeros(())
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    for index in range(-WARM_UP, STEPS):
        if index >= 0:
            events[index].record()
        logits = model(ids[:, :-1], recompute)
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    events[STEPS].record()
    torch.cuda.synchronize()
    between = itertools.pairwise(events)
    return [round(start.elapsed_time(end) * 1e6) for start, end in between], loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="small")
    arguments = parser.parse_args()
    sizes = MODELS[arguments.model]

    rows: list[dict[str, Any]] = []
    losses = {}
    for name, batch, recompute in WAYS[arguments.model]:
        torch.manual_seed(0)
        model = Model(**sizes).to("cuda", torch.bfloat16)
        torch.cuda.reset_peak_memory_stats()
        step_ns, loss = samples(model, sizes, batch, recompute)
        # Random tokens cannot be predicted: a right start is near log(vocabulary), and goes down
        # as the one batch is learnt by heart.
        if not 0 < loss < math.log(sizes["vocabulary"]) + 1:
            raise SystemExit(f"{name}: the loss is {loss}")
        losses[name] = round(loss, 4)
        rows.append(
            {
                "name": name,
                "op": "training_step",
                "arguments": {
                    "parameter_count": model.multiplied(),
                    "layers": sizes["layers"],
                    "hidden": sizes["hidden"],
                    "batch": batch,
                    "sequence": sizes["tokens"],
                    "recompute": recompute,
                },
                "dtype": "bfloat16",
                "cache": "warm",
                "device_time": step_ns,
                "host_time": None,
                "all_parameter_count": sum(p.numel() for p in model.parameters()),
                "peak_memory_bytes": torch.cuda.max_memory_allocated(),
                "note": "causal attention; forward, backward and AdamW, from step to step",
            }
        )
        del model
        torch.cuda.empty_cache()

    write_table(
        {
            "format": 1,
            "unit": "ns",
            "device": torch.cuda.get_device_name(),
            "measurements": rows,
        }
    )
    medians = {row["name"]: statistics.median(row["device_time"]) for row in rows}
    print("RESULT", json.dumps({"step_median_ns": medians, "last_loss": losses}))


if __name__ == "__main__":
    main()
