"""Nothing that is shipped in captures/ tells of the machine that recorded it, and all of it is whole.

The second half plants leaks, one of each kind, and asserts that the same search finds them.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import shutil
import socket
import sqlite3
import zlib
from pathlib import Path

import pytest

from profiling_lab.record import leaks, recipes, tools
from profiling_lab.record.profilers.nsys import TIMELINE

pytestmark = pytest.mark.proof  # it is the course that ships them

CAPTURES = Path(__file__).resolve().parents[2] / "captures"
RECIPES = recipes.load(CAPTURES)
FILES = sorted(
    path
    for path in CAPTURES.rglob("*")
    if path.is_file()
    and not any(part.startswith((".", "__")) for part in path.relative_to(CAPTURES).parts)
)
PROVENANCE_FIELDS = {
    "capture": str,
    "question": str,
    "date": str,
    "gpu": list,
    "topology": dict,
    "driver": str,
    "cuda": dict,
    "python": str,
    "frameworks": dict,
    "clocks": dict,
    "tool": dict,
    "command": str,
    "program": dict,
    "files": dict,
}


def names_of_this_machine() -> list[bytes]:
    names = {socket.gethostname(), os.environ.get("USER", ""), Path.home().name}
    ordinary = {"root", "localhost", "user", "ubuntu", "runner", "recorder", "home", "work"}
    return [name.encode() for name in names if len(name) >= 6 and name not in ordinary]


def provenance(name: str) -> dict:
    return json.loads((CAPTURES / name / recipes.PROVENANCE).read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(CAPTURES)))
def test_no_file_tells_of_a_machine(file):
    assert leaks.find_leaks(file, names_of_this_machine()) == []


def test_every_folder_is_a_capture_of_the_list():
    folders = {path.name for path in CAPTURES.iterdir() if path.is_dir()}
    assert folders - {"programs", "tool_help"} == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_capture_is_whole(name):
    folder = CAPTURES / name
    record = provenance(name)
    for field, kind in PROVENANCE_FIELDS.items():
        assert isinstance(record.get(field), kind), f"{name}: provenance lacks {field}"
        assert record[field], f"{name}: provenance has an empty {field}"
    assert record["capture"] == name
    assert record["cuda"]["driver"] and record["cuda"]["toolkit"]
    assert record["clocks"]["before"] and record["clocks"]["after"]
    assert record["tool"]["name"] == RECIPES[name].profiler.title and record["tool"]["version"]
    if RECIPES[name].tool == "nsys":
        assert record["tool"]["schema_version"][0].isdigit()
    if RECIPES[name].gpus:
        assert len(record["gpu"]) == RECIPES[name].gpus

    readme = (folder / recipes.README).read_text(encoding="utf-8")
    assert readme.startswith("# ") and "?" in readme, f"{name}: the README asks nothing"

    described = {recipes.PROVENANCE, recipes.README, *record["files"]}
    present = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert present == described
    for file, expected in record["files"].items():
        assert tools.sha256(folder / file) == expected, f"{name}/{file}: changed since recording"


@pytest.mark.parametrize("name", RECIPES)
def test_capture_is_of_the_program_that_is_here(name):
    state = recipes.state(RECIPES[name], CAPTURES)
    assert state == "recorded", f"{name}: {state}; on a machine with a GPU: lab record --stale"


@pytest.mark.parametrize("name", [name for name in RECIPES if RECIPES[name].tool == "nsys"])
def test_database_is_sound(name):
    connection = leaks._connect(CAPTURES / name / TIMELINE)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == b"ok"
        tables = {row[0].decode() for row in connection.execute("SELECT name FROM sqlite_master")}
        kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
        if kernels in tables:
            for column in ("shortName", "demangledName"):
                nameless = connection.execute(
                    f"SELECT count(*) FROM {kernels} WHERE {column} NOT IN (SELECT id FROM StringIds)"
                )
                assert nameless.fetchone()[0] == 0
        calls = connection.execute(
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
            " WHERE nameId NOT IN (SELECT id FROM StringIds)"
        )
        assert calls.fetchone()[0] == 0
    finally:
        connection.close()


@pytest.mark.parametrize("pair", [
    ("torch_inference_baseline", "torch_inference_improved"),
    ("cuda_pipeline_baseline", "cuda_pipeline_improved"),
    ("decode_eager", "decode_graph"),
    ("decode_graph", "decode_graph_nodes"),
    ("training_item", "training_async"),
    ("host_preprocess", "host_prefetch"),
    ("alloc_every_step", "alloc_cached"),
], ids="-".join)  # fmt: skip
def test_both_of_a_pair_computed_the_same(pair):
    first, second = (provenance(name)["reported_by_program"]["checksum"] for name in pair)
    assert first == second


def test_help_texts_are_described():
    record = provenance("tool_help")
    present = {path.name for path in (CAPTURES / "tool_help").iterdir()}
    assert present == {recipes.PROVENANCE, *record["files"]}
    for file, expected in record["files"].items():
        assert tools.sha256(CAPTURES / "tool_help" / file) == expected


# -- the search can fail -------------------------------------------------------------------------

ADA = b"/home" + b"/ada"  # in parts: no file of the repository spells a path of a machine
ENVIRONMENT = b"SHELL=/bin/sh\0API_TOKEN=abc123\0HOME=" + ADA + b"\0"
PLANTED = {
    "home folder": ADA + b"/model.py",
    "home folder of root": b"see /root" + b"/.cache for more",
    "home folder of a Mac": b"/Users" + b"/ada/model.py",
    "working folder": b"/workspace/project/run.py",
    "temporary folder": b"/tmp/job-17/run.py",
    "e-mail address": b"ask ada.lovelace@example.org about it",
    "device id": b"GPU-2b9af2b1-8ae8-52b7-8622-dcbdb674c70f",
    "environment": ENVIRONMENT,
    "one variable": b"CUDA_VISIBLE_DEVICES=3",
    "host process": b"kworker/3:0-events",
    "key": b"-----BEGIN OPENSSH PRIVATE KEY-----",
    "name of this host": b"submitted from lovelace-node-17 today",
}
EXTRA = [b"lovelace-node-17"]


@pytest.fixture
def shipped(tmp_path) -> Path:
    target = tmp_path / "timeline.sqlite"
    shutil.copy(CAPTURES / "two_streams" / TIMELINE, target)
    assert leaks.find_leaks(target, EXTRA) == []
    return target


def execute(file: Path, *statements: tuple) -> None:
    connection = sqlite3.connect(file)
    with connection:
        for statement in statements:
            connection.execute(*statement)
    connection.close()


@pytest.mark.parametrize("what", PLANTED)
def test_found_in_a_cell(shipped, what):
    execute(shipped, ("INSERT INTO StringIds VALUES (99999, ?)", (PLANTED[what].decode(),)))
    assert leaks.find_leaks(shipped, EXTRA)


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("kind", ["csv", "json", "txt", "csv.gz", "pickle", "nsys-rep", "ncu-rep"])
def test_found_in_other_files(tmp_path, kind, what):
    data = b"name,value\nkernel,1\n" + PLANTED[what] + b"\n"
    file = tmp_path / f"planted.{kind}"
    if kind == "csv.gz":
        data = gzip.compress(data)
    elif kind == "pickle":
        data = pickle.dumps({"frames": [{"filename": PLANTED[what].decode()}]})
    elif kind == "ncu-rep":
        data = b"NVR\0" + bytes(20) + zlib.compress(data + bytes(64)) + bytes(20)
        assert not any(word in data for word in (ADA, b"lovelace", b"BEGIN OPENSSH"))
    elif kind == "nsys-rep":
        data = report_with(PLANTED[what])
        assert not any(word in data for word in (ADA, b"lovelace", b"BEGIN OPENSSH"))
    file.write_bytes(data)
    assert leaks.find_leaks(file, EXTRA)


BLOCK_SIZES = b'a launch with "XBLOCK=2", R0_BLOCK=64'


def test_block_sizes_of_a_kernel_are_no_variables(tmp_path):
    file = tmp_path / "program.py"
    file.write_bytes(BLOCK_SIZES + b"\n")
    assert leaks.find_leaks(file) == []


@pytest.mark.parametrize(
    "text",
    [
        BLOCK_SIZES + b" API_TOKEN=abc123",
        BLOCK_SIZES + b"\nSHELL=/bin/sh",
        b'["XBLOCK=2", "CUDA_VISIBLE_DEVICES=3"]',
        b"XBLOCK=/opt/models",
        b"MY_XBLOCK=2",
        b"BLOCK=2",
    ],
)
def test_a_variable_beside_block_sizes_is_found(tmp_path, text):
    file = tmp_path / "program.py"
    file.write_bytes(text)
    assert any("environment variable" in line for line in leaks.find_leaks(file))


def test_found_behind_a_nul(shipped):
    hidden = b"kernel\0" + b"HOME=" + ADA + b"\0"
    execute(shipped, ("INSERT INTO StringIds VALUES (99999, CAST(? AS TEXT))", (hidden,)))
    connection = sqlite3.connect(shipped)
    seen = connection.execute("SELECT length(value) FROM StringIds WHERE id = 99999").fetchone()[0]
    connection.close()
    assert seen == len("kernel"), "SQLite stops at the NUL: this is what makes it easy to miss"
    assert any("home folder" in line for line in leaks.find_leaks(shipped))


def test_found_in_free_pages(shipped):
    blob = (ADA + b"/secret ") * 400
    execute(
        shipped,
        ("PRAGMA secure_delete = OFF",),
        ("CREATE TABLE gone (value BLOB)",),
        ("INSERT INTO gone VALUES (?)", (blob,)),
    )
    execute(shipped, ("DROP TABLE gone",))
    lines = leaks.find_leaks(shipped)
    assert any("free pages" in line for line in lines)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)",
        "CREATE TABLE ProcessStreams (globalPid INTEGER)",
        "CREATE TABLE ANALYSIS_FILE (id INTEGER)",
        "UPDATE TARGET_INFO_GPU SET uuid = 'ab'",
        "INSERT INTO META_DATA_CAPTURE VALUES ('DEVICE_DISPLAY_NAME', 'node17')",
        "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:USER_NAME', 'ada')",
        "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_HOST', 'node17')",
    ],
)
def test_found_in_the_structure(shipped, statement):
    execute(shipped, (statement,))
    assert leaks.find_leaks(shipped)


def test_a_report_that_cannot_be_read_is_not_clean(tmp_path):
    file = tmp_path / "unknown.nsys-rep"
    file.write_bytes(b"a report of another layout, without a single LZ4 block" * 20)
    assert any("undecoded" in line for line in leaks.find_leaks(file))
    file.write_bytes(report_with(b"kernel") + b"\x28\xb5\x2f\xfd" + bytes(200))
    assert any("zstd" in line for line in leaks.find_leaks(file))


def test_a_stream_that_cannot_be_read_makes_a_report_unclean(tmp_path):
    file = tmp_path / "unknown.ncu-rep"
    file.write_bytes(b"NVR\0 kernels" + b"\x28\xb5\x2f\xfd" + bytes(200))
    assert any("zstd" in line for line in leaks.find_leaks(file))


def test_a_harmless_report_is_clean(tmp_path):
    file = tmp_path / "clean.nsys-rep"
    file.write_bytes(report_with(b"a kernel called infer"))
    assert leaks.find_leaks(file) == []
    file = tmp_path / "clean.ncu-rep"
    file.write_bytes(b"NVR\0" + b"a kernel called infer" * 9)
    assert leaks.find_leaks(file) == []


def report_with(text: bytes) -> bytes:
    """A report that holds `text` inside an LZ4 block only, cut into pieces out of order.

    The block first stores the text's four-byte pieces backwards, apart from each other, then refers
    to them in order: packed, the text is nowhere in one piece; unpacked, it is.
    """
    pieces = [text[start : start + 4].ljust(4, b"\n") for start in range(0, len(text), 4)]
    literals = bytearray(random.Random(5).choices(range(97, 123), k=300)) + b"\n"
    places = {}
    for number in reversed(range(len(pieces))):
        places[number] = len(literals)
        literals += pieces[number] + b"\n"
    unpacked = bytearray(literals)
    block = bytearray()
    for number, place in sorted(places.items()):
        block += _sequence(b"" if number else bytes(literals), len(unpacked) - place)
        unpacked += pieces[number]
    block += _sequence(b"\nend", None)
    unpacked += b"\nend"
    return b"report, lz4 " + _varint(len(block)) + _varint(len(unpacked)) + block + bytes(40)


def _sequence(literals: bytes, offset: int | None) -> bytes:
    """One LZ4 sequence: literals, then (unless it is the last) four bytes from `offset` back."""
    out = bytearray([min(len(literals), 15) << 4])
    if len(literals) >= 15:
        rest = len(literals) - 15
        while rest >= 255:
            out.append(255)
            rest -= 255
        out.append(rest)
    out += literals
    if offset:
        out += bytes((offset & 255, offset >> 8))
    return bytes(out)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
