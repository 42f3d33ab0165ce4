"""Draw a roofline: the roofs of devices and data types, and where measured work stands under them.

    >>> from profiling_lab import roofline
    >>> roofs = [roofline.roof("H200", "float32"), roofline.roof("H200", "bfloat16")]
    >>> points = [roofline.Point("copy", intensity=0.25, flops_per_s=1.1e12)]
    >>> text = roofline.svg(roofs, points)            # for a page or a report: no further library
    >>> picture = roofline.figure(roofs, points)      # the same with matplotlib

Both axes are logarithmic: operations per byte to the right, operations per second upwards. The
slanted part of a roof is the device's memory, the flat part its peak for the data type; they meet at
the ridge. The peaks come from `profiling_lab.devices`, so a roof is a ceiling, and nobody reaches it.

Source of the plot: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model",
CACM 52 (4), 2009.
"""

from __future__ import annotations

from profiling_lab.roofline.as_figure import figure
from profiling_lab.roofline.as_svg import svg
from profiling_lab.roofline.layout import plan
from profiling_lab.roofline.model import Point, Roof, format_flops_per_s, roof

__all__ = ["Point", "Roof", "figure", "format_flops_per_s", "plan", "roof", "svg"]
