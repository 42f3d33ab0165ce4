from __future__ import annotations

CAUGHT_BY = "test_reports_of_a_transcript"
SAYS = "not the same as nothing found"


def _table(part: str) -> list[dict[str, Any]] | None:
    if not part or part.startswith("SKIPPED"):
        return []
    return [dict(_cell(*cell) for cell in row.items()) for row in csv.DictReader(io.StringIO(part))]


def read_reports(text: str) -> dict[str, list[dict[str, Any]] | None]:
    heads = r"^Processing \[[^\]]*\] with \[([^\]]*)\](?:\(.*\))?\.\.\. *$"
    parts = re.split(heads, text, flags=re.MULTILINE)
    if len(parts) == 1:
        raise ValueError(f"no report in what the tool said: {text.partition(chr(10))[0]!r}")
    names = [one.rpartition("/")[2].removesuffix(".py") for one in parts[1::2]]
    return {name: _table(part.strip("\n")) for name, part in zip(names, parts[2::2], strict=True)}
