"""Day 3: programs that are right but slow. Given; leave this file as it is.

You repair them in `model_optimized.py`, next to this file. The recordings of this day show every cause in here:
numbers read from the device, graph breaks, recompilation, losses kept with their graphs, many
small operators, more bytes and more arithmetic than the answer needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn


def clipped_mean(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of the rows that are not all zero; all rows are scaled down if a number is above the limit.

    x: [rows, inputs], at least one row. weight: [inputs, outputs]. Returns the mean, [outputs] (zeros
    if no row is used), and the largest number before scaling, a tensor without dimensions.
    """
    hidden = torch.relu(x @ weight)
    largest = hidden.max().item()
    if largest > limit:
        print(f"largest activation {largest:.3f}, scaled to {limit:.3f}")
        hidden = hidden * (limit / largest)
    used = hidden[hidden.sum(dim=1) > 0]
    mean = used.mean(dim=0) if len(used) else torch.zeros_like(hidden[0])
    return mean, torch.tensor(largest, dtype=x.dtype, device=x.device)


def pool(x: torch.Tensor, query: torch.Tensor, step: int) -> torch.Tensor:
    """The mean of the rows of x, weighted by how well they fit the query; more evenly in later steps.

    x: [rows, width], at least one row. query: [width]. step: from 0. Returns [width].
    """
    scores = (x @ query) / (1.0 + step)
    return torch.softmax(scores, dim=0) @ x


def mean_loss(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    """The mean of the losses of all batches."""
    losses = []
    for inputs, targets in batches:
        losses.append(loss(model(inputs), targets))
    return torch.stack(losses).mean().item()


class Layer(nn.Module):
    """Attention over the tokens of a sequence, and two linear layers for each token."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.gain_1, self.bias_1 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.gain_2, self.bias_2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def normalized(self, x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Layer normalization over the last dimension."""
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * gain + bias

    def attention(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Every token attends to the tokens of its row whose mask is 1."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        width = x.shape[-1] // self.heads
        parts = []
        for head in range(self.heads):
            here = slice(head * width, (head + 1) * width)
            scores = query[..., here] @ key[..., here].transpose(1, 2) / math.sqrt(width)
            scores = scores.double()  # "to be on the safe side"
            scores = scores * mask + (1.0 - mask) * -1e9
            exponents = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
            weights = exponents / exponents.sum(dim=-1, keepdim=True)
            parts.append(weights.to(x.dtype) @ value[..., here])
        return self.out(torch.cat(parts, dim=-1))

    def gelu(self, x: torch.Tensor) -> torch.Tensor:
        """The tanh form of GELU."""
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """x: [batch, tokens, width]. mask: [batch, tokens, tokens], 1 or 0."""
        x = x + self.attention(self.normalized(x, self.gain_1, self.bias_1), mask)
        return x + self.down(self.gelu(self.up(self.normalized(x, self.gain_2, self.bias_2))))


class SlowModel(nn.Module):
    """Reads sequences of tokens and gives a score for every possible next token.

    tokens: [batch, tokens], integers below `vocabulary`. lengths: [batch], the number of tokens in a row,
    from 1 to `tokens`; the rest of the row is padding. Returns [batch, vocabulary]: the scores after the last
    token that is not padding.
    """

    def __init__(
        self, vocabulary: int, width: int, heads: int, layers: int, longest: int = 128
    ) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(vocabulary, width))
        self.position = nn.Parameter(torch.randn(longest, width) * 0.1)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Scores after the last token that is not padding, [batch, vocabulary]."""
        batch, count = tokens.shape
        x = torch.stack([self.embedding[row] for row in tokens])
        x = x + self.position[:count].repeat(batch, 1, 1)
        mask = torch.zeros(batch, count, count, dtype=torch.float64, device=x.device)
        for row in range(batch):
            mask[row, :, : int(lengths[row])] = 1.0
        for layer in self.layers:
            x = layer(x, mask)
        scores = self.head(x)
        return torch.stack([scores[row, int(lengths[row]) - 1] for row in range(batch)])
