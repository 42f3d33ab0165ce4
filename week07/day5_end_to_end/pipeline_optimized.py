"""Day 5, an end-to-end pipeline: the same answers, less work.

The slow version is `pipeline_slow.py` in this folder. Without a GPU, the checks run your function on a
stand-in device, which counts the work that it gets. With `--live` they also time it on the GPU of this
machine, with your own `pipeline_speedup` and `pipeline_on_gpu`.

**Texts and answers** are as in `pipeline_slow`. The words of a text are the first LONGEST of
text.lower().split(). The id of a word is its place in the vocabulary, or UNKNOWN if it is not there. A text
without a word counts as one unknown word. The vocabulary holds every word once, and no text holds the word at
PADDING.
`model(ids, mask)` gives scores (batch, labels). ids is a batch (batch, length) of ids, with PADDING after the end
of a text. mask is True where there is a word.

**For n texts in b = ceil(n / max_batch) batches, you may use at most**:

    b calls of the model, with gradients off. Together they may have at most 1.25 times as many places
    (texts times length, padding included) as batches of the texts sorted by length have
    2 b copies to the device, of at most 9 bytes per place (an id of 8 bytes and a mask of 1)
    b copies back, of at most 16 bytes per label of the answer
    b waits of the host for the device (every copy back to pageable memory is one)
    12 operations started on the device in each batch, not counting the model's own
    no search through the vocabulary from its beginning

You need no streams, events or pinned memory, and the stand-in does not count them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

PADDING, UNKNOWN = 0, 1  # places in the vocabulary
LONGEST = 48  # words of a text; the rest is cut off


def pipeline_optimized(
    texts: list[str],
    vocabulary: list[str],
    model: nn.Module,
    device: str,
    max_batch: int,
    best: int,
) -> list[list[tuple[int, float]]]:
    """The answers of `pipeline_slow`, in the order of the texts, with less work.

    texts, vocabulary and model: as described at the head of this file. The model is on `device` ("cuda" or
    "cpu") and takes at most max_batch texts at once. best: how many labels a text's answer has, at most as many
    as there are labels.

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
