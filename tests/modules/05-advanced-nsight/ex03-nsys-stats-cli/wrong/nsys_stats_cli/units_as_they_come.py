from __future__ import annotations

CAUGHT_BY = "test_units"
SAYS = "ns"


def _cell(heading: str, text: str) -> tuple[str, Any]:
    heading = re.sub(r"\((us|μs|ms|s)\)$", "(ns)", heading)
    for kind in (int, float):
        try:
            return heading, kind(text)
        except ValueError:
            continue
    return heading, text or None


def read_reports(text: str) -> dict[str, list[dict[str, Any]] | None]:
    parts = re.split(r"^Processing \[.*\] with \[(?:.*/)?(\w+)\.py[^\]]*\]\.\.\.", text, flags=re.M)
    if len(parts) == 1:
        raise ValueError(f"no report in what the tool said: {text.strip()[:200]!r}")
    return {name: _table(part) for name, part in zip(parts[1::2], parts[2::2], strict=True)}
