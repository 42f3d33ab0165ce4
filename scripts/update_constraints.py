"""Write the pins of all indirect dependencies into pyproject.toml, or say whether they are stale.

    uv run scripts/update_constraints.py             keep the pins that still fit, add and drop
    uv run scripts/update_constraints.py --upgrade   forget them and take the newest versions
    uv run scripts/update_constraints.py --check     change nothing; exit code 1 if stale

`uv.lock` holds download addresses and stays out of git, so the versions that were tried are kept as
`[tool.uv] constraint-dependencies` (what the project needs) and `build-constraint-dependencies`
(what its build backend needs). Direct dependencies are pinned where they are declared.

`--check` resolves against the pins and compares, so a new release of something never makes them
stale; a changed direct dependency does. Where a current `uv.lock` lies beside pyproject.toml, as
after any `uv run`, nothing is resolved and no network is used.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from profiling_lab import needs

try:
    import tomlkit
    from tomlkit.items import Table
except ModuleNotFoundError as error:
    sys.exit(needs.explain(error))

ROOT = Path(__file__).resolve().parent.parent
PINS = "constraint-dependencies"
BUILD_PINS = "build-constraint-dependencies"
COMMENT = "Written by scripts/update_constraints.py."


def normalized(requirement: str) -> str:
    """The package that a requirement names, in the one spelling that compares equal."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement.strip())
    if match is None:
        raise ValueError(f"not a requirement: {requirement!r}")
    return re.sub(r"[-_.]+", "-", match.group()).lower()


def parse_export(text: str) -> list[str]:
    """The `name==version ; marker` lines of an export, without options, comments and addresses."""
    lines = []
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith(("#", "-")):
            continue
        if "://" in line or "==" not in line:
            raise SystemExit(f"not a pin of a released version: {line}")
        lines.append(line)
    return lines


def pins(exported: Iterable[str], direct: Iterable[str]) -> list[str]:
    """Constraints out of exported lines: direct dependencies left out, markers only where needed.

    A marker stays only where a package has several versions; a single version holds everywhere, and
    a marker would only repeat where the package is wanted.
    """
    declared = {normalized(requirement) for requirement in direct}
    versions: dict[str, dict[str, str]] = {}
    for line in exported:
        pin, _, marker = (part.strip() for part in line.partition(";"))
        if normalized(pin) not in declared:
            versions.setdefault(normalized(pin), {})[pin] = marker
    found = []
    for name in sorted(versions):
        several = len(versions[name]) > 1
        for pin, marker in sorted(versions[name].items()):
            found.append(f"{pin} ; {marker}" if several and marker else pin)
    return found


def direct_dependencies(project: Mapping) -> list[str]:
    """All requirements that pyproject.toml itself declares."""
    declared = list(project["project"].get("dependencies", ()))
    for extra in project["project"].get("optional-dependencies", {}).values():
        declared += extra
    for group in project.get("dependency-groups", {}).values():
        declared += [entry for entry in group if isinstance(entry, str)]
    return declared


def uv(*arguments: str, folder: Path) -> str:
    """What uv prints; ends the program with uv's own message if it fails."""
    command = ["uv", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"uv {' '.join(arguments)}:\n{done.stderr.strip()}")
    return done.stdout


def export(folder: Path, *options: str) -> list[str]:
    """What uv resolves for the project in `folder`, for all platforms and groups."""
    text = uv(
        *("export", "--no-hashes", "--no-emit-project", "--all-groups", "--all-extras"),
        *("--no-annotate", "--no-header", "--quiet", *options),
        folder=folder,
    )
    return parse_export(text)


