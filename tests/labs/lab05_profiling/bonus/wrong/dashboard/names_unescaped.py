"""Writes names into the table as they come."""

from __future__ import annotations

CAUGHT_BY = "test_names_are_text"
SAYS = "not well formed"


def _cells(name: str, time_ns: float, total: float) -> str:
    return (
        f'<th scope="row">{name}</th><td>{time_ns / 1e3:,.1f}</td>'
        f"<td>{time_ns / total * 100:.1f} %</td>"
    )
