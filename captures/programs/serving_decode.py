"""A language model that answers several requests at once, token by token, as they come.

A new request waits for a free slot; its prompt is then processed at once (prefill), which gives its
first token, and from there on it gets one token in every step that all occupied slots share (decode).
While a prompt is processed, nobody else gets a token. `tokens.json` holds when each token of each
request was on the host, in two runs at two rates. `--variant chat`: short prompts. `--variant
documents`: long ones.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from serving_model import ON_GPU, Clock, median, poisson_plan, report, save
from torch import nn


@dataclass(frozen=True)
class Setting:
    """What comes: prompts and answers of a length in a range, at a rate; and how many slots serve."""

    prompt_tokens: tuple[int, int]
    answer_tokens: tuple[int, int]
    requests: int
    rates_per_s: tuple[float, ...]
    slots: int
    longest: int


SETTINGS = {
    "chat": Setting((32, 160), (24, 72), 80, (25.0, 75.0), 16, 256),
    "documents": Setting((800, 3600), (24, 72), 50, (8.0, 20.0), 12, 4096),
}
SMALL = {
    "chat": Setting((4, 12), (4, 8), 10, (30.0, 60.0), 4, 24),
    "documents": Setting((60, 100), (4, 8), 10, (30.0, 60.0), 4, 128),
}
WARM_UP_PER_S = 1_000.0
SHORTEST = 3  # the number of the request that wants one token only
WIDTH, HEADS, LAYERS = (2048, 16, 16) if ON_GPU else (64, 4, 2)
VOCABULARY = 16_384 if ON_GPU else 256
DEVICE = "cuda" if ON_GPU else "cpu"


class Layer(nn.Module):
    """Attention over a cache (slots, heads, longest, width of a head), and a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def _split(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        rows, length, width = x.shape
        qkv = self.query_key_value(self.norm_attention(x))
        return qkv.view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)

    def _rest(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        x = x + self.project(attended.transpose(1, 2).reshape(x.shape))
        return x + self.contract(F.gelu(self.expand(self.norm_mlp(x))))

    def prefill(self, x: torch.Tensor, cache: torch.Tensor, slot: int) -> torch.Tensor:
        q, k, v = self._split(x)
        cache[0, slot, :, : x.shape[1]], cache[1, slot, :, : x.shape[1]] = k[0], v[0]
        return self._rest(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def decode(
        self, x: torch.Tensor, cache: torch.Tensor, places: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        q, k, v = self._split(x)
        slots = torch.arange(len(x), device=x.device)
        cache[0, slots, :, places], cache[1, slots, :, places] = k[:, :, 0], v[:, :, 0]
        return self._rest(x, F.scaled_dot_product_attention(q, cache[0], cache[1], attn_mask=mask))


class Decoder(nn.Module):
    """A decoder with a cache of keys and values for some slots."""

    def __init__(self, width: int, heads: int, layers: int, slots: int, longest: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)
        shape = (layers, 2, slots, heads, longest, width // heads)
        self.register_buffer("cache", torch.zeros(shape))

    def prefill(self, ids: torch.Tensor, slot: int) -> torch.Tensor:
        """Logits (vocabulary,) of the token after the prompt `ids` (length,)."""
        x = self.embed(ids) + self.position.weight[: len(ids)]
        x = x[None]
        for layer, cache in zip(self.layers, self.cache, strict=True):
            x = layer.prefill(x, cache, slot)
        return self.head(x[0, -1])

    def decode(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Logits (slots, vocabulary) after one more token each; `places` says where it stands."""
        x = (self.embed(ids) + self.position(places))[:, None]
        longest = self.cache.shape[-2]
        mask = torch.arange(longest, device=ids.device)[None] <= places[:, None]
        for layer, cache in zip(self.layers, self.cache, strict=True):
            x = layer.decode(x, cache, places, mask[:, None, None])
        return self.head(x[:, 0])


def check_decoder() -> None:
    """Token by token gives what the whole sequence at once gives."""
    torch.manual_seed(1)
    with torch.device(DEVICE):
        model = Decoder(64, 4, 2, slots=2, longest=32).eval()
        ids = torch.randint(VOCABULARY, (20,))
    whole = model.prefill(ids, 0)
    model.cache.zero_()
    model.prefill(ids[:12], 1)
    for place in range(12, 20):
        step = torch.stack([ids[0], ids[place]])
        logits = model.decode(step, torch.tensor([0, place], device=DEVICE))
    torch.testing.assert_close(logits[1], whole, rtol=1e-3, atol=1e-3)


@dataclass
class Request:
    """One request and its times."""

    number: int
    arrival_ns: int
    prompt: torch.Tensor
    answer_tokens: int
    start_ns: int = 0
    token_ns: list[int] = field(default_factory=list)


def requests_of(setting: Setting, rate_per_s: float) -> list[Request]:
    generator = torch.Generator().manual_seed(5)

    def lengths(low: int, high: int) -> list[int]:
        return torch.randint(low, high + 1, (setting.requests,), generator=generator).tolist()

    plan = poisson_plan(setting.requests, rate_per_s, seed=5)
    wanted = zip(
        plan, lengths(*setting.prompt_tokens), lengths(*setting.answer_tokens), strict=True
    )
    return [
        Request(
            number,
            at_ns,
            torch.randint(VOCABULARY, (length,), generator=generator),
            1 if number == SHORTEST else answer,
        )
        for number, (at_ns, length, answer) in enumerate(wanted)
    ]


def serve(model: Decoder, requests: list[Request], slots: int) -> list[int]:
    """Answer all requests; returns how many slots were occupied in each decode step."""
    clock = Clock()
    coming, busy, occupied = list(requests), {}, []
    ids = torch.zeros(slots, dtype=torch.int64)
    places = torch.zeros(slots, dtype=torch.int64)
    while coming or busy:
        while coming and len(busy) < slots and coming[0].arrival_ns <= clock():
            request = coming.pop(0)
            slot = next(free for free in range(slots) if free not in busy)
            request.start_ns = clock()
            ids[slot] = model.prefill(request.prompt.to(DEVICE), slot).argmax().item()
            request.token_ns.append(clock())
            if request.answer_tokens > 1:
                places[slot] = len(request.prompt)
                busy[slot] = request
        if not busy:
            clock.sleep_until(coming[0].arrival_ns)
            continue
        tokens = model.decode(ids.to(DEVICE), places.to(DEVICE)).argmax(dim=-1).tolist()
        now_ns = clock()
        occupied.append(len(busy))
        for slot, request in list(busy.items()):
            request.token_ns.append(now_ns)
            ids[slot] = tokens[slot]
            places[slot] += 1
            if len(request.token_ns) == request.answer_tokens:
                del busy[slot]
                places[slot] = 0
    return occupied


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=tuple(SETTINGS), required=True)
    arguments = parser.parse_args()
    setting = (SETTINGS if ON_GPU else SMALL)[arguments.variant]
    with torch.inference_mode():
        check_decoder()
        torch.manual_seed(0)
        with torch.device(DEVICE):
            model = Decoder(WIDTH, HEADS, LAYERS, setting.slots, setting.longest)
            model = model.to(torch.bfloat16).eval()
        # Every prompt once before: the first one of a length costs more than all that follow.
        serve(model, requests_of(setting, WARM_UP_PER_S), setting.slots)
        runs, mean_occupied = [], []
        for rate_per_s in setting.rates_per_s:
            requests = requests_of(setting, rate_per_s)
            occupied = serve(model, requests, setting.slots)
            mean_occupied.append(round(sum(occupied) / len(occupied), 1))
            runs.append(run_of(requests, rate_per_s, setting.slots))
    save("tokens.json", runs)
    report(
        first_token_ms=[
            _median_ms([b[0] - a for a, b in zip(run["sent_ns"], run["token_ns"], strict=True)])
            for run in runs
        ],
        gap_ms=[_median_ms(_gaps(run)) for run in runs],
        longest_gap_ms=[round(max(_gaps(run)) / 1e6, 2) for run in runs],
        occupied_slots=mean_occupied,
    )


def run_of(requests: list[Request], rate_per_s: float, slots: int) -> dict[str, Any]:
    """One run of the file; checks that every request got its tokens in order."""
    for request in requests:
        assert len(request.token_ns) == request.answer_tokens
        times = [request.arrival_ns, request.start_ns, *request.token_ns]
        assert times == sorted(times)
    return {
        "run": f"poisson_{rate_per_s:g}",
        "concurrency": None,
        "rate_per_s": rate_per_s,
        "slots": slots,
        "sent_ns": [request.arrival_ns for request in requests],
        "start_ns": [request.start_ns for request in requests],
        "prompt_tokens": [len(request.prompt) for request in requests],
        "token_ns": [request.token_ns for request in requests],
    }


def _gaps(run: dict[str, Any]) -> list[int]:
    return [later - earlier for times in run["token_ns"] for earlier, later in pairwise(times)]


def _median_ms(times_ns: list[int]) -> float:
    return round(median(times_ns) / 1e6, 3)


if __name__ == "__main__":
    main()
