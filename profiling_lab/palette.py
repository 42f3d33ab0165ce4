"""The colours of pages, plots and notebooks: one colour for each kind of thing, everywhere."""

from __future__ import annotations

# Apart for colour-blind readers too (Okabe and Ito), and greys.
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
INK, GRID, PAPER, GREY = "#222222", "#DDDDDD", "#FFFFFF", "#BBBBBB"
DARK, LIGHT, FAINT, NOTHING = "#666666", "#EEEEEE", "#DCEBF5", "#F3E3D3"

# What a timeline shows, as the light page has it (reports/templates/report.css).
KERNEL, COPY_IN, COPY_OUT, CALL, WAIT = ORANGE, SKY, BLUE, GREEN, VERMILION
COLLECTIVE, BESIDE, GRAPH, MEMSET = "#7A4F9E", "#A8A04E", "#8A5200", "#56616C"
COPY_DEVICE, RANGE, OS_CALL = "#7F9FB8", "#D5DAE0", "#B9A6C9"
OPERATOR, PYTHON, OTHER = "#A8C98A", "#E6C3B3", "#C6CBD1"
LOOKS = {
    "kernel": KERNEL,
    "collective": COLLECTIVE,
    "beside": BESIDE,
    "graph": GRAPH,
    "copy_in": COPY_IN,
    "copy_out": COPY_OUT,
    "copy_device": COPY_DEVICE,
    "memset": MEMSET,
    "api": CALL,
    "wait": WAIT,
    "nvtx": RANGE,
    "os": OS_CALL,
    "operator": OPERATOR,
    "python": PYTHON,
    "other": OTHER,
}

# Series without a meaning of their own, one after the other.
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
# How notebooks set up Matplotlib.
NOTEBOOK = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "axes.prop_cycle": f"cycler('color', {[colour.lower() for colour in SERIES]})",
}
