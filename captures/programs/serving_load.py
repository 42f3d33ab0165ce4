"""The text classifier under a load that does not wait for it, and under one that does.

`requests.json` holds runs of three kinds. `open_<rate>`: requests come at random (exponential gaps),
at rates up to more than the server can do. `stall_open`: one request every 10 ms; once the server stops
for a while, to write its weights. `stall_closed`: the same plan and the same stop, but the client waits
for each answer before it sends again, as many load generators do. `service.json` holds the time of a
batch for each size that the server knows.
`--how eager` launches every kernel from Python, `--how graph` replays CUDA graphs.
"""

from __future__ import annotations

import argparse
import io

import torch
from serving_model import (
    ON_GPU,
    Clock,
    Requests,
    Server,
    Texts,
    median,
    poisson_plan,
    powers_of_two,
    report,
    save,
    serve_blocking,
    serve_open_loop,
    service_times,
    steady_plan,
)

MAX_BATCH = 32 if ON_GPU else 8
SHARES_OF_CAPACITY = (0.2, 0.5, 0.8, 0.95, 1.25)
REQUESTS = 1200 if ON_GPU else 100
STEADY_PER_S, STEADY_REQUESTS = 100, 400 if ON_GPU else 80
STALL_AT_NS = 1_500_000_000 if ON_GPU else 300_000_000
STALL_LASTS_NS = 400_000_000 if ON_GPU else 100_000_000


class Stall:
    """Write the weights into memory, once, the first time that it is late enough."""

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


def run_of(
    name: str, loop: str, rate: float, max_batch: int, requests: Requests
) -> dict[str, object]:
    requests.check()
    concurrency = 1 if loop == "closed" else None
    facts = {"loop": loop, "concurrency": concurrency, "rate_per_s": rate, "max_batch": max_batch}
    return {"run": name, **facts, **requests.columns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--how", choices=("eager", "graph"), required=True)
    arguments = parser.parse_args()
    runs = []
    with torch.inference_mode():
        server = Server(arguments.how, most=MAX_BATCH)
        texts = Texts(512, seed=2)
        assert server.agrees(texts.ids[:MAX_BATCH])
        service = service_times(server, texts, powers_of_two(MAX_BATCH))
        capacity = MAX_BATCH / median(service[-1]["service_ns"]) * 1e9
        for number, share in enumerate(SHARES_OF_CAPACITY):
            rate = round(share * capacity)
            plan = poisson_plan(REQUESTS, rate, seed=10 + number)
            serve_open_loop(server, texts, plan[:50], MAX_BATCH)
            requests = serve_open_loop(server, texts, plan, MAX_BATCH)
            runs.append(run_of(f"open_{rate}", "open", rate, MAX_BATCH, requests))
        stalls = Stall(server.model), Stall(server.model)
        plan = steady_plan(STEADY_REQUESTS, STEADY_PER_S)
        requests = serve_open_loop(server, texts, plan, MAX_BATCH, stalls[0])
        runs.append(run_of("stall_open", "open", STEADY_PER_S, MAX_BATCH, requests))
        requests = serve_blocking(server, texts, plan, stalls[1])
        runs.append(run_of("stall_closed", "closed", STEADY_PER_S, 1, requests))
    save("requests.json", runs)
    save("service.json", service)
    report(
        capacity_per_s=round(capacity),
        stall_ms=[round(stall.lasted_ns / 1e6, 1) for stall in stalls],
        median_ms_from_intended={
            run["run"]: round(
                median([b - a for a, b in zip(run["intended_ns"], run["end_ns"], strict=True)])
                / 1e6,
                2,
            )
            for run in runs
        },
    )


if __name__ == "__main__":
    main()
