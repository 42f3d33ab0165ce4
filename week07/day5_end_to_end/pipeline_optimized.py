"""Day 5, an end-to-end pipeline: the same answers, less work.

The slow version is `pipeline_slow.py`. The checks run your function on a stand-in device, which counts its work. With
`--live` they also time it on the GPU of this machine.

`model(ids, mask)` gives scores (batch, labels). ids is a batch (batch, length) of places in the vocabulary, with
PADDING after the end of a text. mask is True where there is a word. No text has the word at PADDING.

**At most**, for n texts in b = ceil(n / max_batch) batches:

    calls of the model      b, with gradients off (afterwards as before)
    ids in all batches      1.25 times those of batches of texts sorted by number of words; padding counts
    copies to the device    2 b, of 9 bytes per id (8, and 1 for its mask)
    copies back             b, of 16 bytes per label of the answer
    waits for the device    b; a copy back is one
    operations              12 b on device tensors; the model's own, views (slices, reshape) and copies do not count
    vocabulary              2 passes, no search

`word_ids`, `padded` and `copied_back` are given; their lines say what they cost. You need no streams, events or
pinned memory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

PADDING, UNKNOWN = 0, 1  # places in the vocabulary
LONGEST = 48  # words of a text; the rest is cut off


def word_ids(text: str, place: dict[str, int]) -> list[int]:
    """The ids of the words of a text, as in `pipeline_slow`: of the first LONGEST, at least one. Given.

    place: word → its place in the vocabulary.
    """
    return [place.get(word, UNKNOWN) for word in text.lower().split()[:LONGEST]] or [UNKNOWN]


def padded(rows: list[list[int]]) -> torch.Tensor:
    """Rows of ids as one tensor (rows, length of the longest) on the host, with PADDING after each end. Given."""
    tensors = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PADDING)


def copied_back(
    batches: Sequence[tuple[torch.Tensor, torch.Tensor]],
) -> list[list[tuple[int, float]]]:
    """Probabilities and labels of batches, as (label, probability) for each text, batch after batch. Given.

    batches: of each batch two tensors (texts, best) on the device, as `topk` returns them. However many batches there
    are, this is one copy back, of 16 bytes per label, and one wait for the device.
    """
    if not batches:
        return []
    pairs = [torch.stack([values.double(), labels.double()], dim=-1) for values, labels in batches]
    found = torch.cat(pairs).tolist()
    return [[(int(label), probability) for probability, label in text] for text in found]


def pipeline_optimized(
    texts: list[str],
    vocabulary: list[str],
    model: nn.Module,
    device: str,
    max_batch: int,
    best: int,
) -> list[list[tuple[int, float]]]:
    """The answers of `pipeline_slow`, in the order of the texts, with less work.

    vocabulary holds every word once. The model is on `device` ("cuda" or "cpu") and takes at most max_batch texts at
    once; do not change it, nor its mode. best: how many labels a text's answer has, at most as many as there are labels.

    Returns for each text its `best` most probable labels (softmax of the scores), highest first, as
    (label, probability): ints and floats. Returns an empty list for no texts. The head of this file says how
    much work it may need.

    Example: 30 texts with max_batch=8 are four batches: at most 4 calls of the model and 4 waits.
    """
    raise NotImplementedError


def pipeline_speedup(
    slow: Callable[[], object],
    fast: Callable[[], object],
    synchronize: Callable[[], object],
    rounds: int,
) -> dict[str, float]:
    """How many times as long `slow` takes as `fast`, both timed alternately in one run.

    slow, fast: the functions to time. synchronize: waits until the device has done all its work. rounds: how
    many rounds to time, 3 or more.
    Call each once first, untimed. Then, in each round, time slow, then fast. The device is idle
    when a timing begins, and has done all of the work when it ends.

    Returns the median over the rounds of slow's time / fast's time as "ratio", and the smallest and the
    largest of these ratios as "low_ratio" and "high_ratio". The clock is time.perf_counter or time.perf_counter_ns.
    Raises ValueError if there are fewer than 3 rounds.
    """
    raise NotImplementedError


def pipeline_on_gpu(
    slow: Callable[[], object], fast: Callable[[], object], rounds: int
) -> dict[str, float | str]:
    """`pipeline_speedup` of two functions that use this machine's GPU.

    Returns its result, and the name of the GPU as "device", because a ratio without its machine says little.
    """
    raise NotImplementedError
