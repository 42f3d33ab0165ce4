"""A text classifier that is served at every batch size, and to ever more clients at once.

`service.json` holds the time of a batch, from token ids on the host to labels on the host, for batch
sizes 1 to 256, measured in turns. `requests.json` holds runs with 1 to 256 clients, each of which
sends again as soon as it has its answer; the server takes at most MAX_BATCH requests at once.
`--how eager` launches every kernel from Python, `--how graph` replays CUDA graphs.
"""

from __future__ import annotations

import argparse

import torch
from serving_model import (
    MOST,
    ON_GPU,
    Server,
    Texts,
    median,
    powers_of_two,
    report,
    save,
    serve_closed_loop,
    service_times,
)

MAX_BATCH = 64 if ON_GPU else 8
LEAST_REQUESTS, ROUNDS = 96, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--how", choices=("eager", "graph"), required=True)
    arguments = parser.parse_args()
    with torch.inference_mode():
        server = Server(arguments.how)
        texts = Texts(MOST, seed=1)
        assert server.agrees(texts.ids[:16])
        service = service_times(server, texts, powers_of_two(MOST))
        runs = []
        for concurrency in powers_of_two(MOST):
            count = max(LEAST_REQUESTS, ROUNDS * concurrency)
            serve_closed_loop(server, texts, concurrency, 2 * concurrency, MAX_BATCH)
            requests = serve_closed_loop(server, texts, concurrency, count, MAX_BATCH)
            requests.check()
            facts = {"loop": "closed", "concurrency": concurrency, "rate_per_s": None}
            run = {"run": f"closed_{concurrency}", **facts, "max_batch": MAX_BATCH}
            runs.append({**run, **requests.columns})
    save("service.json", service)
    save("requests.json", runs)
    report(
        median_ms_by_batch={
            run["batch"]: round(median(run["service_ns"]) / 1e6, 3) for run in service
        },
        per_s_by_concurrency={
            run["concurrency"]: round(len(run["end_ns"]) * 1e9 / run["end_ns"][-1]) for run in runs
        },
    )


if __name__ == "__main__":
    main()
