"""Normal forms of CUDA: a source as tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from grading.gradebook.similarity.normal_forms import digest

_CUDA = re.compile(
    r"""
      (?P<skip>//(?:[^\n\\]|\\.)*|/\*.*?\*/|\s+|\\\n)
    | (?P<token>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_]\w*|\.?\d[\w.']*|<<<|>>>
        |->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||::|[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=64)
def cuda_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a CUDA source, without comments."""
    return tuple(match["token"] for match in _CUDA.finditer(text) if match["token"])


def cuda_statements(tokens: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The normal forms of a source's statements (up to ; { or }), and how many tokens they have."""
    statement: list[str] = []
    for token in tokens:
        statement.append(token)
        if token in (";", "{", "}"):
            numbers: dict[str, str] = {}
            yield (
                digest(
                    numbers.setdefault(t, str(len(numbers))) if is_word(t) else t for t in statement
                ),
                len(statement),
            )
            statement = []


def is_word(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"
