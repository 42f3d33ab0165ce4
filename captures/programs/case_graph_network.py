"""A layer of a graph network: each node adds up the messages of its neighbours.

Most edges lead to a few nodes, as in a real network of people or pages.
`--variant sick` adds message by message to the nodes.
`--variant fixed` has the edges in the order of their nodes, adds up 32 messages of one node at a time, and
only these sums to the nodes.
"""

from __future__ import annotations

import case_recording as recording
import torch
from torch import nn

NODES, EDGES, WIDTH, HUBS, TOGETHER = (
    (32, 256, 8, 2, 4) if recording.SMOKE else (20_000, 2_000_000, 64, 8, 32)
)


class GraphLayer(nn.Module):
    def __init__(self, source: torch.Tensor, target: torch.Tensor, grouped: bool) -> None:
        super().__init__()
        self.message = nn.Linear(WIDTH, WIDTH)
        self.grouped = grouped
        if not grouped:
            self.source, self.target = source, target
            return
        order = torch.argsort(target, stable=True)
        source, target = source[order], target[order]
        counts = torch.bincount(target, minlength=NODES)
        groups = (counts + TOGETHER - 1) // TOGETHER
        first_group = groups.cumsum(0) - groups
        within = torch.arange(EDGES, device=target.device) - (counts.cumsum(0) - counts)[target]
        place = (first_group[target] + within // TOGETHER) * TOGETHER + within % TOGETHER
        # Places without an edge take the messages of a node that is all zeros.
        self.source = torch.full((int(groups.sum()) * TOGETHER,), NODES, device=target.device)
        self.source[place] = source
        self.target = torch.repeat_interleave(torch.arange(NODES, device=target.device), groups)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        messages = self.message(nodes)
        summed = torch.zeros(NODES, WIDTH, device=nodes.device)
        if not self.grouped:
            return summed.index_add_(0, self.target, messages[self.source])
        messages = torch.cat([messages, messages.new_zeros(1, WIDTH)])
        groups = messages[self.source].view(-1, TOGETHER, WIDTH).sum(1)
        return summed.index_add_(0, self.target, groups)


class Passing(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(14)
        with recording.DEVICE:
            source = torch.randint(0, NODES, (EDGES,))
            hub = torch.rand(EDGES) < 0.95
            target = torch.where(
                hub, torch.randint(0, HUBS, (EDGES,)), torch.randint(0, NODES, (EDGES,))
            )
            self.nodes = torch.randn(NODES, WIDTH)
            self.layer = GraphLayer(source, target, variant == "fixed").float()
        self.summed = self.nodes

    @torch.no_grad()
    def step(self, number: int) -> None:
        self.summed = self.layer(self.nodes)

    def figures(self) -> dict[str, float]:
        return {"checksum": round(float(self.summed.double().abs().sum()), 0)}


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    recording.run(Passing, arguments.variant, recording.Plan(watch="ncu"))


if __name__ == "__main__":
    main()
