"""Layers that several of the programs case_*.py build their models from."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Multi-head attention of x on itself, or on `memory`."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        key, value = self.key_value(x if memory is None else memory).chunk(2, dim=-1)
        mixed = F.scaled_dot_product_attention(
            self.split(self.query(x)), self.split(key), self.split(value), is_causal=self.causal
        )
        return self.out(mixed.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """A transformer block: attention, cross attention where there is a memory, feed forward."""

    def __init__(self, width: int, heads: int, causal: bool = False, cross: bool = False) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.attention = Attention(width, heads, causal)
        self.cross = Attention(width, heads) if cross else None
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[2](x), memory)
        return x + self.narrow(F.gelu(self.wide(self.norms[1](x))))
