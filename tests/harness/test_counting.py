"""The machine that counts (grading.checks.counting) agrees with torch's counter and with closed forms."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from grading.checks import counting
from grading.runner.scoring import installed

SIZES = range(1, 5)


def shapes(op: str, pick: random.Random) -> dict[str, Any]:
    """Small random arguments of an operation."""

    def size(low: int = 1, high: int = 4) -> int:
        return pick.randint(low, high)

    flag = pick.random() < 0.5
    kv_heads, groups, queries = size(1, 2), size(1, 2), size()
    heads = kv_heads * size(1, 2)
    return {
        "matmul": lambda: {
            "m": size(),
            "k": size(),
            "n": size(),
            "batch": size(),
            "shared_b": flag,
        },
        "elementwise": lambda: {
            "element_count": size(),
            "extra_inputs": [size(0, 2) for _ in range(size())],
            "fused": flag,
        },
        "layer_norm": lambda: {"rows": size(), "width": size(), "affine": flag},
        "softmax": lambda: {"rows": size(), "width": size(), "fused": flag},
        "attention": lambda: {
            "batch": size(1, 2),
            "heads": heads,
            "query_tokens": queries,
            "key_tokens": queries + size(0, 3),
            "head_dim": size(),
            "kv_heads": kv_heads,
            "causal": pick.random() < 0.5,
            "fused": flag,
        },
        "conv2d": lambda: {
            "batch": size(1, 2),
            "in_channels": groups * size(1, 2),
            "height": size(5, 8),
            "width": size(5, 8),
            "out_channels": groups * size(1, 2),
            "kernel": (size(1, 3), size(1, 3)),
            "stride": (size(1, 2), size(1, 2)),
            "padding": (size(0, 2), size(0, 2)),
            "dilation": (size(1, 2), size(1, 2)),
            "groups": groups,
        },
        "transformer": lambda: {
            "layers": size(1, 2),
            "hidden": size(),
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": size(1, 3),
            "ffn": size(),
            "ffn_matrices": size(2, 3),
            "batch": size(1, 2),
            "new_tokens": queries,
            "cached_tokens": size(0, 3),
        },
    }[op]()


OPERATIONS: dict[str, Callable[..., counting.Machine]] = {
    "matmul": counting.matmul,
    "elementwise": counting.elementwise,
    "layer_norm": counting.layer_norm,
    "softmax": counting.softmax,
    "attention": counting.attention,
    "conv2d": counting.conv2d,
    "transformer": counting.transformer,
}


@pytest.mark.parametrize("op", OPERATIONS)
def test_closed_forms_are_what_the_machine_counts(op: str) -> None:
    for number in range(40):
        given = shapes(op, random.Random(number))
        machine = OPERATIONS[op](**given)
        assert counting.closed(op, given) == (machine.flops, machine.elements), (op, given)


@pytest.mark.proof
def test_operations_are_those_of_torchs_counter() -> None:
    torch = installed("torch")
    functional = torch.nn.functional

    def empty(*shape: int) -> Any:
        return torch.empty(*shape, device="meta")

    for number in range(8):
        pick = random.Random(number)
        a = shapes("matmul", pick)
        run = lambda a=a: torch.bmm(  # noqa: E731
            empty(a["batch"], a["m"], a["k"]), empty(a["batch"], a["k"], a["n"])
        )
        assert counting.torch_flops(run) == counting.closed("matmul", a)[0]
        a = shapes("conv2d", pick)
        run = lambda a=a: functional.conv2d(  # noqa: E731
            empty(a["batch"], a["in_channels"], a["height"], a["width"]),
            empty(a["out_channels"], a["in_channels"] // a["groups"], *a["kernel"]),
            stride=a["stride"],
            padding=a["padding"],
            dilation=a["dilation"],
            groups=a["groups"],
        )
        assert counting.torch_flops(run) == counting.closed("conv2d", a)[0]
        a = shapes("attention", pick) | {"causal": False}
        keys = (a["batch"], a["heads"], a["key_tokens"], a["head_dim"])
        run = lambda a=a, keys=keys: functional.scaled_dot_product_attention(  # noqa: E731
            empty(a["batch"], a["heads"], a["query_tokens"], a["head_dim"]),
            empty(*keys),
            empty(*keys),
        )
        assert counting.torch_flops(run) == counting.closed("attention", a)[0]


@pytest.mark.proof
@pytest.mark.parametrize("recompute", [False, True])
def test_a_training_step_is_what_torch_counts(recompute: bool) -> None:
    torch = installed("torch")
    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    layers, hidden, ffn, batch, sequence = 2, 6, 10, 3, 5
    weights = [
        [
            torch.randn(rows, columns, requires_grad=True)
            for rows, columns in ((hidden, 4 * hidden), (hidden, ffn), (ffn, hidden))
        ]
        for _ in range(layers)
    ]

    def block(x: Any, own: list[Any]) -> Any:
        q, k, v, gate = (x @ own[0]).chunk(4, dim=-1)
        x = x + gate * torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v)
        return x + torch.relu(x @ own[1]) @ own[2]

    def step() -> None:
        x = torch.randn(batch, sequence, hidden, requires_grad=True)
        for own in weights:
            x = checkpoint(block, x, own, use_reentrant=False) if recompute else block(x, own)
        x.sum().backward()

    matrices = [tuple(weight.shape) for own in weights for weight in own]
    counted = counting.training_step(matrices, layers, hidden, batch, sequence, recompute)
    # torch stops recomputing a block once it has what the backward pass needs; here it must finish.
    with set_checkpoint_early_stop(False):
        assert counting.torch_flops(step) == counted
