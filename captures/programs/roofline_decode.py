"""Prefill and decode of a language model's layers: time by batch and by length of the context.

Layers like those of models in use (gated MLP, rotary embedding left out), each with weights and
cache of its own, so that the L2 cache helps no more than in a whole model. No embedding and no head:
what is measured is layers only.

Writes measurements.json. A step of decoding is one new token for each sequence of the batch, as one
CUDA graph; "parts" has the time of its linear layers alone and of its attention alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from roofline_timing import Call, Timer, captured, elapsed_ns, write_table
from torch.nn.attention import SDPBackend, sdpa_kernel

MODELS: dict[str, dict[str, int]] = {
    "gqa": {"layers": 8, "hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 14336},
    "mha": {
        "layers": 12,
        "hidden": 2048,
        "heads": 16,
        "kv_heads": 16,
        "head_dim": 128,
        "ffn": 5632,
    },
}
CACHED: dict[str, list[int]] = {"gqa": [256, 4096], "mha": [128, 2048]}  # tokens before the new one
BATCHES = {
    "gqa": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "mha": [1, 4, 16, 64, 128, 192, 256, 384, 512],
}
PROMPTS = {"gqa": [128, 512, 2048, 8192], "mha": [256, 1024, 4096]}


SAMPLES = 21
LONG_SLEEP_CYCLES = 40_000_000  # about twenty milliseconds: longer than two steps take to issue
Attend = Callable[[torch.Tensor], torch.Tensor]


class Layer:
    """Weights of one layer, bfloat16; a call takes (rows, hidden) and what attention does."""

    def __init__(self, sizes: dict[str, int], generator: torch.Generator) -> None:
        def weight(inputs: int, outputs: int) -> torch.Tensor:
            values = torch.randn(inputs, outputs, device="cuda", generator=generator)
            return (values * inputs**-0.5).to(torch.bfloat16)

        self.sizes = sizes
        hidden, dim = sizes["hidden"], sizes["head_dim"]
        self.queries = sizes["heads"] * dim
        self.pairs = sizes["kv_heads"] * dim
        self.qkv = weight(hidden, self.queries + 2 * self.pairs)
        self.out = weight(self.queries, hidden)
        self.gate_up = weight(hidden, 2 * sizes["ffn"])
        self.down = weight(sizes["ffn"], hidden)
        self.scale = torch.ones(hidden, device="cuda", dtype=torch.bfloat16)

    def parameters(self) -> int:
        return sum(t.numel() for t in (self.qkv, self.out, self.gate_up, self.down))

    def linear(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        hidden = self.sizes["hidden"]
        qkv = F.rms_norm(x, (hidden,), self.scale) @ self.qkv
        x = x + attend(qkv) @ self.out
        gate, up = (F.rms_norm(x, (hidden,), self.scale) @ self.gate_up).chunk(2, dim=-1)
        return x + (F.silu(gate) * up) @ self.down


def attention(layer: Layer, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool):
    grouped = layer.sizes["heads"] != layer.sizes["kv_heads"]
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)


class Decode:
    """One step for a batch of sequences that all have `cached` tokens, and place for one more."""

    def __init__(self, layers: list[Layer], batch: int, cached: int) -> None:
        sizes = layers[0].sizes
        self.layers, self.batch, self.sizes = layers, batch, sizes
        generator = torch.Generator("cuda").manual_seed(batch + cached)
        shape = (batch, cached + 1, sizes["kv_heads"], sizes["head_dim"])

        def random(*size: int) -> torch.Tensor:
            return torch.randn(*size, device="cuda", generator=generator).to(torch.bfloat16)

        self.caches = [(random(*shape), random(*shape)) for _ in layers]
        self.x = random(batch, sizes["hidden"])

    def attend(self, index: int, qkv: torch.Tensor) -> torch.Tensor:
        """Write the new token's key and value at the last place, then read the whole cache."""
        layer, sizes = self.layers[index], self.sizes
        q, k, v = qkv.split([layer.queries, layer.pairs, layer.pairs], dim=-1)
        keys, values = self.caches[index]
        keys[:, -1] = k.view(self.batch, sizes["kv_heads"], -1)
        values[:, -1] = v.view(self.batch, sizes["kv_heads"], -1)
        q = q.view(self.batch, sizes["heads"], 1, sizes["head_dim"])
        out = attention(layer, q, keys.transpose(1, 2), values.transpose(1, 2), causal=False)
        return out.reshape(self.batch, layer.queries)

    def step(self) -> torch.Tensor:
        x = self.x
        for index, layer in enumerate(self.layers):
            x = layer.linear(x, lambda qkv, index=index: self.attend(index, qkv))
        return x

    def linear_only(self) -> torch.Tensor:
        x = self.x
        for layer in self.layers:
            x = layer.linear(x, lambda qkv, layer=layer: qkv[:, : layer.queries])
        return x

    def attention_only(self) -> torch.Tensor:
        width = self.layers[0].qkv.shape[1]
        qkv = self.x.repeat(1, -(-width // self.x.shape[1]))[:, :width]
        return torch.stack([self.attend(index, qkv) for index in range(len(self.layers))])

    def check(self) -> None:
        """The attention of the last sequence against a sum in double precision."""
        layer, sizes = self.layers[0], self.sizes
        qkv = torch.randn(self.batch, layer.qkv.shape[1], device="cuda").to(torch.bfloat16)
        got = self.attend(0, qkv)[-1].view(sizes["heads"], -1).double()
        keys, values = (c[-1].double().transpose(0, 1) for c in self.caches[0])
        repeat = sizes["heads"] // sizes["kv_heads"]
        keys, values = (t.repeat_interleave(repeat, 0) for t in (keys, values))
        q = qkv[-1, : layer.queries].view(sizes["heads"], 1, -1).double()
        weights = torch.softmax(q @ keys.transpose(1, 2) * sizes["head_dim"] ** -0.5, dim=-1)
        expected = (weights @ values)[:, 0]
        error = float((got - expected).norm() / expected.norm())
        if not error < 2e-2:
            raise SystemExit(f"decode, batch {self.batch}: relative error {error:.1e}")


def prefill(layers: list[Layer], tokens: int) -> Callable[[], torch.Tensor]:
    """All layers over one prompt, with causal attention."""
    sizes = layers[0].sizes
    generator = torch.Generator("cuda").manual_seed(tokens)
    x0 = torch.randn(tokens, sizes["hidden"], device="cuda", generator=generator)
    x0 = x0.to(torch.bfloat16)

    def attend(layer: Layer, qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = qkv.split([layer.queries, layer.pairs, layer.pairs], dim=-1)
        q = q.view(1, tokens, sizes["heads"], -1).transpose(1, 2)
        k, v = (t.view(1, tokens, sizes["kv_heads"], -1).transpose(1, 2) for t in (k, v))
        out = attention(layer, q, k, v, causal=True)
        return out.transpose(1, 2).reshape(tokens, layer.queries)

    def call() -> torch.Tensor:
        x = x0
        for layer in layers:
            x = layer.linear(x, lambda qkv, layer=layer: attend(layer, qkv))
        return x

    return call


def stream_ns(call: Call) -> list[int]:
    """Samples of calls that follow one another, each between two events."""
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SAMPLES)]
    for _ in range(3):
        call()
    for start, end in pairs:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [elapsed_ns(start, end) for start, end in pairs]


def queued_ns(call: Call) -> list[int]:
    """Samples of a call that the host issued long before its turn came, after the same call."""
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SAMPLES)]
    for start, end in pairs:
        torch.cuda._sleep(LONG_SLEEP_CYCLES)
        call()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
    return [elapsed_ns(start, end) for start, end in pairs]


