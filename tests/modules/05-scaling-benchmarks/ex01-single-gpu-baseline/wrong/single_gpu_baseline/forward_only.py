from __future__ import annotations

CAUGHT_BY = "test_utilisation_of_drawn_models"
SAYS = "the backward pass multiplies as well"


def model_flops_utilisation(
    layers: Sequence[Sequence[int]], samples_per_s: float, device: str, dtype: str
) -> dict[str, float]:
    if not layers or not all(len(shape) == 2 and min(shape) >= 1 for shape in layers):
        raise ValueError("layers")
    if not samples_per_s > 0:
        raise ValueError("rate")
    flops = sum(2 * inputs * outputs for inputs, outputs in layers)
    peak = devices.get(device).peak(dtype)
    return {"flops_per_sample_count": flops, "utilisation_ratio": flops * samples_per_s / peak}
