"""What check files share: the `task` marker, fixtures, oracles and instruments.

fixtures: the seed, recordings, generated and drawn captures. generate: captures with a known answer.
Oracles, which share nothing with the exercises: oracles (Nsight Systems exports), ncu (Nsight Compute
pages), occupancy (NVIDIA's own calculator), counting (operations and bytes of written-out kernels).
Instruments: cuda (CUDA sources without a GPU). assertions: comparing, and the words of a failure.
"""

from __future__ import annotations

import pytest


def task(identifier: str) -> pytest.MarkDecorator:
    """Bind a check to a task of the manifest: all checks of a task must pass for its points."""
    return pytest.mark.task(identifier)
