"""Find what a capture must not carry: folders, host names, users, environments, device ids.

A profiler writes down the machine it ran on. `find_leaks` reads a file as anyone could: a SQLite
database cell by cell as bytes (a NUL hides the rest of a text from SQL) and once more as raw pages,
compressed files unpacked, the LZ4 blocks inside a `.nsys-rep` and the streams inside a `.ncu-rep`
decoded.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

FORBIDDEN_TABLES = ("TARGET_INFO_SYSTEM_ENV", "ProcessStreams", "ANALYSIS_FILE")
ZERO_UUID = b"00000000-0000-0000-0000-000000000000"
UNREADABLE = b"-----BEGIN PRIVATE KEY"  # stands for what could not be read: never clean
MAX_SHOWN = 60

ID = re.compile(rb"(?<![0-9a-fA-F])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
PATTERNS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    (
        "home folder",
        re.compile(rb"/(?:home|Users|export/home)/[A-Za-z0-9._-]+|/root(?![A-Za-z0-9])"),
    ),
    ("home folder", re.compile(rb"[A-Za-z]:\\\\?Users\\")),
    (
        "working folder",
        re.compile(
            rb"/(?:work|workspace|mnt|media|srv|scratch|data|farm|builds?|runner|github)/[A-Za-z0-9._-]+"
        ),
    ),
    (
        "temporary folder",
        re.compile(
            rb"/tmp/(?!lab-record|nvidia/nsight_systems|nsys-report-|[0-9a-f]{4}(?:-[0-9a-f]{4}){3})"
            rb"[A-Za-z0-9._-]+|/var/(?:tmp|folders)/[A-Za-z0-9._-]+"
        ),
    ),
    (  # at most 64 characters before the "@": without a limit long words take quadratic time
        "e-mail address",
        re.compile(rb"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[a-z]{2,})+"),
    ),
    ("device or session id", ID),
    ("secret", re.compile(rb"AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY|ssh-(?:rsa|ed25519) ")),
    ("process of the host", re.compile(rb"kworker/|ksoftirqd/|systemd-|containerd")),
)
# Block sizes that TorchInductor gives to a Triton kernel ("XBLOCK=2") are spelled like variables of an
# environment and are none; a setting of the allocator that a text teaches tells of no machine. They are
# passed over in the pattern itself: a match takes in the rest of its line, and a real variable behind
# one must still be found.
NO_VARIABLE = (
    rb"(?:(?:[XYZR]|R\d_)BLOCK=\d+|PYTORCH_ALLOC_CONF=expandable_segments:True)(?![\w/.:-])"
)
VARIABLE = re.compile(
    rb"(?<![A-Za-z0-9_$.-])(?!"
    + NO_VARIABLE
    + rb")([A-Z_][A-Z0-9_]{2,})=([\x21-\x7e][\x20-\x7e]{0,200})"
)
# Among millions of bytes of numbers some look like a short name, "=" and a character or two.
BINARY_VARIABLE = re.compile(
    rb"(?<![A-Za-z0-9_$.-])"
    rb"([A-Z_][A-Z0-9_]{5,}|[A-Z_][A-Z0-9_]{2,4}(?==[\x21-\x7e][\x20-\x7e]{3})|HOME|PWD|USER)"
    rb"=([\x21-\x7e][\x20-\x7e]{0,200})"
)
# A report names the few variables that the recorder itself set; they say nothing of the machine.
NEUTRAL_VARIABLES = {
    b"HOME": re.compile(rb"/tmp/lab-record"),
    b"PWD": re.compile(rb"/tmp/lab-record|/(?![A-Za-z])"),
    b"PATH": re.compile(rb"(?:/(?:opt|usr|bin|sbin)[A-Za-z0-9._/-]*:?)+"),
    b"LD_PRELOAD": re.compile(rb"(?:\{\}|/opt/nvidia/[A-Za-z0-9._/:-]*)"),
    b"LANG": re.compile(rb"C\.UTF-8"),
}
MAGICS = (
    ("zstd", b"\x28\xb5\x2f\xfd"),
    ("lz4 frame", b"\x04\x22\x4d\x18"),
    ("gzip", b"\x1f\x8b\x08"),
    ("bzip2", b"BZh91AY&SY"),
    ("xz", b"\xfd7zXZ\x00"),
    ("zip", b"PK\x03\x04"),
)


def find_leaks(file: Path, extra: Iterable[bytes] = ()) -> list[str]:
    """One line for each thing in `file` that tells of the machine it was recorded on.

    `extra` holds more byte strings that must not occur, such as a host's or a user's name.
    """
    words = [word for word in extra if len(word) >= 4]
    data = file.read_bytes()
    lines: list[str] = []
    if data.startswith(b"SQLite format 3\x00"):
        lines += _database(file)
        parts: Iterator[tuple[str, bytes]] = _cells(file)
        for where, cell in parts:
            lines += _scan(cell, where, words)
        lines += _scan(data, "raw pages", words)
    elif file.suffix == ".nsys-rep":
        for where, part in report_parts(data):
            lines += _scan(part, where, words, neutral=True)
    elif file.suffix == ".ncu-rep":
        for where, part in (("plain", data), *streams(data)):
            lines += _scan(part, where, words, neutral=True)
    elif file.suffix == ".gz":
        lines += _scan(gzip.decompress(data), "unpacked", words)
    else:
        lines += _scan(data, "text", words)
    return [f"{file.name}: {line}" for line in dict.fromkeys(lines)]


def _scan(data: bytes, where: str, words: list[bytes], neutral: bool = False) -> list[str]:
    found = []
    for what, pattern in PATTERNS:
        for match in pattern.finditer(data):
            if match.group() != ZERO_UUID:
                found.append(f"{where}: {what}: {_show(match.group())}")
    for match in (BINARY_VARIABLE if neutral else VARIABLE).finditer(data):
        # In a report the byte before a text is its length, which may look like a letter.
        allowed = NEUTRAL_VARIABLES.get(match[1]) or NEUTRAL_VARIABLES.get(match[1][1:])
        if not neutral or allowed is None or not allowed.match(match[2]):
            found.append(f"{where}: environment variable: {_show(match.group())}")
    for word in words:
        if word in data:
            found.append(f"{where}: name of host or user: {_show(word)}")
    return found


def _show(data: bytes) -> str:
    return data[:MAX_SHOWN].decode("utf-8", "backslashreplace")


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.text_factory = bytes
    return connection


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name.decode() for (name,) in rows]


def _database(file: Path) -> list[str]:
    """What the structure of an exported database gives away, or keeps in pages left free."""
    found = []
    connection = _connect(file)
    try:
        tables = _tables(connection)
        found += [f"table {name} is there" for name in FORBIDDEN_TABLES if name in tables]
        if connection.execute("PRAGMA freelist_count").fetchone()[0]:
            found.append("free pages are left: run VACUUM")
        if "StringIds" in tables:
            query = "SELECT count(*) FROM StringIds WHERE instr(CAST(value AS BLOB), x'00')"
            if connection.execute(query).fetchone()[0]:
                found.append("StringIds holds values with NUL characters")
        if "TARGET_INFO_GPU" in tables:
            for (value,) in connection.execute("SELECT uuid FROM TARGET_INFO_GPU"):
                if value:
                    found.append(f"TARGET_INFO_GPU: device id: {_show(value)}")
        host = {
            "META_DATA_CAPTURE": ("DEVICE_DISPLAY_NAME", "USER_NAME", "ENVIRONMENT_VARIABLE"),
            "META_DATA_EXPORT": ("EXPORT_HOST", "EXPORT_USER", "_PATH"),
        }
        for table, names in host.items():
            if table in tables:
                for (name,) in connection.execute(f"SELECT name FROM {table}"):
                    if any(part in name.decode() for part in names):
                        found.append(f"{table}: row {name.decode()}")
    finally:
        connection.close()
    return found


def _cells(file: Path) -> Iterator[tuple[str, bytes]]:
    connection = _connect(file)
    try:
        for table in _tables(connection):
            columns = [
                row[1].decode() for row in connection.execute(f'PRAGMA table_info("{table}")')
            ]
            for column in columns:
                query = (
                    f'SELECT DISTINCT CAST("{column}" AS BLOB) FROM "{table}" '
                    f"WHERE typeof(\"{column}\") IN ('text', 'blob')"
                )
                for (cell,) in connection.execute(query):
                    yield f"{table}.{column}", cell
    finally:
        connection.close()


# -- .nsys-rep ------------------------------------------------------------------------------------
# Observed layout (2025.3): plain protocol-buffer sections, and inside "Raw Sampling Data" LZ4 blocks
# framed as <varint: packed bytes> <varint: unpacked bytes> <block>.


def report_parts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The plain bytes of a report, then each compressed part of it unpacked.

    Yields a part named "undecoded …" whose bytes are the pattern of a secret where a compressed
    stream is found that cannot be read, so that a report which hides something never counts as clean.
    """
    position = 0
    blocks = list(lz4_blocks(data))
    if not blocks:
        yield "undecoded: no LZ4 block was found", UNREADABLE
    for start, end, block in blocks:
        yield "plain", data[position:start]
        yield f"LZ4 block at {start}", block
        position = end
    yield "plain", data[position:]
    yield from streams(data)