def lock_is_current(folder: Path) -> bool:
    """Whether uv.lock fits pyproject.toml, found out without a network."""
    if not (folder / "uv.lock").is_file():
        return False
    command = ["uv", "lock", "--check", "--offline", "--quiet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return done.returncode == 0


def resolve(document: tomlkit.TOMLDocument) -> list[str]:
    """Resolve a project in a folder of its own, so that no lock file is touched."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pyproject.toml").write_text(tomlkit.dumps(document), encoding="utf-8")
        return export(folder)


def resolve_build(document: tomlkit.TOMLDocument, keep: Iterable[str]) -> list[str]:
    """Resolve what the build backend needs, for all platforms."""
    requirements = [str(entry) for entry in document["build-system"]["requires"]]  # type: ignore[index]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build.in").write_text("\n".join(requirements), encoding="utf-8")
        (folder / "keep.txt").write_text("\n".join(keep), encoding="utf-8")
        oldest = re.search(r"\d+\.\d+", str(document["project"]["requires-python"]))  # type: ignore[index]
        text = uv(
            *("pip", "compile", "build.in", "--constraints", "keep.txt", "--universal"),
            *("--no-annotate", "--no-header", "--quiet", "--no-config"),
            *("--python-version", oldest.group() if oldest else "3.11"),
            folder=folder,
        )
    return pins(parse_export(text), requirements)


def table(document: tomlkit.TOMLDocument) -> Table:
    """`[tool.uv]`, made if it is not there."""
    tool = document.setdefault("tool", tomlkit.table(is_super_table=True))
    found = tool.setdefault("uv", tomlkit.table())
    if not isinstance(found, Table):
        raise SystemExit("[tool.uv] in pyproject.toml is not a table")
    return found


def write_pins(document: tomlkit.TOMLDocument, key: str, wanted: list[str]) -> None:
    """Put a list of pins into `[tool.uv]`, one a line."""
    array = tomlkit.array()
    for pin in wanted:
        array.add_line(pin, indent="  ")
    array.add_line(indent="")
    uv_table = table(document)
    if key in uv_table:
        uv_table[key] = array
        return
    # A table's last blank lines belong to its last value: they go below what is added.
    uv_table.add(tomlkit.comment(COMMENT))
    uv_table.add(key, array)
    uv_table.add(tomlkit.nl())


def differences(have: Iterable[str], want: Iterable[str]) -> list[str]:
    """One line for each pin that is missing or left over.

    Versions are compared, not markers: releases of uv spell the same marker differently.
    """
    have, want = ({pin.partition(";")[0].strip() for pin in side} for side in (have, want))
    return [f"missing: {pin}" for pin in sorted(want - have)] + [
        f"left over: {pin}" for pin in sorted(have - want)
    ]


def check(file: Path) -> list[str]:
    """What is stale in the pins of this pyproject.toml; an empty list where nothing is."""
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    have = [str(pin) for pin in table(document).get(PINS, ())]
    current = lock_is_current(file.parent)
    exported = export(file.parent, "--frozen") if current else resolve(document)
    found = differences(have, pins(exported, direct_dependencies(document)))
    if not table(document).get(BUILD_PINS) and document.get("build-system"):
        found.append(f"missing: {BUILD_PINS}")
    return found


def update(file: Path, *, upgrade: bool) -> bool:
    """Rewrite the pins in this pyproject.toml; whether anything changed."""
    before = file.read_text(encoding="utf-8")
    document = tomlkit.parse(before)
    build_pins = [] if upgrade else [str(pin) for pin in table(document).get(BUILD_PINS, ())]
    source = tomlkit.parse(before)
    if upgrade:
        for key in (PINS, BUILD_PINS):
            table(source).pop(key, None)
    write_pins(document, PINS, pins(resolve(source), direct_dependencies(document)))
    write_pins(document, BUILD_PINS, resolve_build(document, build_pins))
    after = tomlkit.dumps(document)
    if "://" in "".join(table(document)[PINS]) + "".join(table(document)[BUILD_PINS]):
        raise SystemExit("an address got among the pins; nothing was written")
    file.write_text(after, encoding="utf-8")
    return after != before


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    mode.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    parser.add_argument("--project", type=Path, default=ROOT, help="folder of pyproject.toml")
    options = parser.parse_args(arguments)
    if shutil.which("uv") is None:
        raise SystemExit("uv is not on PATH: pip install uv")
    file = options.project / "pyproject.toml"
    if options.check:
        stale = check(file)
        print("\n".join(stale) or "The pins in pyproject.toml are current.")
        if stale:
            print("Run: uv run scripts/update_constraints.py")
        return 1 if stale else 0
    changed = update(file, upgrade=options.upgrade)
    print("pyproject.toml rewritten." if changed else "Nothing to change.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
