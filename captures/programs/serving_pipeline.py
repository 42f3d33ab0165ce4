"""Texts come at random; each is answered with its five most probable words. Recorded with NVTX.

`--variant slow` takes one request at a time, looks up its words one by one, copies the scores of the
whole vocabulary to the host and reads the best five one by one. `--variant fast` takes all requests
that wait (up to 8), looks up their words at once, runs the model as a CUDA graph for 8, and copies
only the best five. Both get the same requests at the same times.

NVTX, in both: a range `request 17` from arrival to answer, opened by the sender's thread; and, pushed
and popped by the server's thread, `batch 5` around `tokenize`, `copy_in`, `forward`, `copy_out`,
`postprocess`. Each of these waits for the device at its end, so that its range is its time.
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import random
import threading
from collections.abc import Iterator

import torch
from serving_model import ON_GPU, Block, Clock, median, poisson_plan, report
from torch import nn

DEVICE = "cuda" if ON_GPU else "cpu"
WIDTH, HEADS, LAYERS = (2048, 16, 4) if ON_GPU else (64, 4, 2)
VOCABULARY, LENGTH, BEST, MAX_BATCH = 16_384, 64, 5, 8
REQUESTS, WARM_UP = 40, 24
RATE_PER_S = 260
SHARPNESS = 8.0
SYLLABLES = ("ka", "lo", "mi", "ne", "ru", "sa", "ti", "vo")
UNKNOWN = 0


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    if not ON_GPU:
        yield
        return
    torch.cuda.nvtx.range_push(name)
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.nvtx.range_pop()


class Model(nn.Module):
    """Token ids (batch, LENGTH) to scores (batch, VOCABULARY) of the word that is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return SHARPNESS * self.head(self.blocks(self.embed(ids)).mean(dim=1).float())


def words_of_vocabulary() -> list[str]:
    """VOCABULARY words of four or more syllables, each once; the first stands for the unknown."""
    words = ["?"]
    for number in range(VOCABULARY - 1):
        digits, word = number + 4096, ""
        while digits:
            digits, syllable = divmod(digits, len(SYLLABLES))
            word += SYLLABLES[syllable]
        words.append(word)
    return words


class Slow:
    """One request at a time."""

    max_batch = 1

    def __init__(self, model: Model, words: list[str]) -> None:
        self.model, self.words = model, words
        self.place = {word: number for number, word in enumerate(words)}

    def __call__(self, texts: list[str]) -> list[str]:
        (text,) = texts
        with stage("tokenize"):
            ids = torch.zeros(1, LENGTH, dtype=torch.int64)
            word, column = "", 0
            for letter in text + " ":
                if letter != " ":
                    word += letter
                    continue
                if word and column < LENGTH:
                    ids[0, column] = self.place.get(word.lower(), UNKNOWN)
                    column += 1
                word = ""
        with stage("copy_in"):
            ids = ids.to(DEVICE)
        with stage("forward"):
            scores = torch.softmax(self.model(ids), dim=-1)[0]
        with stage("copy_out"):
            on_host = scores.cpu()
        with stage("postprocess"):
            best = []
            for _ in range(BEST):
                top = int(on_host.argmax())
                best.append(f"{self.words[top]}:{scores[top].item():.3f}")
                on_host[top] = -1
            return [" ".join(best)]


