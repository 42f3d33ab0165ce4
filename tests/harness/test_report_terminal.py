"""A report on the terminal, and numbers with their units."""

from __future__ import annotations

import io

import pytest

from profiling_lab import units
from profiling_lab.reports import CaptureSection, ComparisonRow
from profiling_lab.reports import terminal as on_screen
from profiling_lab.reports.model import sentence
from tests.harness.drawn_reports import EVIL, section

# -- the terminal --------------------------------------------------------------------------------


def printed(encoding: str = "utf-8", terminal: bool = False) -> str:
    from rich.console import Console

    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="strict", write_through=True)
    console = Console(file=file, width=80, force_terminal=terminal, highlight=False)
    on_screen.print_time_bars([section(), section("improved", window_ns=(0, 200_000))], console)
    on_screen.print_time_bars([section(text) for text in EVIL], console)
    on_screen.print_time_bars(CaptureSection("nothing"), console)
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_terminal_output_fits_80_columns_and_is_plain(encoding: str) -> None:
    text = printed(encoding)
    assert "\x1b" not in text and "\x00" not in text, "control characters in plain output"
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert not wide, f"wider than 80 columns: {wide}"
    for number in ("100 µs", "200 µs", "60.0%") if encoding == "utf-8" else ("60.0%",):
        assert number in text, f"{number} is not printed"


def test_terminal_strip_shows_idle_where_the_gap_is() -> None:
    for encoding, idle in (("utf-8", "·"), ("ascii", ".")):
        lines = [line for line in printed(encoding).splitlines() if line.startswith("  GPU 0")]
        strip = lines[0].split()[2]
        assert strip.endswith(idle * 11) and strip.count(idle) == len(strip) - strip.index(idle)
        assert 0.55 < strip.index(idle) / len(strip) < 0.65, "60% busy, then idle"
        # The second window is twice as long, so on the same scale the first is half the line.
        assert len(strip) == pytest.approx(len(lines[1].split()[2]) / 2, abs=1)


def test_terminal_uses_colour_only_where_it_is_one() -> None:
    assert "\x1b[" in printed(terminal=True)


# -- units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"), (1, "1 ns"), (999, "999 ns"), (999.7, "1.00 µs"), (1_000, "1.00 µs"),
        (999_499, "999 µs"), (999_500, "1.00 ms"), (1_563_579, "1.56 ms"), (-5e6, "-5.00 ms"),
        (119.4e9, "119 s"), (119.6e9, "2 min 00 s"), (4e12, "1 h 6 min 40 s"),
        (None, "n/a"), (float("nan"), "n/a"), (float("inf"), "n/a"), (True, "n/a"),
        ("x", "n/a"), (10**400, "n/a"),
    ],
)  # fmt: skip
def test_durations(value: object, text: str) -> None:
    assert units.format_ns(value) == text


def test_other_units() -> None:
    assert units.format_bytes(4_194_304) == "4.19 MB"
    assert units.format_bytes(999) == "999 B"
    assert units.format_bytes_per_s(25.3e9) == "25.3 GB/s"
    assert units.format_pct(41.27) == "41.3%"
    assert units.format_pct(0.01) == "<0.1%"
    assert units.format_share(1, 4) == "25.0%"
    assert units.format_share(1, 0) == "n/a"
    assert units.format_ratio(1.8412) == "1.84×"
    assert units.format_ratio(0.00003) == "<0.001×"
    assert units.format_count(100_000) == "100,000"
    assert units.format_quantity(3, "items") == "3 items"
    assert units.full_value(2**60 + 1, "ns") == "1,152,921,504,606,846,977 ns"
    assert units.split_key("recoverable_ns") == ("recoverable", "ns")
    assert units.split_key("dram_bytes_per_s") == ("dram", "bytes_per_s")
    assert units.split_key("wait_count") == ("wait count", "count")
    assert units.evidence("ceiling_ratio", 0.92) == ("reached of its ceiling", 92.0, "pct")
    assert units.evidence("gain_ratio", 1.5) == ("gain ratio", 1.5, "ratio")


def test_names_keep_their_first_letter() -> None:
    assert sentence("copies to the host") == "Copies to the host"
    assert [sentence(name) for name in ("cudaFree", "reduce_kernel", "gemm<float>", "")] == [
        "cudaFree", "reduce_kernel", "gemm<float>", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "change", "verdict"),
    [
        (ComparisonRow("a", 10, 5, better="lower"), (2.0, "less"), "better"),
        (ComparisonRow("a", 5, 10, better="lower"), (2.0, "more"), "worse"),
        (ComparisonRow("a", 5, 10), (2.0, "more"), ""),
        (ComparisonRow("a", 5, 5, better="lower"), (1.0, "the same"), ""),
        (ComparisonRow("a", 0, 5, better="lower"), (None, "more"), "worse"),
        (ComparisonRow("a", 10, 5, ratio=0.5), (2.0, "less"), ""),
        (ComparisonRow("a", None, 5), (None, ""), ""),
    ],
)
def test_changes(row: ComparisonRow, change: tuple, verdict: str) -> None:
    assert (row.change(), row.verdict()) == (change, verdict)
