"""What stops the recorder."""

from __future__ import annotations


class RecordError(Exception):
    """What stops the recorder, in one line."""
