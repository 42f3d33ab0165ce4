from __future__ import annotations

CAUGHT_BY = "test_components"
SAYS = "each input read once and the result written once"

_right_profile = profile_attention_components


def profile_attention_components(seq_len, d_model, num_heads, **options):
    profile = _right_profile(seq_len, d_model, num_heads, **options)
    for part in profile["components"]:
        part["bytes"] = part["bytes"] // devices.dtype(profile["dtype"]).bytes * 4
    return profile
