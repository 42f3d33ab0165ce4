"""Stubs of both kinds, opened for a source text."""

from __future__ import annotations

import os
import textwrap

import pytest

from grading.runner.stubs import open_stub

KINDS = [
    pytest.param(False, id="in-process"),
    pytest.param(
        True,
        id="isolated",
        marks=[
            pytest.mark.skipif(os.name != "posix", reason="needs POSIX"),
            pytest.mark.proof,  # a process for each: learners need not wait for that
        ],
    ),
]


@pytest.fixture(params=KINDS)
def isolated(request):
    return request.param


@pytest.fixture
def opened(tmp_path, isolated):
    """Open a stub for a source text."""
    stubs = []

    def open_(text, name="ex_00.py", **options):
        source = tmp_path / name
        source.write_text(textwrap.dedent(text))
        options = {"isolated": isolated, "timeout_s": 20.0} | options
        stub = open_stub(source, module_name="ex_00", **options)
        stubs.append(stub)
        return stub

    yield open_
    for stub in stubs:
        stub.close()


@pytest.fixture
def isolated_stub(tmp_path):
    stubs = []

    def open_(text, **options):
        source = tmp_path / "ex_00.py"
        source.write_text(textwrap.dedent(text))
        options = {"timeout_s": 20.0} | options
        stubs.append(open_stub(source, module_name="ex_00", isolated=True, **options))
        return stubs[-1]

    yield open_
    for stub in stubs:
        stub.close()
