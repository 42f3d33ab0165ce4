"""Runs the last segment again, too."""

from __future__ import annotations

CAUGHT_BY = "test_a_chain_played"
SAYS = "The last segment is not computed again"


def predict_checkpointing(
    layer_count: int, segment_count: int, input_bytes: int, inner_bytes: int, forward_flops: int
) -> dict[str, float]:
    lengths = segment_lengths(layer_count, segment_count)
    if min(input_bytes, inner_bytes, forward_flops) < 1:
        raise ValueError("input_bytes, inner_bytes and forward_flops must be at least 1")
    # While segment i is run backward, the inputs of the i segments before it are there, too.
    held = [
        index * input_bytes + length * (input_bytes + inner_bytes)
        for index, length in enumerate(lengths)
    ]
    recomputed = layer_count
    plain_flops = 3 * layer_count * forward_flops
    flops = plain_flops + recomputed * forward_flops
    return {
        "kept_bytes": held[-1],
        "peak_bytes": max(held),
        "recomputed_layers": recomputed,
        "flops": flops,
        "flops_ratio": flops / plain_flops,
    }