def streams(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The compressed streams inside `data`, unpacked; one that cannot be read is never clean."""
    for name, magic in MAGICS:
        for match in re.finditer(re.escape(magic), data):
            unpacked = _unpack(name, data[match.start() :])
            if unpacked is None:
                yield f"undecoded {name} stream at {match.start()}", UNREADABLE
            else:
                yield f"{name} stream at {match.start()}", unpacked
    for start, unpacked in _zlib_streams(data):
        yield f"zlib stream at {start}", unpacked


def _unpack(name: str, data: bytes) -> bytes | None:
    try:
        if name == "gzip":
            return zlib.decompressobj(31).decompress(data)
        if name == "bzip2":
            return bz2.BZ2Decompressor().decompress(data)
        if name == "xz":
            return lzma.LZMADecompressor().decompress(data)
    except (OSError, zlib.error, lzma.LZMAError, EOFError):
        return None
    return None


def _zlib_streams(data: bytes) -> Iterator[tuple[int, bytes]]:
    for match in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
        try:
            unpacked = zlib.decompressobj().decompress(data[match.start() :])
        except zlib.error:
            continue
        if len(unpacked) >= 32:
            yield match.start(), unpacked


def lz4_blocks(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Every framed LZ4 block in `data`: (where it starts, where it ends, unpacked bytes)."""
    position, end = 0, len(data)
    while position < end - 8:
        packed, after = _varint(data, position)
        if packed < 64 or after + packed >= end:
            position += 1
            continue
        unpacked_bytes, start = _varint(data, after)
        stop = start + packed
        if stop > end or not packed // 2 <= unpacked_bytes <= 255 * packed:
            position += 1
            continue
        block = _lz4(data, start, stop, unpacked_bytes)
        if block is None:
            position += 1
        else:
            yield position, stop, block
            position = stop


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    return 0, position


def _lz4(data: bytes, position: int, end: int, size: int) -> bytes | None:
    """Decode one LZ4 block that must fill exactly `size` bytes; None where it is none."""
    out = bytearray()
    while position < end and len(out) <= size:
        token = data[position]
        position += 1
        literals = token >> 4
        if literals == 15:
            while position < end:
                byte = data[position]
                position += 1
                literals += byte
                if byte != 255:
                    break
        if position + literals > end:
            return None
        out += data[position : position + literals]
        position += literals
        if position == end:
            return bytes(out) if len(out) == size else None
        if position + 2 > end:
            return None
        offset = data[position] | data[position + 1] << 8
        position += 2
        if not 0 < offset <= len(out):
            return None
        length = (token & 15) + 4
        if length == 19:
            while position < end:
                byte = data[position]
                position += 1
                length += byte
                if byte != 255:
                    break
        if offset >= length:
            out += out[-offset : len(out) - offset + length]
        else:
            piece = bytes(out[-offset:])
            out += (piece * (length // offset + 1))[:length]
    return None


def neutralise_report(data: bytes, names: Iterable[bytes] = ()) -> bytes:
    """Blank ids, and the given names, in a report byte for byte, so that no offset moves."""
    data = ID.sub(ZERO_UUID, data)
    for name in names:
        if len(name) >= 4:
            data = data.replace(name, b"0" * len(name))
    return data
