"""A loop of device work beside a thread that writes checkpoints to disk.

`--variant locked`: the loop takes the lock that the writer holds while it waits for the disk.
`--variant inline`: the loop writes and syncs the file itself.
`--variant paced`: the loop sleeps to keep a rate.
`--variant free`: the writer copies under the lock and waits for the disk without it.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time

import numpy as np
import torch
from torch.cuda import nvtx

SIDE, PRODUCTS, WARM_UP_STEPS, STEPS = 4_096, 20, 6, 10
STATE_BYTES = 8 << 20
PAUSE_S = 0.008


class Checkpoints:
    """A state that is written to a file now and then, and a lock around it."""

    def __init__(self) -> None:
        self.state = np.random.default_rng(1).integers(0, 256, STATE_BYTES, dtype=np.uint8)
        self.lock = threading.Lock()
        self.wanted = threading.Semaphore(0)
        self.stopped = False
        self.written = 0

    def write(self, data: bytes) -> None:
        with nvtx.range("write_file"):
            file = os.open("checkpoint.bin", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            try:
                os.write(file, data)
                os.fsync(file)
            finally:
                os.close(file)
        self.written += 1

    def serve(self, held: bool) -> None:
        """The writer's thread: one checkpoint for each time that it is asked."""
        while True:
            self.wanted.acquire()
            if self.stopped:
                return
            with self.lock:
                data = self.state.tobytes()
                if held:
                    self.write(data)
            if not held:
                self.write(data)

    def change(self, step: int) -> None:
        with nvtx.range("change_state"), self.lock:
            self.state[step] ^= 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("locked", "inline", "paced", "free"), required=True)
    variant = parser.parse_args().variant

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    side = SIDE if device == "cuda" else 64
    matrix = torch.randn(side, side, device=device, dtype=torch.bfloat16) / side**0.5
    checkpoints = Checkpoints()
    writer = threading.Thread(target=checkpoints.serve, args=(variant == "locked",), name="writer")
    writer.start()

    def device_step() -> torch.Tensor:
        product = matrix
        for _ in range(PRODUCTS):
            product = product @ matrix
        return product.float().sum()

    def run(count: int) -> None:
        for step in range(count):
            with nvtx.range("step"):
                total = device_step()
                if step % 2 == 0 and variant in ("locked", "free"):
                    checkpoints.wanted.release()
                    time.sleep(0)  # lets the writer begin
                if step % 2 == 0 and variant == "inline":
                    checkpoints.write(checkpoints.state.tobytes())
                if variant == "paced":
                    with nvtx.range("pace"):
                        time.sleep(PAUSE_S)
                with nvtx.range("read_result"):
                    total.item()
                checkpoints.change(step)

    run(WARM_UP_STEPS)
    start = time.perf_counter()
    run(STEPS)
    untraced_s = time.perf_counter() - start
    time.sleep(0.2)
    torch.cuda.profiler.start()
    start = time.perf_counter()
    with nvtx.range("loop"):
        run(STEPS)
    traced_s = time.perf_counter() - start
    torch.cuda.profiler.stop()
    checkpoints.stopped = True
    checkpoints.wanted.release()
    writer.join()

    result = {
        "steps": STEPS,
        "state_bytes": STATE_BYTES,
        "checkpoints": checkpoints.written,
        "untraced_s": round(untraced_s, 6),
        "traced_s": round(traced_s, 6),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
