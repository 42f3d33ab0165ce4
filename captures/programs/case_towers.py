"""Wide perceptrons, each split over two devices: after every layer both add up their halves.

`--variant sick` adds up the whole batch after a layer, and then begins the next layer.
`--variant fixed` works on two halves of the batch in turns: one is added up while the other is computed.

`--watch nsys` and `--watch torch` as in ddp_training.py, which starts the ranks. Both variants are timed
in turns before that, as in case_parallel.py: RESULT {"sick_ns": […], "fixed_ns": […]}.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import case_parallel
import ddp_training

# layers, width, hidden values on each rank, tokens
SIZES = {"gpu": (5, 8192, 4096, 8192), "cpu": (2, 32, 16, 8)}


class Answering(case_parallel.Training):
    """One rank; `parts` are the layers, the batch and the number of pieces it is cut into."""

    def wrap_variant(self, variant: str) -> tuple:
        import torch
        from torch import nn

        layers, width, hidden, tokens = SIZES["gpu" if self.on_gpu else "cpu"]
        torch.manual_seed(31 + self.rank)
        with self.device:
            model = nn.ModuleList(
                nn.ModuleList(
                    [
                        nn.LayerNorm(width),
                        nn.Linear(width, hidden, bias=False),
                        nn.Linear(hidden, width, bias=False),
                    ]
                )
                for _ in range(layers)
            ).to(self.dtype)
            torch.manual_seed(31)  # all ranks have the same tokens
            batch = torch.randn(tokens, width, dtype=self.dtype)
        return model, batch, 1 if variant == "sick" else 2

    # pyrefly: ignore[bad-override]
    def step(self, *parts: Any, marked: Any = None, exchange: bool = True) -> Any:
        import torch
        import torch.distributed as dist
        import torch.nn.functional as F

        model, batch, pieces = parts
        with torch.no_grad():
            known = list(batch.chunk(pieces))
            waiting: list[Any] = [None] * pieces
            for norm, wide, narrow in model:
                for place in range(pieces):
                    if waiting[place] is not None:
                        work, added = waiting[place]
                        work.wait()
                        known[place] = known[place] + added
                    own = narrow(F.gelu(wide(norm(known[place]))))
                    waiting[place] = (dist.all_reduce(own, async_op=True), own)
            for place, (work, added) in enumerate(waiting):
                work.wait()
                known[place] = known[place] + added
        return known[-1][-1, -1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("sick", "fixed"), required=True)
    parser.add_argument("--watch", choices=("nsys", "torch"), required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", help="other than nccl on GPUs and gloo without")
    parser.add_argument("--smoke", action="store_true", help="tiny shapes on the CPU, no recording")
    arguments = parser.parse_args()
    arguments.cpu = arguments.smoke
    arguments.trouble = "layers"
    if "RANK" not in os.environ:
        raise SystemExit(ddp_training.launch(arguments.ranks))

    import torch.distributed as dist

    rank = Answering(arguments)
    try:
        if arguments.smoke:
            parts = rank.parts()
            rank.report(parts, 0.0, rank.step(*parts))
        else:
            {"nsys": rank.watch_nsys, "torch": rank.watch_torch}[arguments.watch]()
        rank.leave()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
