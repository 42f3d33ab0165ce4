from __future__ import annotations

CAUGHT_BY = "test_operators_of_drawn_tables"
SAYS = "Total time counts an operator in each one that called it"


def top_operators(
    rows: list[dict[str, Any]], by: str = "device", count: int = 5
) -> list[dict[str, Any]]:
    columns = {
        "device": ("device_time_total", "cuda_time_total"),
        "host": ("cpu_time_total",),
    }
    if by not in columns:
        raise ValueError(f"by is {by!r}: device or host")
    found = []
    for row in rows:
        if row["device_type"] != "CPU" or row["is_user_annotation"]:
            continue
        value = next((row[name] for name in columns[by] if name in row), None)
        if value is None:
            raise ValueError(f"{row['name']} has no column {columns[by][0]}")
        found.append((row, value))
    total = sum(value for _, value in found)
    found.sort(key=lambda pair: -pair[1])
    return [
        {
            "name": row["name"],
            "calls": row["calls"],
            "self_us": value,
            "share_ratio": value / total,
        }
        for row, value in found[:count]
        if value > 0
    ]
