"""Large products without a pause, after a while in which the device only counts cycles.

`sick` is a step among many in a row, `fixed` the same step after the device has rested: the work is the
same, and only the clock differs that the device can hold at its limit of power. Nothing is set: no clock
and no limit is changed. A recording with GPU metrics shows the clock.
"""

from __future__ import annotations

import json
import time

import case_recording as recording
import torch

SIZE, PRODUCTS = (64, 2) if recording.SMOKE else (8192, 4)
REST_S = 0.0 if recording.SMOKE else 0.15
COUNTED_CYCLES = 100_000_000


class Products(recording.Work):
    def __init__(self, variant: str) -> None:
        torch.manual_seed(21)
        self.rests = variant == "fixed"
        with recording.DEVICE:
            self.left, self.right = (
                torch.randn(SIZE, SIZE, dtype=recording.DTYPE) for _ in range(2)
            )
        self.product = torch.empty_like(self.left)

    def multiply(self) -> None:
        for _ in range(PRODUCTS):
            torch.mm(self.left, self.right, out=self.product)

    def before_steps(self) -> None:
        """One kernel that counts cycles: next to no power, and so the highest clock."""
        if not recording.SMOKE:
            with recording.marked("light work"):
                torch.cuda._sleep(COUNTED_CYCLES)

    def step(self, number: int) -> None:
        self.multiply()


def measured_ns(work: Products, rested: bool) -> list[int]:
    """Times of a step in ns by the device's own clock, each after a rest, or of the last ones of many."""
    if recording.SMOKE:
        return [recording.time_steps(work, 1)]
    times, count = [], 12 if rested else 400
    for _ in range(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work.step(0)
        end.record()
        if rested:
            end.synchronize()
            time.sleep(REST_S)
        times.append((start, end))
    recording.wait()
    kept = times[1:] if rested else times[-40:]
    return [round(start.elapsed_time(end) * 1e6) for start, end in kept]


def main() -> None:
    arguments = recording.arguments(__doc__ or "")
    work = Products(arguments.variant)
    recording.time_steps(work, 2)
    result = {"fixed_ns": measured_ns(work, True), "sick_ns": measured_ns(work, False)}
    if not recording.SMOKE:
        time.sleep(1.0)
    plan = recording.Plan(recorded_steps=1 if recording.SMOKE else 160)
    recording._record_nsys(work, plan, 0)
    print("RESULT", json.dumps(result | {"variant": arguments.variant}), flush=True)


if __name__ == "__main__":
    main()
