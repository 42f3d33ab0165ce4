from __future__ import annotations

CAUGHT_BY = "test_units"
SAYS = "times in ns whatever"


def _cell(heading: str, text: str) -> tuple[str, Any]:
    heading = re.sub(r"\((us|ms|s)\)$", "(ns)", heading)
    for kind in (int, float):
        try:
            return heading, kind(text)
        except ValueError:
            continue
    return heading, text or None


def read_reports(text: str) -> dict[str, list[dict[str, Any]] | None]:
    heads = r"^Processing \[[^\]]*\] with \[([^\]]*)\](?:\(.*\))?\.\.\. *$"
    parts = re.split(heads, text, flags=re.MULTILINE)
    if len(parts) == 1:
        raise ValueError(f"no report in what the tool said: {text.partition(chr(10))[0]!r}")
    names = [one.rpartition("/")[2].removesuffix(".py") for one in parts[1::2]]
    return {name: _table(part.strip("\n")) for name, part in zip(names, parts[2::2], strict=True)}
