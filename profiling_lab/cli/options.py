"""Options that several commands take."""

from __future__ import annotations

import click

against_option = click.option(
    "--against",
    metavar="PATH",
    help="Whose functions to use: another tree (solutions), a clone of the course, or a Python "
    "file. Without it: your own.",
)
range_option = click.option(
    "--range",
    "nvtx_range",
    metavar="NVTX",
    help="Of timelines: look at the NVTX ranges of this name only.",
)
