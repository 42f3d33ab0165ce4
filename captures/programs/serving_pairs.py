"""Four changes to one server, each measured before and after, and before once more (A/A).

The three series of a case are taken in turns, so that slow changes of the machine touch all alike.
`pairs.json` holds the samples: the time of one batch from token ids on the host to labels on the host.

- `cuda_graph`: the model is replayed as a CUDA graph instead of launched kernel by kernel;
- `cudnn_benchmark`: `torch.backends.cudnn.benchmark = True`;
- `log_every_layer`: the mean of every layer's output is read for the log;
- `best_of_forty`: `after` is, of forty short series of `before`'s own code, the fastest, as somebody
  has who tries forty things and shows the best.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from serving_model import ON_GPU, Clock, Server, Texts, median, report, save

BATCH = 8
SAMPLES = 150 if ON_GPU else 6
SHORT, TRIES = 7, 40 if ON_GPU else 4


def sample_ns(run: Callable[[], object]) -> int:
    clock = Clock()
    run()
    return clock()


def in_turns(before: Callable[[], object], after: Callable[[], object]) -> dict[str, list[int]]:
    """Samples of before, after and before again, one of each in every round."""
    series: dict[str, list[int]] = {"before_ns": [], "after_ns": [], "again_ns": []}
    for _ in range(5):
        before()
        after()
    for _ in range(SAMPLES):
        for name, run in zip(series, (before, after, before), strict=True):
            series[name].append(sample_ns(run))
    return series


def with_benchmark(run: Callable[[], object]) -> Callable[[], object]:
    def changed() -> object:
        torch.backends.cudnn.benchmark = True
        try:
            return run()
        finally:
            torch.backends.cudnn.benchmark = False

    return changed


def with_log(server: Server, ids: torch.Tensor) -> Callable[[], object]:
    log: list[float] = []

    def changed() -> list[int]:
        log.clear()
        x = server.model.embed(ids.to(server.static.device))
        for block in server.model.blocks:
            x = block(x)
            log.append(x.mean().item())
        return server.model.head(x.mean(dim=1)).argmax(dim=-1).tolist()

    return changed


def best_of_many(run: Callable[[], object]) -> dict[str, list[int]]:
    tries = [[sample_ns(run) for _ in range(SHORT)] for _ in range(TRIES + 2)]
    before, again, *candidates = tries
    return {"before_ns": before, "after_ns": min(candidates, key=median), "again_ns": again}


def main() -> None:
    with torch.inference_mode():
        eager, graph = Server("eager", most=BATCH), Server("graph", most=BATCH)
        ids = Texts(BATCH, seed=3).ids

        def serve() -> list[int]:
            return eager(ids)

        logged = with_log(eager, ids)
        assert serve() == logged() == with_benchmark(serve)() and graph.agrees(ids)
        cases = {
            "cuda_graph": in_turns(serve, lambda: graph(ids)),
            "cudnn_benchmark": in_turns(serve, with_benchmark(serve)),
            "log_every_layer": in_turns(serve, logged),
            "best_of_forty": best_of_many(serve),
        }
    save("pairs.json", {"batch": BATCH, "cases": [{"name": n, **c} for n, c in cases.items()]})
    report(
        median_ms={
            name: {key[:-3]: round(median(values) / 1e6, 4) for key, values in case.items()}
            for name, case in cases.items()
        }
    )


if __name__ == "__main__":
    main()
