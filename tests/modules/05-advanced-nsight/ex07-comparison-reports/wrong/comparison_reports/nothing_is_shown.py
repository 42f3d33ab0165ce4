from __future__ import annotations

CAUGHT_BY = "test_report_of_results"
SAYS = "no regression shown"


def report(result: Mapping[str, Any], before: str, after: str, most: int = 10) -> str:
    step = result["finding"].subject.removeprefix("range:")
    title = "no regression" if result["verdict"] == "passed" else result["verdict"]
    moved, low, high = (
        f"{100 * result[key]:+.1f} %" for key in ("shift_ratio", "low_ratio", "high_ratio")
    )
    allowed, floor = (f"{100 * result[key]:.1f} %" for key in ("allowed_ratio", "floor_ratio"))
    pieces = list(result["pieces"])
    rows = [_cells(f"`{row['piece'][:60]}`".replace("|", "\\|"), [row]) for row in pieces[:most]]
    if pieces[most:]:
        rows.append(_cells("others", pieces[most:]))
    lines = [
        f"## `{step}`: {title}",
        "",
        f"A step takes {moved} (95 % interval {low} … {high}); allowed {allowed}, "
        f"equal runs differ by {floor}.",
        "",
        f"| piece | `{before}` | `{after}` | change |",
        "|---|---:|---:|---:|",
        *rows,
        _cells("all", pieces),
    ]
    return "".join(f"{line}\n" for line in lines)
