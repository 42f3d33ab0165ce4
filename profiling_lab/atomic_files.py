"""Files that are replaced as a whole: who reads one finds the old content or the new one, never half."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """Where to write the new content of a file: it takes the file's place when the block ends.

    If the block raises, the file stays as it was, and nothing else is left beside it. The folder must be
    there. Raises OSError.
    """
    draft = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        yield draft
        draft.replace(file)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
