"""Finds program text that a source carries in encoded or compressed form, and says what runs such text.

Nothing is run. Text that is made in another way (a cipher of one's own) can't be read here; that a source runs
text at all is said then, for a person to look at.
"""

from __future__ import annotations

import ast
import base64
import binascii
import bz2
import codecs
import lzma
import zlib
from collections.abc import Callable, Iterator

LAYERS = 5  # an encoding in a compression in an encoding …
LEAST_CHARACTERS = 60  # of a constant; a function worth hiding is longer, even compressed
MOST_BYTES = 1 << 20  # of what is unpacked from one constant, each time
MOST_TEXTS = 200  # tried for one source
_RUNNERS = frozenset({"exec", "eval", "compile", "__import__", "__builtins__"})
_RUN_MODULES = frozenset({"marshal", "builtins", "runpy", "code", "codeop"})
_CODE_TYPES = frozenset({"FunctionType", "CodeType", "LambdaType"})


def hidden_texts(tree: ast.AST) -> Iterator[str]:
    """The texts that a source's constants hold or unpack to, and that define a function."""
    waiting = [(value, 0) for value in _constants(tree)]
    tried: set[str | bytes] = set()
    while waiting and len(tried) < MOST_TEXTS:
        value, layer = waiting.pop(0)
        if value in tried or len(value) < LEAST_CHARACTERS:
            continue
        tried.add(value)
        if isinstance(value, str) and "def " in value:
            yield value
        if layer < LAYERS:
            waiting += [(one, layer + 1) for one in _unpacked(value)]


def runs_text(tree: ast.AST) -> bool:
    """Whether a source names what runs text or makes code of data: exec, eval, compile, builtins, marshal, CodeType …"""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _RUNNERS | _CODE_TYPES:
            return True
        # `compile` is also a method of regular expressions and frameworks.
        if isinstance(node, ast.Attribute) and (
            node.attr in _CODE_TYPES | {"exec", "eval", "__builtins__", "co_code"}
        ):
            return True
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names]
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
            if any(name.split(".")[0] in _RUN_MODULES for name in modules):
                return True
            if _CODE_TYPES.intersection(names):
                return True
    return False


def _constants(tree: ast.AST) -> Iterator[str | bytes]:
    """Texts and bytes of a source: each by itself, and those that are added or joined, together."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.value
        elif isinstance(node, ast.BinOp | ast.List | ast.Tuple):
            parts = [
                inner.value
                for inner in ast.walk(node)
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str | bytes)
            ]
            for kind in (str, bytes):
                own = [part for part in parts if isinstance(part, kind)]
                if len(own) > 1:
                    yield kind().join(own)  # type: ignore[arg-type]
            if isinstance(node, ast.List | ast.Tuple) and len(node.elts) >= LEAST_CHARACTERS:
                values = [e.value for e in node.elts if isinstance(e, ast.Constant)]
                numbers = [one for one in values if type(one) is int and 0 <= one < 0x110000]
                if len(numbers) == len(values):
                    yield "".join(map(chr, numbers))


def _unpacked(value: str | bytes) -> Iterator[str | bytes]:
    """What a value is, read in every common way, forwards and backwards; what fails is left out."""
    if isinstance(value, str):
        yield codecs.encode(value, "rot13")
        try:
            data = value.encode("latin-1")
        except UnicodeEncodeError:
            return
        yield data
        yield data[::-1]
        return
    try:
        yield value.decode("utf-8")
    except UnicodeDecodeError:
        pass
    packed = b"".join(value.split())
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: base64.b64decode(packed, validate=True),
        lambda: base64.urlsafe_b64decode(packed),
        lambda: base64.b32decode(packed),
        lambda: base64.b85decode(packed),
        lambda: base64.a85decode(packed),
        lambda: binascii.unhexlify(packed),
        lambda: zlib.decompressobj(47).decompress(value, MOST_BYTES),  # zlib or gzip
        lambda: zlib.decompressobj(-15).decompress(value, MOST_BYTES),
        lambda: bz2.BZ2Decompressor().decompress(value, MOST_BYTES),
        lambda: lzma.LZMADecompressor(memlimit=64 * MOST_BYTES).decompress(value, MOST_BYTES),
    )
    for way in ways:
        try:
            yield way()
        except (ValueError, zlib.error, OSError, EOFError, lzma.LZMAError):
            continue
