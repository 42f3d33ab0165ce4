"""A small decoder model that writes one token after the other, batch size 1.

`--variant eager` launches each kernel of each token from Python.
`--variant graph` captures the work of one token once and replays it as a CUDA graph.
Both write the same tokens: the program checks it and ends with an error if they differ.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda import nvtx

WIDTH, HEADS, LAYERS, VOCABULARY, LONGEST = 512, 8, 4, 8192, 64
TOKENS = 16


class Layer(nn.Module):
    """One decoder layer with its own key and value cache (heads, longest, head width)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.expand = nn.Linear(WIDTH, 4 * WIDTH)
        self.contract = nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(HEADS, LONGEST, WIDTH // HEADS))
        self.register_buffer("values", torch.zeros(HEADS, LONGEST, WIDTH // HEADS))

    def forward(self, x: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        qkv = self.query_key_value(self.norm_attention(x))
        q, k, v = qkv.view(3, HEADS, 1, WIDTH // HEADS)
        self.keys.index_copy_(1, position, k)
        self.values.index_copy_(1, position, v)
        scores = q @ self.keys.transpose(1, 2) * (WIDTH // HEADS) ** -0.5 + mask
        attended = F.softmax(scores, dim=-1) @ self.values
        x = x + self.project(attended.reshape(1, WIDTH))
        return x + self.contract(F.gelu(self.expand(self.norm_mlp(x))))


class Decoder(nn.Module):
    """Everything a token needs stays on the device, so that no step waits for the host."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.embed_position = nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        future = torch.full((LONGEST, LONGEST), float("-inf")).triu(1)
        self.register_buffer("mask", future)
        self.register_buffer("token", torch.zeros(1, dtype=torch.long))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("written", torch.zeros(LONGEST, dtype=torch.long))

    def reset(self) -> None:
        self.token.fill_(1)
        self.position.zero_()
        self.written.zero_()

    def step(self) -> None:
        """Write one token at `position` and move on."""
        x = self.embed(self.token) + self.embed_position(self.position)
        mask = self.mask.index_select(0, self.position)
        for layer in self.layers:
            x = layer(x, self.position, mask)
        torch.argmax(self.head(self.norm(x)), dim=-1, out=self.token)
        self.written.index_copy_(0, self.position, self.token)
        self.position.add_(1)


def decode(model: Decoder, one_token: Callable[[], None], tokens: int) -> None:
    model.reset()
    for _ in range(tokens):
        with nvtx.range("token"):
            one_token()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("eager", "graph"), required=True)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = Decoder().to("cuda", torch.bfloat16).eval()
    with torch.inference_mode():
        decode(model, model.step, TOKENS)
        expected = model.written.tolist()

        one_token: Callable[[], None] = model.step
        if arguments.variant == "graph":
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                decode(model, model.step, 3)
            torch.cuda.current_stream().wait_stream(side)
            model.reset()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                model.step()
            one_token = graph.replay
        decode(model, one_token, TOKENS)
        torch.cuda.synchronize()

        start = time.perf_counter()
        decode(model, one_token, TOKENS)
        torch.cuda.synchronize()
        untraced_s = time.perf_counter() - start

        torch.cuda.profiler.start()
        start = time.perf_counter()
        with nvtx.range("decode"):
            decode(model, one_token, TOKENS)
            torch.cuda.synchronize()
        traced_s = time.perf_counter() - start
        torch.cuda.profiler.stop()

        if model.written.tolist() != expected:
            raise SystemExit("the tokens differ from those of the eager loop")
    result = {
        "steps": TOKENS,
        "steps_per_s": round(TOKENS / untraced_s, 1),
        "steps_per_s_traced": round(TOKENS / traced_s, 1),
        "checksum": sum((index + 1) * token for index, token in enumerate(expected)),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
