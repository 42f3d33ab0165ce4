"""Numbers for people: nanoseconds, bytes, shares and ratios as short text with a unit.

Every function takes a plain number and gives a short text ("1.56 ms"). `full_value` gives the
exact one ("1,563,579 ns"), which reports put beside the short one. Bytes are counted in powers of
ten (1 MB = 1,000,000 bytes), as copy engines and memory bandwidths are. What is not a finite number
is "n/a", so that a missing value can never look like a zero.
"""

from __future__ import annotations

import math
import re
from typing import Any

MISSING = "n/a"
MINUS = "-"

_TIME_STEPS = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_SIZE_STEPS = ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))
_RATE_STEPS = tuple((scale, f"{unit}/s") for scale, unit in _SIZE_STEPS)
_CLOCK_STEPS = ((1.0, "Hz"), (1e3, "kHz"), (1e6, "MHz"), (1e9, "GHz"))

# What evidence is called where its key says it badly.
_CALLED = {
    "recoverable_ns": "could be saved",
    "recoverable_ratio": "of the window",
    "window_ns": "length of the window",
    "margin_ratio": "above the share that counts",
    "lost_ratio": "idle or exposed",
    "ceiling_ratio": "reached of its ceiling",
    "headroom_ratio": "left to the nearest peak",
    "launch_count": "launches",
    "waves_ratio": "waves of blocks",
    "occupancy_ratio": "warps held, of the most possible",
    "achieved_ratio": "warps active, of the most possible",
    "clock_ratio": "clock, of the highest reached",
    "growth_bytes": "growth a step",
    "step_end_bytes": "in use at the end",
    "steps_left_count": "steps until memory is full",
    "left_out_count": "collectives left out",
    "unjudged_count": "causes that could not be judged",
    "late_work_ns": "longer work of the late rank",
    "pageable_bytes": "copied from or to pageable memory",
    "hidden_ns": "saved if overlapped with kernels",
    "pinned_ns": "saved with pinned memory",
    "moved_less_ns": "saved if nothing were moved",
    "streams_count": "streams",
    "by_default_stream_ratio": "by the default stream's order",
}

# Endings of evidence keys and what they measure; the longest ending that fits is taken.
_ENDINGS = {
    "_bytes_per_s": "bytes_per_s",
    "_bytes": "bytes",
    "_ratio": "ratio",
    "_count": "count",
    "_pct": "pct",
    "_ns": "ns",
    "_hz": "hz",
}

# What names of ranges and operators count up: it differs from step to step, and from run to run.
_SERIAL_NUMBERS = re.compile(
    r"(#\s*|\b(?:\w+_)?(?:id|seq)\s*[=:]\s*|\b(?:step|iter|iteration|batch)\s*[=:]?\s*|\b0x)[0-9][0-9a-f]*\b",
    re.IGNORECASE,
)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _digits(value: float, significant: int = 3) -> str:
    """A number of at least 1 (or 0) with about `significant` digits and thousands separated."""
    size = abs(value)
    whole = len(str(int(size)))
    return f"{value:,.{max(0, significant - whole)}f}"


def _scaled(value: Any, steps: tuple[tuple[float, str], ...]) -> str:
    number = _number(value)
    if number is None:
        return MISSING
    size, sign = abs(number), MINUS if number < 0 else ""
    if size < 1000 and size.is_integer():
        return f"{sign}{int(size)} {steps[0][1]}"
    # 999.6 would be written as 1,000: it belongs to the next unit.
    scale, unit = next((step for step in steps if size / step[0] < 999.5), steps[-1])
    return f"{sign}{_digits(size / scale)} {unit}"


def format_ns(value: Any) -> str:
    """A duration: `format_ns(1_563_579)` is "1.56 ms"; from two minutes on, minutes and seconds."""
    number = _number(value)
    if number is not None and abs(number) >= 119.5e9:
        seconds = round(abs(number) / 1e9)
        hours, rest = divmod(seconds, 3600)
        text = f"{rest // 60} min {rest % 60:02d} s"
        return (MINUS if number < 0 else "") + (f"{hours} h {text}" if hours else text)
    return _scaled(value, _TIME_STEPS)


def format_bytes(value: Any) -> str:
    """A size: `format_bytes(4_194_304)` is "4.19 MB"."""
    return _scaled(value, _SIZE_STEPS)


def format_bytes_per_s(value: Any) -> str:
    """A rate: `format_bytes_per_s(25.3e9)` is "25.3 GB/s"."""
    return _scaled(value, _RATE_STEPS)


