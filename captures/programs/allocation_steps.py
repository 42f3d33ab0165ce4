"""Steps that need temporary device memory.

`--variant every_step` calls `torch.cuda.empty_cache()` after each step, so that the next step asks
the driver for its memory again.
`--variant cached` leaves the allocator alone. Both compute the same sums.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from torch import nn
from torch.cuda import nvtx

BATCH, WIDTH, LAYERS = 16384, 2048, 4
WARM_UP_STEPS, STEPS = 5, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("every_step", "cached"), required=True)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
    model = nn.Sequential(*layers).to("cuda", torch.bfloat16)
    inputs = torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)
    total = torch.zeros((), device="cuda")

    def run(steps: int) -> None:
        for _ in range(steps):
            with nvtx.range("step"):
                with nvtx.range("forward"):
                    loss = model(inputs).float().square().mean()
                with nvtx.range("backward"):
                    loss.backward()
                total.add_(loss.detach())
                model.zero_grad(set_to_none=True)
                del loss
                if arguments.variant == "every_step":
                    with nvtx.range("empty_cache"):
                        torch.cuda.empty_cache()

    run(WARM_UP_STEPS)
    torch.cuda.synchronize()
    start = time.perf_counter()
    run(STEPS)
    torch.cuda.synchronize()
    untraced_s = time.perf_counter() - start

    torch.cuda.profiler.start()
    start = time.perf_counter()
    with nvtx.range("training"):
        run(STEPS)
        torch.cuda.synchronize()
    traced_s = time.perf_counter() - start
    torch.cuda.profiler.stop()

    result = {
        "steps": STEPS,
        "steps_per_s": round(STEPS / untraced_s, 1),
        "steps_per_s_traced": round(STEPS / traced_s, 1),
        "checksum": round(total.item(), 4),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
