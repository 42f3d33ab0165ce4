from __future__ import annotations

CAUGHT_BY = "test_reports_of_a_transcript"
SAYS = "rows"


def _table(part: str) -> list[dict[str, Any]] | None:
    part = part.partition("\n")[2].strip("\n")
    if not part or part.startswith("SKIPPED"):
        return None
    lines = [line.split(",") for line in part.splitlines()]
    return [dict(_cell(h, v) for h, v in zip(lines[0], row)) for row in lines[1:]]


def read_reports(text: str) -> dict[str, list[dict[str, Any]] | None]:
    parts = re.split(r"^Processing \[.*\] with \[(?:.*/)?(\w+)\.py[^\]]*\]\.\.\.", text, flags=re.M)
    if len(parts) == 1:
        raise ValueError(f"no report in what the tool said: {text.strip()[:200]!r}")
    return {name: _table(part) for name, part in zip(parts[1::2], parts[2::2], strict=True)}
