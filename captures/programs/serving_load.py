"""The text classifier under a load that does not wait for it, and under one that does.

`--variant rates`: requests come at random (exponential gaps), at several rates up to more than the
server can do. `--variant stall_open`: one request every 5 ms; once the server stops for half a second,
to write its weights. `--variant stall_blocking`: the same plan and the same stop, but the client waits
for each answer before it sends again, as many load generators do.
All write `requests.json`.
"""

from __future__ import annotations

import argparse
import io

import torch
from serving_model import (
    ON_GPU,
    Clock,
    Server,
    Texts,
    check_rows,
    median,
    poisson_plan,
    report,
    save,
    serve_blocking,
    serve_open_loop,
    steady_plan,
)

MAX_BATCH = 32 if ON_GPU else 8
SHARES_OF_CAPACITY = (0.2, 0.5, 0.8, 0.95, 1.25)
REQUESTS = 1500 if ON_GPU else 100
STEADY_PER_S, STEADY_REQUESTS = 200, 1200 if ON_GPU else 200
STALL_AT_NS = 2_000_000_000 if ON_GPU else 300_000_000
STALL_LASTS_NS = 500_000_000 if ON_GPU else 100_000_000


class Stall:
    """Write the weights to a file in memory, once, the first time that it is late enough."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.lasted_ns = 0

    def __call__(self, now_ns: int) -> None:
        if self.lasted_ns or now_ns < STALL_AT_NS:
            return
        clock = Clock()
        while clock() < STALL_LASTS_NS:
            for parameter in self.model.parameters():
                io.BytesIO().write(parameter.detach().view(torch.uint8).cpu().numpy().tobytes())
                if clock() >= STALL_LASTS_NS:
                    break
        self.lasted_ns = clock()


def capacity_per_s(server: Server, texts: Texts) -> float:
    times_ns = []
    for _ in range(20):
        clock = Clock()
        server(texts.ids[:MAX_BATCH])
        times_ns.append(clock())
    return MAX_BATCH / median(times_ns) * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    variants = ("rates", "stall_open", "stall_blocking")
    parser.add_argument("--variant", choices=variants, required=True)
    parser.add_argument("--how", choices=("eager", "graph"), default="eager")
    arguments = parser.parse_args()
    runs = []
    figures: dict[str, object] = {}
    with torch.inference_mode():
        server = Server(arguments.how, most=2 * MAX_BATCH)
        texts = Texts(512, seed=2)
        assert server.agrees(texts.ids[:MAX_BATCH])
        if arguments.variant == "rates":
            capacity = capacity_per_s(server, texts)
            for number, share in enumerate(SHARES_OF_CAPACITY):
                rate = round(share * capacity)
                plan = poisson_plan(REQUESTS, rate, seed=10 + number)
                serve_open_loop(server, texts, plan[:50], MAX_BATCH)
                rows = serve_open_loop(server, texts, plan, MAX_BATCH)
                runs.append(_run(f"poisson_{number}", "open", rate, rows, MAX_BATCH))
            figures["capacity_per_s"] = round(capacity)
        else:
            plan = steady_plan(STEADY_REQUESTS, STEADY_PER_S)
            stall = Stall(server.model)
            if arguments.variant == "stall_open":
                rows = serve_open_loop(server, texts, plan, MAX_BATCH, stall)
            else:
                rows = serve_blocking(server, texts, plan, stall)
            load = arguments.variant.removeprefix("stall_")
            most = MAX_BATCH if load == "open" else 1
            runs.append(_run(arguments.variant, load, STEADY_PER_S, rows, most))
            assert stall.lasted_ns >= STALL_LASTS_NS
            figures["stall_ms"] = round(stall.lasted_ns / 1e6, 1)
    for run in runs:
        check_rows(run["requests"])
    save("requests.json", {"how": arguments.how, "runs": runs})
    report(
        **figures,
        offered_per_s=[run["offered_per_s"] for run in runs],
        median_ms_from_intended=[
            round(median([r["end_ns"] - r["intended_ns"] for r in run["requests"]]) / 1e6, 2)
            for run in runs
        ],
    )


def _run(name: str, load: str, rate: int, rows: list, max_batch: int) -> dict:
    return {
        "name": name,
        "load": load,
        "concurrency": 1 if load == "blocking" else None,
        "max_batch": max_batch,
        "offered_per_s": rate,
        "requests": rows,
    }


if __name__ == "__main__":
    main()
