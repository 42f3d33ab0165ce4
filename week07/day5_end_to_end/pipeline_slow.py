"""A pipeline that answers texts: tokenise, copy in, forward, copy out, post-process. Complete, but slow.

Read it, and count the work that it causes on the device and on the host for each text. Then write a version
with less work in `pipeline_optimized.py`. To time both on this machine, in turns, with `pipeline_speedup` (a further task):

    uv run --group frameworks python week07/day5_end_to_end/pipeline_slow.py
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

PADDING, UNKNOWN = 0, 1  # places in the vocabulary
LONGEST = 48  # words of a text; the rest is cut off


class Classifier(nn.Module):
    """Scores (batch, labels) of texts.

    ids (batch, length): places of words in the vocabulary, PADDING after the end of a text.
    mask (batch, length): True where there is a word. The ids after the end do not matter.
    """

    def __init__(self, words: int, labels: int, width: int = 32, heads: int = 4, layers: int = 2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(words, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.query_key_value = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, labels)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The scores of a batch."""
        x = self.embed(ids)
        batch, length, width = x.shape
        seen = mask[:, None, None, :]
        for norm, project, mix in zip(self.norms, self.query_key_value, self.mix, strict=True):
            qkv = project(norm(x)).view(batch, length, 3, self.heads, width // self.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            x = x + mix(attended.transpose(1, 2).reshape(batch, length, width))
        weights = mask[:, :, None].to(x.dtype)
        return self.head((x * weights).sum(dim=1) / weights.sum(dim=1))


def tokenize(text: str, vocabulary: list[str]) -> list[int]:
    """The places in the vocabulary of a text's words, of the first LONGEST; at least one place."""
    ids = []
    for word in text.lower().split():
        if word in vocabulary:
            ids.append(vocabulary.index(word))
        else:
            ids.append(UNKNOWN)
    return ids[:LONGEST] or [UNKNOWN]


def pipeline_slow(
    texts: list[str], vocabulary: list[str], model: nn.Module, device: str, best: int
) -> list[list[tuple[int, float]]]:
    """For each text its `best` most probable labels, as (label, probability), highest first."""
    answers = []
    for text in texts:
        ids = torch.full((1, LONGEST), PADDING)
        mask = torch.zeros(1, LONGEST, dtype=torch.bool)
        for place, number in enumerate(tokenize(text, vocabulary)):
            ids[0, place] = number
            mask[0, place] = True
        ids = ids.to(device)
        mask = mask.to(device)
        scores = model(ids, mask)[0]
        if device == "cuda":
            torch.cuda.synchronize()
        probabilities = scores.softmax(dim=-1)
        left = probabilities.detach().cpu()
        answer = []
        for _ in range(best):
            label = left.argmax()
            answer.append((label.item(), probabilities[label.item()].item()))
            left[label] = -1
        answers.append(answer)
    return answers


# -- both, in turns ---------------------------------------------------------------------------------


def example(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of very different lengths, and a vocabulary of most of their words."""
    choose = random.Random(seed)
    vocabulary = ["<padding>", "<unknown>", *(f"word{number}" for number in range(2_000))]
    texts = []
    for _ in range(count):
        length = choose.choice([3, 6, 12, LONGEST])
        words = choose.choices(vocabulary[2:], k=length)
        if length > 3:
            words[choose.randrange(length)] = "strange"
        texts.append(" ".join(words).capitalize())
    return texts, vocabulary


def main() -> None:
    """Time both pipelines on this machine with the learner's own functions."""
    file = Path(__file__).with_name("pipeline_optimized.py")
    spec = importlib.util.spec_from_file_location("pipeline_optimized", file)
    assert spec is not None and spec.loader is not None
    optimized = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(optimized)

    device = "cuda" if torch.cuda.is_available() else "cpu"
    texts, vocabulary = example(96)
    torch.manual_seed(0)
    model = Classifier(len(vocabulary), labels=5_000, width=256, heads=8, layers=4)
    model = model.to(device).eval()
    try:
        found = optimized.pipeline_speedup(
            lambda: pipeline_slow(texts, vocabulary, model, device, 5),
            lambda: optimized.pipeline_optimized(texts, vocabulary, model, device, 32, 5),
            torch.cuda.synchronize if device == "cuda" else lambda: None,
            7,
        )
    except NotImplementedError:
        print("pipeline_optimized or pipeline_speedup (a further task) is still to do")
        return
    print(
        f"{len(texts)} texts on {device}: pipeline_slow takes {found['ratio']:.1f} times as long"
        f" ({found['low_ratio']:.1f} to {found['high_ratio']:.1f})"
    )


if __name__ == "__main__":
    main()
