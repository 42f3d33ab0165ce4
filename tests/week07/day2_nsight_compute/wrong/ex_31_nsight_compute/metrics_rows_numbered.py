"""Numbers the rows instead of reading their ID."""

from __future__ import annotations

CAUGHT_BY = "test_lines_of_the_tool_and_compression_do_not_matter"
SAYS = "says 0; expected 3"


def read_metrics(capture: str) -> list[dict[str, Any]]:
    place = captures.file(capture, "kernels.csv")
    lines = captures.text(capture, "kernels.csv").splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith(('"ID"', "ID,"))), None)
    if first is None:
        raise CaptureError(
            f"{place.name}: no header that begins with ID; is it ncu --page raw --csv?"
        )
    reader = csv.reader(lines[first:])
    header = next(reader)
    missing = [name for name in _IDENTITY if name not in header]
    if missing:
        raise CaptureError(f"{place.name}: the header lacks {', '.join(missing)}")
    rows = []
    for row in reader:
        if len(row) != len(header):
            raise CaptureError(
                f"{place.name}: line {first + reader.line_num} has {len(row)} columns, "
                f"the header {len(header)}: was the file cut off?"
            )
        rows.append(row)
    at = {name: header.index(name) for name in _IDENTITY}
    if not rows or any(rows[0][at[name]] for name in ("ID", "Kernel Name", "CC")):
        raise CaptureError(f"{place.name}: no row of units below the header")
    if len(rows) == 1:
        raise CaptureError(f"{place.name}: no kernel was profiled")
    columns = range(at["CC"] + 1, len(header))
    factors = {i: _factor(rows[0][i]) for i in columns}
    return [
        {
            "id": number,
            "name": row[at["Kernel Name"]],
            "grid": _triple(row[at["Grid Size"]]),
            "block": _triple(row[at["Block Size"]]),
            "cc": row[at["CC"]],
            "metrics": {header[i]: _value(row[i], factors[i]) for i in columns},
        }
        for number, row in enumerate(rows[1:])
    ]
