"""Names of files that checks hand over: they say nothing of what is expected.

A recording that is called `launch_bound_7.sqlite` tells its verdict and the seed, and so does a folder named for
its check. So the learner's side sees `given_<random>`, and messages for people say what it stands for.
"""

from __future__ import annotations

import re
import secrets

_TOKEN = re.compile("given_[0-9a-f]{12}")
_meant: dict[str, str] = {}


def disguised(name: str) -> str:
    """Another name for a file or folder, which `meant` turns back."""
    token = f"given_{secrets.token_hex(6)}"
    _meant[token] = name
    return token


def shortened(text: str, most: int) -> str:
    """A text of about so many characters, which ends in no half of a disguised name."""
    if len(text) <= most:
        return text
    end = most - 1
    for name in _TOKEN.finditer(text):
        if name.start() < end:
            end = max(end, name.end())
    return f"{text[:end]}…"


def meant(text: str) -> str:
    """A text with the names that its disguised ones stand for."""
    return _TOKEN.sub(lambda found: _meant.get(found[0], found[0]), text)
