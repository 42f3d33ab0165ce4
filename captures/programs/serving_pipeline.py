"""Texts come at random; each is answered with its five most probable words. Recorded with NVTX.

`--variant slow` takes one request at a time, looks up its words one by one, copies the scores of the
whole vocabulary to the host and reads the best five one by one. `--variant fast` takes all requests
that wait (up to 8), looks up their words at once, and copies only the best five. Both get the same
requests at the same times, chosen so that the slow one is kept busy for about 70 % of its time.

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
WIDTH, HEADS, LAYERS = (1024, 16, 8) if ON_GPU else (64, 4, 2)
VOCABULARY, LENGTH, BEST, MAX_BATCH = 16_384, 64, 5, 8
REQUESTS, WARM_UP = 60, 24
LOAD = 0.7
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

    def __call__(self, texts: list[str]) -> list[str]:
        with stage("tokenize"):
            rows = [
                [self.place.get(word, UNKNOWN) for word in text.lower().split()[:LENGTH]]
                for text in texts
            ]
            rows = [row + [0] * (LENGTH - len(row)) for row in rows]
            self.ids[: len(texts)] = torch.tensor(rows)
        with stage("copy_in"):
            ids = self.ids[: len(texts)].to(DEVICE, non_blocking=True)
        with stage("forward"):
            scores = torch.softmax(self.model(ids), dim=-1)
            values, tops = scores.topk(BEST, dim=-1)
            packed = torch.cat([values.double(), tops.double()], dim=-1)
        with stage("copy_out"):
            on_host = packed.tolist()
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
        for size in range(1, MAX_BATCH + 1):
            fast(texts[:size])
        alone = []
        for text in texts[:WARM_UP]:
            clock = Clock()
            (answer,) = slow([text])
            alone.append(clock())
            (other,) = fast([text])
            assert sorted(answer.split()) == sorted(other.split()), (answer, other)
        rate_per_s = LOAD * 1e9 / median(alone)

        pipeline = slow if arguments.variant == "slow" else fast
        plan = poisson_plan(REQUESTS, rate_per_s, seed=6)
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
        offered_per_s=round(rate_per_s),
        median_ms_alone=round(median(alone) / 1e6, 3),
        median_ms=round(median(untraced) / 1e6, 3),
        median_ms_traced=round(median(traced) / 1e6, 3),
        longest_ms_traced=round(max(traced) / 1e6, 3),
    )


if __name__ == "__main__":
    main()
