"""A text classifier that is served at every batch size, and to ever more clients at once.

`service_times.json` holds the time of a batch, from token ids on the host to labels on the host, for
batch sizes 1 to 256, measured in turns. `requests.json` holds runs with 1 to 256 clients, each of
which sends again as soon as it has its answer; the server takes at most MAX_BATCH requests at once.
`--how eager` launches every kernel from Python, `--how graph` replays CUDA graphs.
"""

from __future__ import annotations

import argparse

import torch
from serving_model import (
    MOST,
    ON_GPU,
    Clock,
    Server,
    Texts,
    check_rows,
    median,
    powers_of_two,
    report,
    save,
    serve_closed_loop,
)

SAMPLES = 60 if ON_GPU else 5
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
        sizes = powers_of_two(MOST)

        samples: dict[int, list[int]] = {size: [] for size in sizes}
        for size in sizes:
            for _ in range(3):
                server(texts.ids[:size])
        clock = Clock()
        for _ in range(SAMPLES):
            for size in sizes:
                start_ns = clock()
                server(texts.ids[:size])
                samples[size].append(clock() - start_ns)

        runs = []
        for concurrency in sizes:
            count = max(LEAST_REQUESTS, ROUNDS * concurrency)
            serve_closed_loop(server, texts, concurrency, concurrency * 2, MAX_BATCH)
            rows = serve_closed_loop(server, texts, concurrency, count, MAX_BATCH)
            check_rows(rows)
            runs.append(
                {
                    "name": f"closed_{concurrency}",
                    "load": "closed",
                    "concurrency": concurrency,
                    "max_batch": MAX_BATCH,
                    "offered_per_s": None,
                    "requests": rows,
                }
            )
    batches = [{"batch": size, "samples_ns": samples[size]} for size in sizes]
    save("service_times.json", {"how": arguments.how, "batches": batches})
    save("requests.json", {"how": arguments.how, "runs": runs})
    times_ms = {size: round(median(samples[size]) / 1e6, 3) for size in sizes}
    report(
        median_ms_by_batch=times_ms,
        per_s_by_concurrency={
            run["concurrency"]: round(len(run["requests"]) * 1e9 / run["requests"][-1]["end_ns"])
            for run in runs
        },
    )


if __name__ == "__main__":
    main()
