"""What the `serving_*` programs share: a text classifier, two ways to run it, a load and its clock.

Without a GPU everything runs on the CPU at a small size, to see that it works.
"""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
WIDTH, HEADS, LAYERS = (2048, 16, 24) if ON_GPU else (64, 4, 2)
TOKENS, VOCABULARY, CLASSES = 32, 8192, 1000
MOST = 256 if ON_GPU else 16
SAMPLES = 100 if ON_GPU else 5
RESOLUTION_NS = 1_000  # times are kept in whole microseconds: enough here, and files stay small


class Block(nn.Module):
    """One encoder layer: attention and a two-layer perceptron, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.query_key_value(self.norm_attention(x))
        q, k, v = qkv.view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.project(attended.reshape(batch, length, width))
        return x + self.contract(F.gelu(self.expand(self.norm_mlp(x))))


class Classifier(nn.Module):
    """Token ids (batch, tokens) to logits (batch, classes)."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS, layers: int = LAYERS) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embed(ids)).mean(dim=1))


def classifier(**sizes: int) -> Classifier:
    """The model with the same random weights in every run, in bfloat16."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        return Classifier(**sizes).to(torch.bfloat16).eval()


class Server:
    """Answers a batch of token ids (batch, TOKENS) on the host with a list of labels.

    how "eager": every kernel is launched from Python. how "graph": a CUDA graph for each power of
    two, and a batch is filled up to the next of them.
    """

    def __init__(self, how: str = "eager", most: int = MOST) -> None:
        self.model = classifier()
        self.how = how
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        self.static = torch.zeros(most, TOKENS, dtype=torch.int64, device=DEVICE)
        sizes = powers_of_two(most)
        for size in sizes:
            self.model(self.static[:size])
        if how == "graph" and ON_GPU:
            for size in reversed(sizes):
                graph = torch.cuda.CUDAGraph()
                pool = next(iter(self.graphs.values()))[0].pool() if self.graphs else None
                with torch.cuda.graph(graph, pool=pool):
                    labels = self.model(self.static[:size]).argmax(dim=-1)
                self.graphs[size] = graph, labels
        for size in range(1, min(most, 64) + 1):
            self(torch.zeros(size, TOKENS, dtype=torch.int64))

    def __call__(self, ids: torch.Tensor) -> list[int]:
        count = len(ids)
        if not self.graphs:
            return self.model(ids.to(DEVICE)).argmax(dim=-1).tolist()
        graph, labels = self.graphs[1 << (count - 1).bit_length()]
        self.static[:count].copy_(ids)
        graph.replay()
        return labels[:count].tolist()

    def agrees(self, ids: torch.Tensor) -> bool:
        """Whether each label has the model's highest logit, up to what bfloat16 may round away."""
        logits = self.model(ids.to(DEVICE)).float().cpu()
        given = logits[torch.arange(len(ids)), torch.tensor(self(ids))]
        return bool((given >= logits.amax(dim=-1) - 0.02 * logits.abs().amax()).all())


def powers_of_two(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length())]


