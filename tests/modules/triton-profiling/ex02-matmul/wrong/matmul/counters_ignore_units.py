"""Takes every number as it stands, whatever its unit."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_recorded_counters"
SAYS = "the second row of the file says in which unit"


def _number(cell: str | None, unit: str | None) -> float | None:
    try:
        value = float((cell or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def kernel_counters(capture: str) -> list[dict[str, Any]]:
    lines = captures.text(capture, "kernels.csv").splitlines()
    while lines and not lines[0].startswith('"ID"'):
        lines.pop(0)
    reader = csv.DictReader(lines)
    table = list(reader)
    if not table or "Kernel Name" not in (reader.fieldnames or ()):
        raise CaptureError(f"{capture}: kernels.csv holds no raw page of Nsight Compute")
    units, *launches = table
    return [
        {"name": launch["Kernel Name"].partition("(")[0]}
        | {key: _number(launch.get(name), units.get(name)) for key, name in COUNTERS.items()}
        for launch in launches
    ]