class Fast:
    """All that wait, and only what is asked for comes back."""

    max_batch = MAX_BATCH

    def __init__(self, model: Model, words: list[str]) -> None:
        self.model, self.words = model, words
        self.place = {word: number for number, word in enumerate(words)}
        self.ids = torch.zeros(MAX_BATCH, LENGTH, dtype=torch.int64, pin_memory=ON_GPU)
        self.on_device = torch.zeros(MAX_BATCH, LENGTH, dtype=torch.int64, device=DEVICE)
        self.packed = self.best()
        self.graph: torch.cuda.CUDAGraph | None = None
        if ON_GPU:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.packed = self.best()

    def best(self) -> torch.Tensor:
        """The best probabilities and their places (MAX_BATCH, 2 * BEST)."""
        values, tops = torch.softmax(self.model(self.on_device), dim=-1).topk(BEST, dim=-1)
        return torch.cat([values.double(), tops.double()], dim=-1)

    def __call__(self, texts: list[str]) -> list[str]:
        with stage("tokenize"):
            rows = [
                [self.place.get(word, UNKNOWN) for word in text.lower().split()[:LENGTH]]
                for text in texts
            ]
            rows = [row + [0] * (LENGTH - len(row)) for row in rows]
            self.ids[: len(texts)] = torch.tensor(rows)
        with stage("copy_in"):
            self.on_device.copy_(self.ids, non_blocking=True)
        with stage("forward"):
            if self.graph:
                self.graph.replay()
            else:
                self.packed = self.best()
        with stage("copy_out"):
            on_host = self.packed[: len(texts)].tolist()
        with stage("postprocess"):
            return [
                " ".join(
                    f"{self.words[int(top)]}:{value:.3f}"
                    for value, top in zip(row[:BEST], row[BEST:], strict=True)
                )
                for row in on_host
            ]


def serve(pipeline: Slow | Fast, texts: list[str], plan: list[int]) -> tuple[list[str], list[int]]:
    """Answers in the order of the requests, and the time of each from arrival to answer."""
    clock = Clock()
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    open_ranges: dict[int, int] = {}
    arrivals = [0] * len(plan)

    def send() -> None:
        for place, at_ns in enumerate(plan):
            clock.sleep_until(at_ns)
            arrivals[place] = clock()
            if ON_GPU:
                open_ranges[place] = torch.cuda.nvtx.range_start(f"request {place}")
            waiting.put(place)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    answers, times = [""] * len(plan), [0] * len(plan)
    done = number = 0
    while done < len(plan):
        places = [waiting.get()]
        while len(places) < pipeline.max_batch and not waiting.empty():
            places.append(waiting.get())
        with stage(f"batch {number}"):
            batch = pipeline([texts[place] for place in places])
            for place, answer in zip(places, batch, strict=True):
                answers[place], times[place] = answer, clock() - arrivals[place]
                if ON_GPU:
                    torch.cuda.nvtx.range_end(open_ranges.pop(place))
        done += len(places)
        number += 1
    sender.join()
    return answers, times


def alike(one: str, other: str) -> bool:
    """Whether two answers are the same, up to what bfloat16 rounds in batches of another size."""
    words = [dict(pair.split(":") for pair in answer.split()) for answer in (one, other)]
    common = words[0].keys() & words[1].keys()
    return len(common) >= BEST - 2 and all(
        abs(float(words[0][word]) - float(words[1][word])) < 0.02 for word in common
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("slow", "fast"), required=True)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = Model().to(torch.bfloat16).eval()
        model.head.float()  # in bfloat16 many words would share a score
    words = words_of_vocabulary()
    choose = random.Random(4)
    texts = [
        " ".join(choose.choices(words[1:], k=choose.randint(24, LENGTH))).title()
        for _ in range(WARM_UP + REQUESTS)
    ]
    with torch.inference_mode():
        slow, fast = Slow(model, words), Fast(model, words)
        fast(texts[:MAX_BATCH])
        alone = []
        for text in texts[:WARM_UP]:
            clock = Clock()
            (answer,) = slow([text])
            alone.append(clock())
            (other,) = fast([text])
            assert alike(answer, other), (answer, other)

        pipeline = slow if arguments.variant == "slow" else fast
        plan = poisson_plan(REQUESTS, RATE_PER_S, seed=6)
        _, untraced = serve(pipeline, texts[WARM_UP:], plan)
        if ON_GPU:
            torch.cuda.profiler.start()
        with stage("serving"):
            answers, traced = serve(pipeline, texts[WARM_UP:], plan)
        if ON_GPU:
            torch.cuda.profiler.stop()
    assert all(len(answer.split()) == BEST for answer in answers)
    report(
        requests=REQUESTS,
        offered_per_s=RATE_PER_S,
        median_ms_alone=round(median(alone) / 1e6, 3),
        median_ms=round(median(untraced) / 1e6, 3),
        median_ms_traced=round(median(traced) / 1e6, 3),
        longest_ms_traced=round(max(traced) / 1e6, 3),
    )


if __name__ == "__main__":
    main()
