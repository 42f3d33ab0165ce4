"""What check files share: the `task` marker, fixtures, oracles and instruments."""

from __future__ import annotations

import pytest


def task(identifier: str) -> pytest.MarkDecorator:
    """Bind a check to a task of the manifest: all checks of a task must pass for its points."""
    return pytest.mark.task(identifier)
