from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_loops"
SAYS = "copies from the host take inside steps"


def _split(capture: str) -> dict[str, int]:
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges
        named = {}
        for name in ("step", "next_batch"):
            rows = ranges.filter(ranges["name"] == name)
            if rows.is_empty():
                raise EmptyCapture(f"{capture}: has no NVTX range named {name!r}")
            named[name] = list(rows.select("start_ns", "end_ns").iter_rows())
        copies = recording.copies
        tables = {
            "kernels": [recording.kernels, recording.graph_launches, recording.memsets],
            "inputs": [copies.filter(copies["kind"] == "H2D")],
            "others": [copies.filter(copies["kind"] != "H2D")],
        }
        on_device = {
            key: [row for frame in frames for row in frame.select("start_ns", "end_ns").iter_rows()]
            for key, frames in tables.items()
        }
    steps = _merged(named["step"])
    waits = _common(_merged(named["next_batch"]), steps)
    busy = _common(_merged([row for rows in on_device.values() for row in rows]), steps)
    inputs = _merged(on_device["inputs"])
    beside = _common(inputs, _merged(on_device["kernels"]))
    return {
        "step_count": len(named["step"]),
        "step_ns": _length(steps),
        "data_wait_ns": _length(waits),
        "device_busy_ns": _length(busy),
        "starved_ns": _length(waits) - _length(_common(waits, busy)),
        "exposed_copy_ns": _length(inputs) - _length(beside),
        "window_ns": steps[-1][1] - steps[0][0],
    }
