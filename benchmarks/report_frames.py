"""Does a report of 100,000 operations stay fluid?

    uv run --group browser python benchmarks/report_frames.py [--operations N …] [--repeats N]

Writes a report of N operations in 64 lanes, opens it in a headless Chromium without a GPU (1280 × 900),
and moves the view a step each frame: over the whole run, at a hundredth of it, zooming in and out, and
while operations are being looked for by name. Kept for each: every interval between two frames (a screen
of 60 Hz gives 16.7 ms at best), the time that drawing took in it, and the processor time of the page's thread
from frame to frame, which says the same on a busy machine (Chromium's own trace). The target is 50 ms a frame, the
worst included: also of those after the last step, when what is off the screen is drawn. Also kept: how
large the page is, and how long it takes to be written and opened. Raw figures go to
benchmarks/results/report_frames.json.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from profiling_lab.reports import CaptureSection, Lane, MetricSeries, write_report

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RESULT = ROOT / "benchmarks/results/report_frames.json"
LANES = 64
FRAMES = 90
TARGET_MS = 50
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
NAMES = [f"kernel_{number}_with_a_name_of_the_usual_length" for number in range(200)]

TRACED = ["devtools.timeline", "disabled-by-default-devtools.timeline"]

# What happens in each frame, with `at` from 0 to 1 over the frames.
MOVES = {
    "pan the whole run": "view(0.05 * at, 0.95 + 0.05 * at)",
    "pan a hundredth": "view(0.98 * at, 0.98 * at + 0.01)",
    "zoom in and out": "view(0.5 - 0.5 * wide(at), 0.5 + 0.5 * wide(at))",
    "pan while finding": "view(0.05 * at, 0.95 + 0.05 * at)",
}
MEASURE = """
async (frames) => {
  const whole = labTimeline.whole;
  const view = (start, end) => labTimeline.setView(start * whole, end * whole);
  const wide = (at) => Math.exp(-8 * (1 - Math.abs(2 * at - 1)));
  const step = (at) => MOVE;
  const intervals = [], drawing = [];
  let before = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < frames + 20; frame++) {
    const begin = performance.now();
    if (frame < frames) step(frame / (frames - 1));
    await null;  // uPlot draws in a microtask
    await null;
    drawing.push(performance.now() - begin);
    const now = await new Promise(requestAnimationFrame);
    intervals.push(now - before);
    before = now;
  }
  return { intervals, drawing };
}
"""


def section(operations: int, seed: int = 7):
    """A run of kernels, copies, calls and ranges in 64 lanes, dense enough that most are narrow."""
    draw = random.Random(seed)
    kinds = ["kernel"] * 12 + ["copy_in", "copy_out", "memset", "graph"]
    lanes = []
    end_of_all = 0
    for number in range(LANES):
        host = number < LANES // 4
        count = operations // LANES + (number < operations % LANES)
        starts, ends, now = [], [], draw.randrange(1, 50_000)
        for _ in range(count):
            starts.append(now)
            now += draw.randrange(2_000, 40_000)
            ends.append(now)
            now += draw.randrange(100, 5_000)
        end_of_all = max(end_of_all, now)
        lanes.append(
            Lane(
                "Host" if host else f"GPU {number % 4}",
                f"CUDA calls, thread {number}" if host else f"Stream {number}",
                starts,
                ends,
                draw.choices(NAMES, k=count),
                draw.choices(["api", "api", "wait"] if host else kinds, k=count),
                key="api" if host else f"stream:{number}",
                device=None if host else number % 4,
            )
        )
    times = list(range(0, end_of_all, max(1, end_of_all // 5_000)))
    memory = MetricSeries(
        "GPU 0", "In use", times, [draw.random() * 8e10 for _ in times], "bytes", 8e10, True
    )
    return CaptureSection(
        f"{operations:,} operations", window_ns=(0, end_of_all), lanes=lanes, metrics=[memory]
    )


def processor_ms(trace: bytes) -> list[float]:
    """From each frame to the next, how long the page's thread was on a processor."""
    events = json.loads(trace)["traceEvents"]
    frames = [event for event in events if event["name"] == "FireAnimationFrame"]
    thread = frames[0]["pid"], frames[0]["tid"]
    tasks = [
        (event["ts"], event["tdur"] / 1e3)
        for event in events
        if event["name"] == "RunTask" and (event["pid"], event["tid"]) == thread and "tdur" in event
    ]
    # A frame's own task began a little before it.
    starts = sorted(max(at for at, _ in tasks if at <= frame["ts"]) for frame in frames)
    ends = [*starts[1:], float("inf")]
    return [
        sum(ms for at, ms in tasks if start <= at < end)
        for start, end in zip(starts, ends, strict=True)
    ]


