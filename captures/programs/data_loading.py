"""Training on samples that are read from files and decoded, with a DataLoader of three kinds.

`--variant single` reads and decodes in the loop itself (num_workers=0).
`--variant few` has one worker process, pageable batches.
`--variant enough` has workers as many as the measured cost of a sample asks for, pinned batches.
All of them see the same samples in the same order.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.cuda import nvtx
from torch.utils.data import DataLoader, Dataset

SAMPLES, CHANNELS, SIDE, BATCH = 192, 3, 192, 16
WIDTH, REPEATS = 4_096, 1
WARM_UP_STEPS, STEPS = 12, 12
WORKERS = {"single": 0, "few": 1, "enough": 8}


class Files(Dataset):
    """Compressed samples in files; each is read, decompressed and normalised when asked for."""

    def __init__(self, folder: Path, *, ranges: bool) -> None:
        self.folder = folder
        self.ranges = ranges

    def __len__(self) -> int:
        return BATCH * (WARM_UP_STEPS + 2 * STEPS + 4)

    def __getitem__(self, index: int) -> torch.Tensor:
        if not self.ranges:
            return self.decode(self.read(index))
        with nvtx.range("read"):
            data = self.read(index)
        with nvtx.range("decode"):
            return self.decode(data)

    def read(self, place: int) -> bytes:
        return (self.folder / f"{place % SAMPLES:04}.bin").read_bytes()

    def decode(self, data: bytes) -> torch.Tensor:
        sample = np.frombuffer(zlib.decompress(data), dtype=np.uint8).astype(np.float32)
        sample -= sample.mean()
        sample /= sample.std() + 1e-6
        return torch.from_numpy(sample.reshape(CHANNELS, SIDE, SIDE))


class Network(nn.Module):
    """Batches (batch, 3, side, side) to one number each; most of the work is one square matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(32)
        self.first = nn.Linear(CHANNELS * 32 * 32, WIDTH)
        self.square = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        rows = self.first(self.pool(batch).flatten(1))
        square = self.square
        for _ in range(REPEATS):
            square = torch.tanh(square @ self.square)
        return self.head(torch.relu(rows @ square)).squeeze(-1)


def write_samples(folder: Path) -> int:
    """Write the samples' files; returns the bytes of all of them."""
    folder.mkdir(exist_ok=True)
    generator = np.random.default_rng(5)
    total = 0
    for place in range(SAMPLES):
        coarse = generator.integers(0, 256, (CHANNELS, SIDE // 4, SIDE // 4), dtype=np.uint8)
        sample = coarse.repeat(4, axis=1).repeat(4, axis=2)
        sample ^= generator.integers(0, 4, sample.shape, dtype=np.uint8)
        data = zlib.compress(sample.tobytes(), 6)
        (folder / f"{place:04}.bin").write_bytes(data)
        total += len(data)
    return total


def sample_cost_ns(files: Files) -> dict[str, list[int]]:
    """Read and decode times of 64 samples, taken alone, in ns."""
    read_ns, decode_ns = [], []
    for place in range(64):
        start = time.perf_counter_ns()
        data = files.read(place)
        middle = time.perf_counter_ns()
        files.decode(data)
        read_ns.append(middle - start)
        decode_ns.append(time.perf_counter_ns() - middle)
    return {"read_ns": read_ns, "decode_ns": decode_ns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=tuple(WORKERS), required=True)
    arguments = parser.parse_args()
    workers = WORKERS[arguments.variant]

    torch.manual_seed(0)
    torch.set_num_threads(1)
    folder = Path("samples")
    stored_bytes = write_samples(folder)
    files = Files(folder, ranges=workers == 0)
    costs = sample_cost_ns(files)
    options = {"num_workers": workers, "pin_memory": arguments.variant == "enough"}
    if workers:
        options |= {"prefetch_factor": 2, "persistent_workers": True}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(files, batch_size=BATCH, **options)
    network = Network().to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)

    batches: Iterator[torch.Tensor] = iter(loader)

    def run(count: int) -> list[torch.Tensor]:
        losses = []
        for _ in range(count):
            with nvtx.range("step"):
                with nvtx.range("next_batch"):
                    batch = next(batches)
                with nvtx.range("copy_in"):
                    on_device = batch.to(device, non_blocking=True)
                with nvtx.range("train"):
                    loss = network(on_device).square().mean()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                with nvtx.range("wait_for_device"):
                    losses.append(loss.detach())
                    if device == "cuda":
                        torch.cuda.synchronize()
        return losses

    run(WARM_UP_STEPS)
    start = time.perf_counter()
    run(STEPS)
    untraced_s = time.perf_counter() - start
    torch.cuda.profiler.start()
    start = time.perf_counter()
    losses = run(STEPS)
    traced_s = time.perf_counter() - start
    torch.cuda.profiler.stop()

    result = {
        "steps": STEPS,
        "batch_count": BATCH,
        "num_workers": workers,
        "cpu_count": os.cpu_count(),
        "stored_bytes_per_sample": stored_bytes // SAMPLES,
        "decoded_bytes_per_sample": CHANNELS * SIDE * SIDE * 4,
        "read_ns_median": statistics.median(costs["read_ns"]),
        "decode_ns_median": statistics.median(costs["decode_ns"]),
        **costs,
        "untraced_s": round(untraced_s, 6),
        "traced_s": round(traced_s, 6),
        "loss": float(losses[-1]),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
