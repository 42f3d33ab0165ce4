"""Lets every filter see all channels."""

from __future__ import annotations

from collections.abc import Sequence

from profiling_lab import devices

CAUGHT_BY = "test_a_convolution_is_counted"
SAYS = "channels of its group only"


def conv2d_cost(
    batch: int,
    in_channels: int,
    height: int,
    width: int,
    out_channels: int,
    kernel: Sequence[int],
    dtype: str,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
) -> Cost:
    check_sizes(batch=batch, in_channels=in_channels, out_channels=out_channels, groups=groups)
    check_sizes(height=height, width=width)
    for name, pair in (("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        check_sizes(**{f"the vertical {name}": pair[0], f"the horizontal {name}": pair[1]})
    if any(type(value) is not int or value < 0 for value in padding):
        raise ValueError(f"padding is {padding!r}: whole numbers of at least 0 are needed")
    if in_channels % groups or out_channels % groups:
        raise ValueError(f"groups is {groups}: it must divide {in_channels} and {out_channels}")
    out_height, out_width = (
        (extent + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, extent in enumerate((height, width))
    )
    if out_height < 1 or out_width < 1:
        raise ValueError(f"a filter of {kernel!r} does not fit an input of {height} x {width}")
    weights = out_channels * in_channels * kernel[0] * kernel[1]
    outputs = out_height * out_width
    elements = batch * in_channels * height * width + weights + batch * out_channels * outputs
    return {
        "flops": 2 * batch * outputs * weights,
        "bytes": elements * devices.dtype(dtype).bytes,
    }
