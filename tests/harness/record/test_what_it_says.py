"""`lab record`: what it says of tools that are missing and of bad input."""

from __future__ import annotations

import pytest

from profiling_lab.record import cli, tools
from profiling_lab.record.errors import RecordError

pytestmark = pytest.mark.proof  # it is authors who record


def test_without_nsys_one_line_says_where_it_was_looked_for(course, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(tools, "NSYS_PLACES", ())
    assert cli.main(["--captures", str(course.captures)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nsys) was not found" in error and "--nsys PATH" in error


def test_the_newest_nsys_is_found_inside_nsight_compute(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for version in ("2024.3.2", "2025.3.1", "2025.10.0"):
        folder = tmp_path / "opt/nvidia/nsight-compute" / version / "host/target-linux-x64"
        folder.mkdir(parents=True)
        (folder / "nsys").write_text("#!/bin/sh\n")
        (folder / "nsys").chmod(0o755)
    found = tools.find_nsys(root=tmp_path)
    assert "2025.10.0" in found.parts


def test_a_missing_library_of_the_importer_is_named(tmp_path, monkeypatch, capsys):
    install = tmp_path / "nsight-compute"
    nsys = install / "host/target-linux-x64/nsys"
    importer = install / "host/linux-desktop-glibc_2_11_3-x64/QdstrmImporter"
    for file in (nsys, importer):
        file.parent.mkdir(parents=True)
        file.write_text("")
    ldd = tmp_path / "bin/ldd"
    ldd.parent.mkdir()
    ldd.write_text("#!/bin/sh\necho '\tlibdw.so.1 => not found'\n")
    ldd.chmod(0o755)
    monkeypatch.setenv("PATH", str(ldd.parent))
    with pytest.raises(RecordError, match=r"lacks libdw\.so\.1; .*apt install libdw1"):
        tools.check_importer(nsys)


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        (None, "no such file"),
        ("[a\n", "captures.toml"),
        ("[a]\nargs = []\n", "needs at least program"),
        ("[a]\nprogram = 'x.py'\ncolour = 'red'\n", "unknown key colour"),
        ("[A-1]\nprogram = 'x.py'\n", "lower case"),
        ("[a]\nprogram = 'x.py'\ntool = 'perf'\n", "no recorder for tool = 'perf'; there are nsys"),
        ("[a]\nprogram = 'x.py'\ntool = 'program'\n", "needs files"),
        ("[a]\nprogram = 'x.py'\ntool = 'ncu'\nstats = []\n", "unknown key stats"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys, toml, says):
    if toml is not None:
        (tmp_path / "captures.toml").write_text(toml)
    assert cli.main(["--captures", str(tmp_path), "--list"]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_an_unknown_name_lists_those_that_exist(course, capsys):
    assert course.record("--only", "third") == 2
    assert "no capture named third" in capsys.readouterr().err
