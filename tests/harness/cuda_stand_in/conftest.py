"""A host that writes records by hand."""

from __future__ import annotations

import pytest

from tests.harness.cuda_stand_in.written_records import Host


@pytest.fixture
def host() -> Host:
    return Host()
