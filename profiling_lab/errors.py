"""The errors that the library raises on bad input; each message is one line that says what to do."""

from __future__ import annotations


class LabError(Exception):
    """Any problem that a user can fix; the command line prints its message and exits with 2."""


class CaptureError(LabError):
    """A capture cannot be read; the message names the file and what is wrong with it."""


class NoSuchCapture(CaptureError):
    """Neither a capture of this name nor a file at this path exists."""


class MissingTable(CaptureError):
    """The capture lacks a table or a column that was asked for."""


class EmptyCapture(CaptureError):
    """The capture is readable but holds nothing of what was asked for (no kernels, say)."""


class CourseError(LabError):
    """The manifest or a tree of exercises does not fit together."""


class UnknownExercise(CourseError):
    """No exercise or task of this id is in the manifest."""
