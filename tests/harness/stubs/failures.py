"""What tests of stubs share: the text of a failure, and marks for what needs POSIX."""

from __future__ import annotations

import os

import pytest

from grading.runner.failures import StubError

# Of processor time, or by the clock on a machine that is busy.
AFTER = r"had not come back after [\d.]+ s\b.*?"


def failure(call, *args, **kwargs) -> str:
    with pytest.raises(StubError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def posix_proof(test):
    return posix(pytest.mark.proof(test))