def format_hz(value: Any) -> str:
    """A clock: `format_hz(1_980_000_000)` is "1.98 GHz"."""
    return _scaled(value, _CLOCK_STEPS)


def format_pct(value: Any) -> str:
    """A share in percent, given as 0 … 100: `format_pct(41.27)` is "41.3%"."""
    number = _number(value)
    if number is None:
        return MISSING
    if number != 0 and abs(number) < 0.05:
        return "<0.1%" if number > 0 else ">-0.1%"
    return f"{number:,.1f}%"


def format_share(part: Any, whole: Any) -> str:
    """What `part` is of `whole`, in percent: `format_share(1, 4)` is "25.0%"; "n/a" of nothing."""
    top, bottom = _number(part), _number(whole)
    if top is None or not bottom:
        return MISSING
    return format_pct(100 * top / bottom)


def format_ratio(value: Any) -> str:
    """A ratio: `format_ratio(1.8412)` is "1.84×"."""
    number = _number(value)
    if number is None:
        return MISSING
    if 0 < number < 0.001:
        return "<0.001×"
    if number != 0 and abs(number) < 0.01:
        return f"{number:.1g}×"
    size = abs(number)
    text = f"{number:,.2f}" if size < 99.95 else f"{number:,.0f}"
    return f"{text}×"


def format_count(value: Any) -> str:
    """A count: `format_count(100000)` is "100,000"; a mean count keeps two decimals."""
    number = _number(value)
    if number is None:
        return MISSING
    return f"{int(number):,}" if number == int(number) else f"{number:,.2f}"


_FORMATS = {
    "ns": format_ns,
    "bytes": format_bytes,
    "bytes_per_s": format_bytes_per_s,
    "hz": format_hz,
    "pct": format_pct,
    "ratio": format_ratio,
    "count": format_count,
    "": format_count,
}
_FULL = {
    "bytes_per_s": "bytes/s",
    "hz": "Hz",
    "pct": "%",
    "ratio": "×",
    "count": "",
}


def format_quantity(value: Any, unit: str) -> str:
    """A value in the unit that its name carries: "ns", "bytes", "bytes_per_s", "hz", "pct",
    "ratio", "count"; any other unit is written behind the number; text stays as it is."""
    if isinstance(value, str):
        return f"{value} {unit}".strip() if unit not in _FORMATS else value
    if unit in _FORMATS:
        return _FORMATS[unit](value)
    number = _number(value)
    if number is None:
        return MISSING
    return f"{format_count(number) if number.is_integer() else _digits(number)} {unit}"


def full_value(value: Any, unit: str) -> str:
    """The exact value with its unit: `full_value(1563579, "ns")` is "1,563,579 ns"."""
    if isinstance(value, str):
        return value
    number = _number(value)
    if number is None:
        return MISSING
    # An int is printed from itself: a float holds whole nanoseconds only up to 2**53.
    if isinstance(value, int) or number.is_integer():
        text = f"{int(value):,}"
    else:
        text = f"{number:,}"
    return f"{text} {_FULL.get(unit, unit)}".strip()


def split_key(key: str) -> tuple[str, str]:
    """What an evidence key measures and in which unit: `split_key("recoverable_ns")` is
    `("recoverable", "ns")`; a key without a known ending has the unit ""."""
    for ending, unit in _ENDINGS.items():
        if key.endswith(ending) and len(key) > len(ending):
            # "wait" says little without "count"; a length or a share says what it is by its unit.
            named = key if unit in ("count", "ratio") else key[: -len(ending)]
            return named.replace("_", " "), unit
    return key.replace("_", " "), ""


def evidence(key: str, value: Any) -> tuple[str, Any, str]:
    """A piece of evidence to show: label, value, unit. A ratio of -1 … 1 is shown in percent."""
    label, unit = split_key(key)
    label = _CALLED.get(key, label)
    number = _number(value)
    if unit == "ratio" and number is not None and -1 <= number <= 1:
        return label, round(100 * number, 10), "pct"
    return label, value, unit


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and so can be compared and divided."""
    return _number(value) is not None


def without_serial_numbers(name: str) -> str:
    """A name under which what happened again and again can be added up ("ProfilerStep#5" → "ProfilerStep#…").

    Numbers after "#", "id =", "seq =", "step", "iteration", "batch", and addresses; others ("layer 3") stay.
    """
    return _SERIAL_NUMBERS.sub(r"\1…", name)
