"""Reads what a copy in the background brings before it is there."""

from __future__ import annotations

import torch
from torch import nn

CAUGHT_BY = "test_answers_are_the_same"
SAYS = "was answered with"

PADDING, UNKNOWN = 0, 1
LONGEST = 48


def pipeline_optimized(
    texts: list[str],
    vocabulary: list[str],
    model: nn.Module,
    device: str,
    max_batch: int,
    best: int,
) -> list[list[tuple[int, float]]]:
    if max_batch < 1 or best < 1:
        raise ValueError(f"max_batch and best must be at least 1, got {max_batch} and {best}")
    place = {word: number for number, word in enumerate(vocabulary)}
    rows = [
        [place.get(word, UNKNOWN) for word in text.lower().split()[:LONGEST]] or [UNKNOWN]
        for text in texts
    ]
    # Texts of about one length beside each other, so that little of a batch is padding.
    order = sorted(range(len(texts)), key=lambda number: len(rows[number]))
    waiting = []
    with torch.inference_mode():
        for first in range(0, len(order), max_batch):
            batch = [rows[number] for number in order[first : first + max_batch]]
            longest = max(len(row) for row in batch)
            padded = [row + [PADDING] * (longest - len(row)) for row in batch]
            ids = torch.tensor(padded).to(device, non_blocking=True)
            scores = model(ids, ids != PADDING)
            values, labels = scores.softmax(dim=-1).topk(best, dim=-1)
            waiting.append(torch.stack([values.double(), labels.double()], dim=-1))
        # One copy, and one wait, for all of them.
        found = torch.cat(waiting).to("cpu", non_blocking=True).tolist() if waiting else []
    answers: list[list[tuple[int, float]]] = [[] for _ in texts]
    for number, pairs in zip(order, found, strict=True):
        answers[number] = [(int(label), value) for value, label in pairs]
    return answers
