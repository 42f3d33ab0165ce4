"""Errors of the grader itself."""

from __future__ import annotations

from profiling_lab.errors import LabError


class SandboxError(LabError):
    """The sandbox failed, not the code in it: what was being judged must be judged again."""


class SandboxUnavailable(LabError):
    """This machine has no sandbox: says what to install."""
