"""Layers of a mixture of experts: each token goes to one of eight perceptrons.

`--variant sick` asks in every layer who got which token, and shares the tokens out on the host.
`--variant fixed` sorts the tokens by expert on the device; each expert has room for a fixed number.
"""

from __future__ import annotations

import case_recording as recording
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LAYERS, EXPERTS, WIDTH, HIDDEN, TOKENS = (
    (2, 4, 16, 32, 32) if recording.SMOKE else (3, 8, 1024, 4096, 49152)
)
ROOM = TOKENS // EXPERTS * 17 // 16


class Experts(nn.Module):
    def __init__(self, asks: bool) -> None:
        super().__init__()
        self.asks = asks
        with torch.device("cpu"):
            self.on_host, self.order = (
                recording.pinned(torch.zeros(TOKENS, dtype=torch.long)) for _ in range(2)
            )
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS)
        self.wide = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) / WIDTH**0.5)
        self.narrow = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) / HIDDEN**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.norm(x)
        weights, chosen = self.router(normal).softmax(-1).max(-1)
        return x + weights[:, None] * (self.asked if self.asks else self.sorted)(normal, chosen)

    def asked(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        self.on_host.copy_(chosen, non_blocking=True)
        if not recording.SMOKE:
            torch.cuda.current_stream().synchronize()
        experts = self.on_host.numpy()
        own = [np.flatnonzero(experts == expert) for expert in range(EXPERTS)]
        np.concatenate(own, out=self.order.numpy())
        order = self.order.to(x.device, non_blocking=True)
        out = torch.empty_like(x)
        for expert, tokens in enumerate(order.split([len(tokens) for tokens in own])):
            hidden = F.gelu(x[tokens] @ self.wide[expert])
            out.index_copy_(0, tokens, hidden @ self.narrow[expert])
        return out

    def sorted(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        ordered, order = chosen.sort(stable=True)
        first = torch.searchsorted(ordered, torch.arange(EXPERTS, device=x.device))
        within = torch.arange(TOKENS, device=x.device) - first[ordered]
        # What does not fit goes to a place behind all others.
        place = torch.where(within < ROOM, ordered * ROOM + within, EXPERTS * ROOM)
        rows = x.new_zeros(EXPERTS * ROOM + 1, WIDTH).index_copy_(0, place, x[order])
        hidden = F.gelu(torch.bmm(rows[:-1].view(EXPERTS, ROOM, WIDTH), self.wide))
        rows[:-1] = torch.bmm(hidden, self.narrow).view(-1, WIDTH)
        return torch.empty_like(x).index_copy_(0, order, rows[place])


class Answering(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(15)
        with recording.DEVICE:
            layers = [Experts(variant == "sick") for _ in range(LAYERS)]
            self.model = nn.Sequential(*layers).to(recording.DTYPE).eval()
            self.tokens = torch.randn(TOKENS, WIDTH, dtype=recording.DTYPE)

    @torch.no_grad()
    def step(self, number: int) -> None:
        self.answer = self.model(self.tokens)


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    plan = recording.Plan(recorded_steps=6)
    recording.run(Answering, arguments.variant, plan)


if __name__ == "__main__":
    main()
