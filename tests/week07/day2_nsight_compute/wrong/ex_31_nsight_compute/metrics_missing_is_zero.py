"""Makes 0 of what was not measured."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_kernels_in_base_units"
SAYS = "is missing, not a value"


def _value(text: str, factor: float) -> int | float | str | None:
    text = text.strip()
    if text.lower().lstrip("+-") in ("", "n/a", "nan", "inf", "infinity"):
        return 0
    plain = text.replace(",", "")
    if re.fullmatch(r"[+-]?\d+", plain) and factor == 1:
        return int(plain)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", plain, re.IGNORECASE):
        return float(plain) * factor
    return text
