"""A transformer learns on two devices, each with its own texts; the gradients are averaged.

`--trouble exchange`  sick: when the backward pass is over, one collective after the other averages the
                      gradients, as a loop over the parameters does. fixed: DistributedDataParallel.
`--trouble lengths`   sick: the texts of the last rank are three times as long as those of the first.
                      fixed: both get as many words. Both with DistributedDataParallel.

`--watch nsys` and `--watch torch` as in ddp_training.py, which starts the ranks. Both variants are timed
in turns before that: RESULT {"sick_ns": […], "fixed_ns": […]}.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import nullcontext
from typing import Any

import ddp_training

# layers, width, heads, words, texts on each rank, words in a text
SIZES = {"gpu": (2, 6144, 48, 4096, 8, 256), "cpu": (1, 32, 2, 64, 2, 8)}
ROUNDS, TIMED_STEPS, WARM_UP_STEPS = 7, 5, 4


class Training(ddp_training.Rank):
    """One rank of the training; `parts` are model, optimizer, texts and whether it averages by itself."""

    def wrap_variant(self, variant: str) -> tuple:
        import torch
        from case_layers import Block
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel

        layers, width, heads, words, texts, length = SIZES["gpu" if self.on_gpu else "cpu"]
        unequal = self.arguments.trouble == "lengths" and variant == "sick"
        by_hand = self.arguments.trouble == "exchange" and variant == "sick"
        if unequal:
            length = length * 3 // 2 if self.is_last else length // 2
        torch.manual_seed(23)
        with self.device:
            model: Any = nn.Sequential(
                nn.Embedding(words, width),
                *(Block(width, heads, causal=True) for _ in range(layers)),
                nn.Linear(width, words),
            ).to(self.dtype)
            batch = torch.randint(0, words, (texts, length))
        if not by_hand:
            model = DistributedDataParallel(
                model,
                device_ids=[self.device.index] if self.on_gpu else None,
                gradient_as_bucket_view=True,
            )
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)
        return model, optimizer, batch, by_hand

    # pyrefly: ignore[bad-override]
    def step(self, *parts: Any, marked: Any = None, exchange: bool = True) -> Any:
        import torch.distributed as dist
        import torch.nn.functional as F

        model, optimizer, batch, by_hand = parts
        marked = marked or (lambda name: nullcontext())
        with marked("forward"):
            said = model(batch)
            loss = F.cross_entropy(said[:, :-1].flatten(0, 1), batch[:, 1:].flatten())
        with marked("backward"):
            loss.backward()
        if by_hand:
            with marked("exchange"):
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
                    parameter.grad.div_(self.world)
        with marked("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def parts(self) -> tuple:
        """Time both variants in turns; the parts of the chosen one."""
        built = {variant: self.wrap_variant(variant) for variant in ("sick", "fixed")}
        for parts in built.values():
            for _ in range(WARM_UP_STEPS):
                self.step(*parts)
        self.samples: dict[str, list[int]] = {variant: [] for variant in built}
        for _ in range(ROUNDS):
            for variant, parts in built.items():
                self.samples[variant].append(round(self.timed(parts, TIMED_STEPS) * 1e9))
        return built[self.arguments.variant]

    def timed(self, parts: tuple, count: int) -> float:
        import torch.distributed as dist

        self.wait()
        dist.barrier()
        return super().timed(parts, count)

    def report(self, parts: tuple, step_s: float, loss: Any) -> None:
        if self.rank:
            return
        result = {f"{variant}_ns": found for variant, found in self.samples.items()}
        result |= {
            "variant": self.arguments.variant,
            "trouble": self.arguments.trouble,
            "ranks": self.world,
            "recorded_steps": ddp_training.WATCHED_STEPS,
            "gradient_bytes": sum(p.numel() * p.element_size() for p in parts[0].parameters()),
            "finite": bool(loss.isfinite()),
        }
        print("RESULT", json.dumps(result), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("sick", "fixed"), required=True)
    parser.add_argument("--trouble", choices=("exchange", "lengths"), required=True)
    parser.add_argument("--watch", choices=("nsys", "torch"), required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", help="other than nccl on GPUs and gloo without")
    parser.add_argument("--smoke", action="store_true", help="tiny shapes on the CPU, no recording")
    arguments = parser.parse_args()
    arguments.cpu = arguments.smoke
    if "RANK" not in os.environ:
        raise SystemExit(ddp_training.launch(arguments.ranks))

    import torch.distributed as dist

    rank = Training(arguments)
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
