"""One process, two devices, unequal shares: device 0 multiplies larger matrices than device 1.

Nothing is exchanged between the devices. `--variant unequal` is the only one.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from torch.cuda import nvtx

SIZES = (4096, 2560)
PRODUCTS_PER_STEP = 6
WARM_UP_STEPS, STEPS = 5, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("unequal",), required=True)
    parser.parse_args()
    if torch.cuda.device_count() < 2:
        raise SystemExit("this program needs two devices")

    torch.manual_seed(0)
    factors, results = [], []
    for device, size in enumerate(SIZES):
        place = {"device": f"cuda:{device}", "dtype": torch.bfloat16}
        factors.append(torch.randn(size, size, **place) / size**0.5)
        results.append(torch.randn(size, size, **place))

    def run(steps: int) -> None:
        for _ in range(steps):
            with nvtx.range("step"):
                for device, factor in enumerate(factors):
                    with nvtx.range(f"device_{device}"):
                        for _ in range(PRODUCTS_PER_STEP):
                            results[device] = results[device] @ factor
                for device in range(len(factors)):
                    torch.cuda.synchronize(device)

    run(WARM_UP_STEPS)
    start = time.perf_counter()
    run(STEPS)
    untraced_s = time.perf_counter() - start

    torch.cuda.profiler.start()
    start = time.perf_counter()
    with nvtx.range("products"):
        run(STEPS)
    traced_s = time.perf_counter() - start
    torch.cuda.profiler.stop()

    result = {
        "steps": STEPS,
        "steps_per_s": round(STEPS / untraced_s, 1),
        "steps_per_s_traced": round(STEPS / traced_s, 1),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
