"""The tool without the course: a wheel, in a folder with nothing but a recording."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from profiling_lab import captures
from tests.harness import light

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 120_000_000
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = "overlap_legacy"  # what the README's one line is the answer to


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare environment with the wheel and what it declares; its folder."""
    folder = tmp_path_factory.mktemp("alone")
    build = ["uv", "build", "--wheel", "--quiet", "--out-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    light.make(folder / "venv", light.distributions(groups=()) - {light.PROJECT})
    (packages,) = (folder / "venv" / "lib").glob("*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return folder / "venv"


def call(
    installed: Path, folder: Path, *arguments: str, path: str = "/nowhere"
) -> subprocess.CompletedProcess[str]:
    # No home, no git, no cache, no tool of NVIDIA's.
    return subprocess.run(
        [installed / "bin" / "python", *arguments],
        cwd=folder,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def lab(
    installed: Path, folder: Path, *arguments: str, path: str = "/nowhere"
) -> subprocess.CompletedProcess[str]:
    return call(installed, folder, "-m", "profiling_lab.cli", *arguments, path=path)


def test_it_is_small_and_holds_no_grading(installed: Path) -> None:
    (packages,) = (installed / "lib").glob("*/site-packages")
    there = {entry.name for entry in packages.iterdir()}
    assert "profiling_lab" in there and not there & {"grading", "tests", "polars", "torch"}
    size = sum(
        file.stat().st_size
        for top in packages.iterdir()
        for file in (top.resolve().rglob("*") if top.is_dir() else [top.resolve()])
        if file.is_file()
    )
    assert size < MOST_BYTES


@pytest.mark.parametrize(
    ("capture", "main", "name", "category"),
    [
        ("overlap_legacy", "timeline.sqlite", "run.sqlite", "serialized_streams"),
        ("torch_train_sync", "trace.json", "trace.json", "sync_bound"),
        ("torch_train_sync", "trace.json", "trace.json.gz", "sync_bound"),
        ("case_fields_a", "kernels.csv", "kernels.csv", "uncoalesced_access"),
    ],
)
def test_it_reads_recordings_in_an_empty_folder(
    installed: Path, tmp_path: Path, capture: str, main: str, name: str, category: str
) -> None:
    place = captures.file(capture, main)
    if main.endswith(".sqlite"):
        shutil.copyfile(place, tmp_path / name)
    else:
        text = captures.text(capture, main).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    ran = lab(installed, tmp_path, "diagnose", name, "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["findings"][0]["category"] == category
    assert told["headline"] in README or capture != SHOWN
    shown = lab(installed, tmp_path, "diagnose", name)
    assert shown.returncode == 0 and category in shown.stdout and "uv run" not in shown.stdout
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_it_compares_recordings(installed: Path, tmp_path: Path) -> None:
    for capture in ("overlap_legacy", "overlap_streams"):
        shutil.copyfile(captures.path(capture), tmp_path / f"{capture}.sqlite")
    files = "overlap_legacy.sqlite", "overlap_streams.sqlite"
    ran = lab(installed, tmp_path, "compare", *files)
    assert ran.returncode == 0, ran.stderr
    assert "× faster" in ran.stdout and "serialized_streams → " in ran.stdout


def test_what_takes_the_course_says_so(installed: Path, tmp_path: Path) -> None:
    shutil.copyfile(captures.path("overlap_legacy"), tmp_path / "run.sqlite")
    for arguments in (["diagnose", "run.sqlite", "--mine"], ["check"]):
        ran = lab(installed, tmp_path, *arguments)
        assert ran.returncode == 2 and "course" in ran.stderr and ran.stderr.count("\n") == 1
    for arguments in (
        ["quiz"],
        ["demo"],
        ["report", "run.sqlite"],
    ):
        ran = lab(installed, tmp_path, *arguments)
        assert ran.returncode == 2 and "in a " in ran.stderr and "clone" in ran.stderr, ran.stderr
        assert ran.stderr.count("\n") == 1 and "site-packages" not in ran.stderr
    ran = call(installed, tmp_path, "-c", "from profiling_lab.cli import grade; grade()")
    assert (ran.returncode, ran.stdout) == (2, "") and "in a clone" in ran.stderr


def test_what_an_extra_brings_is_named_with_its_command(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "run.ncu-rep").write_bytes(b"NVR\x00")
    for arguments, extra in ((["mcp", "."], "mcp"), (["diagnose", "run.ncu-rep"], "ncu")):
        ran = lab(installed, tmp_path, *arguments)
        assert ran.returncode == 2 and f"uv tool install '.[{extra}]'" in ran.stderr, ran.stderr
        assert "uv run" not in ran.stderr and "uv sync" not in ran.stderr


def test_a_report_is_read_with_an_installed_nsys(installed: Path, tmp_path: Path) -> None:
    """A stand-in for nsys: tried with a real one as well (benchmarks/ENGINE.md)."""
    place, tools = tmp_path / "here", tmp_path / "tools"
    place.mkdir()
    tools.mkdir()
    exported = captures.path("overlap_legacy")
    script = f"#!{sys.executable}\nimport shutil, sys\n" + (
        "made = next(a for a in sys.argv if a.startswith('--output=')).partition('=')[2]\n"
        f"assert sys.argv[1:3] == ['export', '--type=sqlite']\nshutil.copyfile({str(exported)!r}, made)\n"
    )
    (tools / "nsys").write_text(script)
    (tools / "nsys").chmod(0o755)
    (place / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report")
    ran = lab(installed, place, "diagnose", "run.nsys-rep", "--json", path=str(tools))
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["findings"][0]["category"] == "serialized_streams"
    assert sorted(file.name for file in place.iterdir()) == ["run.nsys-rep", "run.sqlite"]
    (tools / "nsys").write_text(
        f"#!{sys.executable}\nimport sys\nsys.exit('ProtobufParseException')\n"
    )
    (place / "run.sqlite").unlink()
    ran = lab(installed, place, "diagnose", "run.nsys-rep", path=str(tools))
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1
    assert "ProtobufParseException" in ran.stderr and "or a newer one" in ran.stderr


def test_reports_of_the_tools_ask_for_what_reads_them(installed: Path, tmp_path: Path) -> None:
    for name, says in (("run.nsys-rep", "nsys"), ("run.ncu-rep", "ncu")):
        (tmp_path / name).write_bytes(
            b"NVIDIA Tegra Profiler Report" if name.startswith("run.nsys") else b"NVR\x00"
        )
        ran = lab(installed, tmp_path, "diagnose", name)
        assert ran.returncode == 2 and says in ran.stderr, ran.stderr
        assert sys.executable not in ran.stderr
