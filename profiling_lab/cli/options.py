"""Options that several commands take."""

from __future__ import annotations

import click

against_option = click.option(
    "--against",
    metavar="PATH",
    help="Which functions to use: another tree (solutions), a clone of the course, or a Python "
    "file. Without it: your own.",
)
range_option = click.option(
    "--range",
    "nvtx_range",
    metavar="NVTX",
    help="Of timelines: look at the NVTX ranges of this name only.",
)
seconds_option = click.option(
    "--seconds",
    metavar="FROM:TO",
    help="Of timelines: look at this part only, in seconds as Nsight Systems counts them "
    '("10:12.5", "10:", ":2"); ":" is all of it.',
)