def graph_ns(call: Call) -> list[int]:
    """The same of a CUDA graph of the call: the host's launching plays no part."""
    graph = captured(call)
    found = stream_ns(graph.replay)
    graph.reset()
    return found


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="gqa")
    arguments = parser.parse_args()
    sizes = MODELS[arguments.model]

    def row(name: str, op: str, times: list[int], batch: int, new: int, cached: int) -> dict:
        computed = {**sizes, "ffn_matrices": 3}
        computed |= {"batch": batch, "new_tokens": new, "cached_tokens": cached}
        return {
            "name": name,
            "op": op,
            "arguments": computed,
            "dtype": "bfloat16",
            "cache": "warm",  # the weights of all layers are many times the L2 cache
            "device_time": times,
            "host_time": None,
        }

    generator = torch.Generator("cuda").manual_seed(0)
    layers = [Layer(sizes, generator) for _ in range(sizes["layers"])]
    timer = Timer()
    rows: list[dict] = []
    parts: list[dict] = []
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for tokens in PROMPTS[arguments.model]:
            call = prefill(layers, tokens)
            if not bool(call().isfinite().all()):
                raise SystemExit(f"prefill of {tokens} tokens is not finite")
            name = f"prefill {tokens} tokens"
            rows.append(row(name, "transformer", graph_ns(call), 1, tokens, 0))
        for cached in CACHED[arguments.model]:
            for batch in BATCHES[arguments.model]:
                decode = Decode(layers, batch, cached)
                decode.check()
                at = (batch, 1, cached)
                name = f"decode batch {batch} after {cached}"
                rows.append(row(name, "transformer", graph_ns(decode.step), *at))
                if batch == 1:
                    name = f"decode eager batch 1 after {cached}"
                    eager = row(name, "transformer", queued_ns(decode.step), *at)
                    rows.append({**eager, "host_time": timer.host_ns(decode.step)})
                for part, call in (
                    ("linear", decode.linear_only),
                    ("attention", decode.attention_only),
                ):
                    name = f"{part} of decode batch {batch} after {cached}"
                    parts.append(row(name, f"transformer_{part}", graph_ns(call), *at))
                del decode, call
                torch.cuda.empty_cache()

    write_table(
        {
            "format": 1,
            "unit": "ns",
            "device": torch.cuda.get_device_name(),
            "parameters": sum(layer.parameters() for layer in layers),
            "measurements": rows,
            "parts": parts,
        }
    )
    medians = {r["name"]: statistics.median(r["device_time"]) for r in rows}
    print("RESULT", json.dumps({"rows": len(rows), "median_ns": medians}))


if __name__ == "__main__":
    main()