class Texts:
    """Requests: token ids in rows of TOKENS, of which `tokens[i]` say something, the rest is 0."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(8, TOKENS + 1, (count,), generator=generator).tolist()
        self.ids = torch.randint(1, VOCABULARY, (count, TOKENS), generator=generator)
        for row, length in enumerate(self.tokens):
            self.ids[row, length:] = 0


class Clock:
    """Nanoseconds since it was made, to RESOLUTION_NS."""

    def __init__(self) -> None:
        self.start_ns = time.perf_counter_ns()

    def __call__(self) -> int:
        since = time.perf_counter_ns() - self.start_ns
        return since // RESOLUTION_NS * RESOLUTION_NS

    def sleep_until(self, at_ns: int) -> None:
        while (left_ns := at_ns - (time.perf_counter_ns() - self.start_ns)) > 0:
            time.sleep(left_ns / 1e9)


def poisson_plan(count: int, rate_per_s: float, seed: int) -> list[int]:
    """When to send: gaps are exponential, so that the past says nothing about the next request."""
    choose = random.Random(seed)
    at_ns, plan = 2_000_000.0, []
    for _ in range(count):
        at_ns += choose.expovariate(rate_per_s) * 1e9
        plan.append(int(at_ns) // RESOLUTION_NS * RESOLUTION_NS)
    return plan


def steady_plan(count: int, rate_per_s: float) -> list[int]:
    """When to send: at equal distances."""
    step_ns = round(1e9 / rate_per_s)
    return [2_000_000 + place * step_ns for place in range(count)]


class Requests:
    """The four moments of each request, in ns since the run began, and what it was answered with."""

    def __init__(self, texts: Texts, intended_ns: Sequence[int] = ()) -> None:
        self.texts = texts
        self.columns: dict[str, list[int]] = {
            name: [] for name in ("intended_ns", "sent_ns", "start_ns", "end_ns", "batch", "tokens")
        }
        for at_ns in intended_ns:
            self.add(at_ns)

    def __len__(self) -> int:
        return len(self.columns["intended_ns"])

    def add(self, intended_ns: int) -> int:
        """A request that is still to be sent; returns its number."""
        number = len(self)
        for column in self.columns.values():
            column.append(0)
        self.columns["intended_ns"][number] = intended_ns
        self.columns["tokens"][number] = self.texts.tokens[number % len(self.texts.tokens)]
        return number

    def serve(self, server: Server, numbers: Sequence[int], clock: Clock) -> None:
        """Answer these requests as one batch."""
        start_ns = clock()
        server(self.texts.ids[[number % len(self.texts.ids) for number in numbers]])
        end_ns = clock()
        for number in numbers:
            self.columns["start_ns"][number] = start_ns
            self.columns["end_ns"][number] = end_ns
            self.columns["batch"][number] = len(numbers)

    def check(self) -> None:
        """What must hold of any recording: all were answered, in an order that makes sense."""
        moments = ("intended_ns", "sent_ns", "start_ns", "end_ns")
        for times in zip(*(self.columns[name] for name in moments), strict=True):
            assert list(times) == sorted(times) and times[3] > times[2] > 0, times
        assert min(self.columns["batch"]) > 0
        assert self.columns["sent_ns"] == sorted(self.columns["sent_ns"])


def serve_open_loop(
    server: Server,
    texts: Texts,
    plan: Sequence[int],
    max_batch: int,
    before_batch: Callable[[int], None] = lambda now_ns: None,
) -> Requests:
    """Send on time, whatever the server does; it takes all that wait, up to `max_batch`.

    The sender is a thread of its own.
    """
    clock = Clock()
    requests = Requests(texts, plan)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()

    def send() -> None:
        for number, intended_ns in enumerate(plan):
            clock.sleep_until(intended_ns)
            requests.columns["sent_ns"][number] = clock()
            waiting.put(number)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    done = 0
    while done < len(plan):
        numbers = [waiting.get()]
        while len(numbers) < max_batch and not waiting.empty():
            numbers.append(waiting.get())
        before_batch(clock())
        requests.serve(server, numbers, clock)
        done += len(numbers)
    sender.join()
    return requests


def serve_blocking(
    server: Server,
    texts: Texts,
    plan: Sequence[int],
    before_batch: Callable[[int], None] = lambda now_ns: None,
) -> Requests:
    """One client that means to send at `plan`, but waits for each answer before the next request."""
    clock = Clock()
    requests = Requests(texts, plan)
    for number, intended_ns in enumerate(plan):
        clock.sleep_until(intended_ns)
        requests.columns["sent_ns"][number] = clock()
        before_batch(clock())
        requests.serve(server, [number], clock)
    return requests


def serve_closed_loop(
    server: Server, texts: Texts, concurrency: int, count: int, max_batch: int
) -> Requests:
    """`concurrency` clients, each of which sends again as soon as it has its answer."""
    clock = Clock()
    requests = Requests(texts)
    waiting: list[int] = []

    def send(clients: int) -> None:
        for _ in range(min(clients, count - len(requests))):
            number = requests.add(clock())
            requests.columns["sent_ns"][number] = requests.columns["intended_ns"][number]
            waiting.append(number)

    send(concurrency)
    while waiting:
        numbers, waiting[:] = waiting[:max_batch], waiting[max_batch:]
        requests.serve(server, numbers, clock)
        send(len(numbers))
    return requests


def service_times(server: Server, texts: Texts, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """One run a batch size: SAMPLES times of a batch, the sizes in turns."""
    times: dict[int, list[int]] = {size: [] for size in sizes}
    for size in sizes:
        for _ in range(3):
            server(texts.ids[:size])
    for _ in range(SAMPLES):
        for size in sizes:
            clock = Clock()
            server(texts.ids[:size])
            times[size].append(clock())
    return [
        {"run": f"batch_{size}", "batch": size, "service_ns": samples}
        for size, samples in times.items()
    ]


def save(name: str, runs: Sequence[dict[str, Any]]) -> None:
    """Write a file of the capture. A run's lists are its columns, the rest facts about it."""
    content = {"schema": 1, "unit": "ns", "runs": list(runs)}
    Path(name).write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


def report(**figures: Any) -> None:
    """The one line that goes into the provenance."""
    print("RESULT", json.dumps(figures))


def median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