def measure(operations: int, repeats: int, folder: Path) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    drawn = section(operations)
    begin = time.perf_counter()
    page_file = write_report(folder / f"{operations}.html", [drawn], title="Frames")
    out: dict[str, Any] = {
        "operations": operations,
        "page_bytes": page_file.stat().st_size,
        "write_s": time.perf_counter() - begin,
        "open_ms": [],
        "moves": {name: [] for name in MOVES},
    }
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        sys.exit("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        out["browser"] = browser.version
        for _ in range(repeats):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(page_file.as_uri())
            page.locator("html[data-ready]").wait_for(state="attached")
            # Until everything is drawn and the page answers.
            out["open_ms"].append(
                page.evaluate(
                    "new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))"
                    ".then(() => performance.now())"
                )
            )
            page.evaluate("document.getElementById('timeline').scrollIntoView()")
            for name, move in MOVES.items():
                if "finding" in name:
                    page.fill("#find", "kernel_17")
                    page.get_by_text(" matches").wait_for()
                browser.start_tracing(page=page, categories=TRACED)
                found = page.evaluate(MEASURE.replace("MOVE", move), FRAMES)
                found["processor"] = processor_ms(browser.stop_tracing())
                out["moves"][name].append(found)
            page.close()
        browser.close()
    return out


def summary(run: dict[str, Any]) -> None:
    print(
        f"{run['operations']:,} operations: page {run['page_bytes'] / 1e6:.1f} MB, written in "
        f"{run['write_s']:.2f} s, open in {statistics.median(run['open_ms']):.0f} ms"
    )
    for name, repeats in run["moves"].items():
        intervals = [ms for repeat in repeats for ms in repeat["intervals"]]
        drawing = [ms for repeat in repeats for ms in repeat["drawing"]]
        processor = [ms for repeat in repeats for ms in repeat["processor"]]
        run.setdefault("summary", {})[name] = said = {
            "frames": len(intervals),
            "median_ms": statistics.median(intervals),
            "worst_ms": max(intervals),
            "over_target": sum(ms > TARGET_MS for ms in intervals),
            "processor_median_ms": statistics.median(processor),
            "processor_worst_ms": max(processor),
            "processor_over_target": sum(ms > TARGET_MS for ms in processor),
            "drawing_median_ms": statistics.median(drawing),
            "drawing_worst_ms": max(drawing),
        }
        print(
            f"  {name:<20} frame median {said['median_ms']:5.1f} ms, worst {said['worst_ms']:5.1f} ms, "
            f"{said['over_target']} of {said['frames']} over {TARGET_MS} ms; processor "
            f"{said['processor_median_ms']:.1f} ms, worst {said['processor_worst_ms']:.1f} ms; drawing "
            f"{said['drawing_median_ms']:.1f} ms, worst {said['drawing_worst_ms']:.1f} ms"
        )


def main() -> None:
    from benchmarks.machine import describe

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [measure(number, options.repeats, Path(folder)) for number in options.operations]
    for run in runs:
        summary(run)
    rounded = json.loads(json.dumps(runs), parse_float=lambda text: round(float(text), 2))
    document = {"machine": describe("playwright"), "target_ms": TARGET_MS, "runs": rounded}
    RESULT.write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
