from __future__ import annotations

CAUGHT_BY = "test_commands"
SAYS = "one instance of the range"


def stats_command(
    recording: str,
    reports: Sequence[str],
    nvtx_range: str | None = None,
    domain: str | None = None,
    instance: int = 0,
    unit: str = "nsec",
) -> list[str]:
    unknown = [name for name in reports if name not in REPORTS]
    if unknown or not reports:
        raise ValueError(f"reports {unknown or 'are missing'}: known are {', '.join(REPORTS)}")
    if unit not in UNITS_NS:
        raise ValueError(f"unit {unit!r} is none of {', '.join(UNITS_NS)}")
    if instance < 0 or (domain is not None and nvtx_range is None):
        raise ValueError("an instance is at least 0, and a domain needs a range")
    if not recording.endswith((".nsys-rep", ".sqlite")):
        raise ValueError(f"{recording}: neither a report (.nsys-rep) nor an export (.sqlite)")
    command = ["nsys", "stats", f"--report={','.join(reports)}", "--format=csv", "--output=-"]
    command.append(f"--timeunit={unit}")
    if nvtx_range is not None:
        place = nvtx_range if domain is None else f"{nvtx_range}@{domain}"
        command.append(f"--filter-nvtx={place}" + (f"/{instance}" if instance else ""))
    if recording.endswith(".nsys-rep"):
        command.append("--force-export=true")
    return [*command, recording]
