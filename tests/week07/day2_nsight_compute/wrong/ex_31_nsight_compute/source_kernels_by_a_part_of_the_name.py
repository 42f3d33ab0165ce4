"""Finds a kernel by a part of its name."""

from __future__ import annotations

CAUGHT_BY = "test_kernels_go_by_their_whole_name"
SAYS = "also holds ff"


def read_source(capture: str, kernel: str) -> list[dict[str, Any]]:
    place = captures.file(capture, "source.csv")
    reader = csv.reader(captures.text(capture, "source.csv").splitlines())
    file = function = text = ""
    line = 0
    header: list[str] = []
    at: dict[str, int] = {}
    found: dict[tuple[str, int, str], dict[str, Any]] = {}
    functions = set()
    for row in reader:
        first = row[0] if row else ""
        if first == "File Path":
            file = row[1]
        elif first == "Function Name":
            function = _function(row[1])
            functions.add(function)
        elif first == "Line No":
            header = row
            missing = [name for name in _SOURCE_COLUMNS if name not in header]
            if missing:
                raise CaptureError(f"{place.name}: the header lacks {', '.join(missing)}")
            at = {name: header.index(name) for name in _SOURCE_COLUMNS}
        elif not header or (first and not first.isdecimal()):
            raise CaptureError(f"{place.name}: line {reader.line_num}: is it the source page?")
        elif len(row) < len(header) or (not first and len(row) > len(header)):
            raise CaptureError(
                f"{place.name}: line {reader.line_num} has {len(row)} columns, the header "
                f"{len(header)}: was the file cut off?"
            )
        elif first:
            line, text = int(first), row[1].strip()
        elif kernel in function and row[at["Address"]].startswith("0x"):
            address = row[at["Address"]]
            found[file, line, address] = {
                "file": file,
                "line": line,
                "text": text,
                "address": address,
                "instruction": row[at["Address"] + 1].strip(),
                "samples": _count(row[at["# Samples"]]),
                "executed": _count(row[at["Instructions Executed"]]),
            }
    if not any(kernel in name for name in functions):
        known = ", ".join(sorted(functions)) or "none"
        raise CaptureError(f"{place.name}: no kernel {kernel!r}; it has {known}")
    return list(found.values())
