"""A loop whose host code is busy in one function: in Python's own code, in a library's, or hardly.

`--variant python` counts words in Python; `--variant native` sorts an array in NumPy, while another
thread keeps a log; `--variant device` gives the device so much to do that the host hardly matters.
"""

from __future__ import annotations

import argparse
import json
import threading
import time

import numpy as np
import torch
from torch.cuda import nvtx

SIDE, WARM_UP_STEPS, STEPS = 8_192, 3, 40
WORDS = [f"w{(i * 7919) % 997}" for i in range(400_000)]


def count_words(words: list[str]) -> dict[str, int]:
    """Python all the way: the interpreter is what is busy."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def longest_word(counts: dict[str, int]) -> int:
    """A little more Python, for a second entry in the profile."""
    return max(len(word) for word in counts for _ in range(2))


def rank_values(values: np.ndarray) -> np.ndarray:
    """One call into NumPy: a library's code is what is busy."""
    return np.sort(values)


def scale_values(values: np.ndarray) -> np.ndarray:
    """Another, shorter call into NumPy."""
    return np.tanh(values)


def prepare(variant: str, values: np.ndarray) -> float:
    """The host's part of a step."""
    if variant == "python":
        return float(longest_word(count_words(WORDS)))
    if variant == "native":
        return float(rank_values(values)[0] + scale_values(values[:600_000])[0])
    return float(longest_word(count_words(WORDS[:8_000])))


def keep_log(stop: threading.Event, lines: list[str]) -> None:
    """A second thread that does a little now and then."""
    while not stop.wait(0.01):
        lines.append(json.dumps({"time": time.perf_counter(), "lines": len(lines)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("python", "native", "device"), required=True)
    variant = parser.parse_args().variant

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    side = SIDE if device == "cuda" else 64
    matrix = torch.randn(side, side, device=device, dtype=torch.bfloat16) / side**0.5
    values = np.random.default_rng(2).standard_normal(1_600_000)
    products = 18 if variant == "device" else 3
    stop, lines = threading.Event(), []
    log = threading.Thread(target=keep_log, args=(stop, lines), name="log")
    log.start()

    def run(count: int) -> None:
        for _ in range(count):
            with nvtx.range("step"):
                with nvtx.range("prepare"):
                    prepare(variant, values)
                with nvtx.range("compute"):
                    product = matrix
                    for _ in range(products):
                        product = product @ matrix
                with nvtx.range("wait_for_device"):
                    product[0, 0].item()

    run(WARM_UP_STEPS)
    start = time.perf_counter()
    run(STEPS)
    untraced_s = time.perf_counter() - start
    torch.cuda.profiler.start()
    start = time.perf_counter()
    run(STEPS)
    traced_s = time.perf_counter() - start
    torch.cuda.profiler.stop()
    stop.set()
    log.join()
    result = {
        "steps": STEPS,
        "untraced_s": round(untraced_s, 6),
        "traced_s": round(traced_s, 6),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
