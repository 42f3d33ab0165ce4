"""Four changes to one server, each measured before, after, and before once more (A/A).

The three are measured in turns, round by round, so that slow changes of the machine touch all alike.
A time is that of one batch, from token ids on the host to labels on the host. `evidence.json` holds a
run a change. Of the change `blocks_tried` > 1 only one of many blocks of rounds is kept: the one that
looks best, as somebody keeps it who repeats a measurement until he likes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from serving_model import ON_GPU, Clock, Server, Texts, median, report, save

BATCH = 8
ROUNDS = 121 if ON_GPU else 16
SHORT, BLOCKS = 15, 40 if ON_GPU else 4
Columns = dict[str, list[int]]
Run = Callable[[], object]


def sample_ns(run: Run) -> int:
    clock = Clock()
    run()
    return clock()


def in_turns(before: Run, after: Run, rounds: int) -> Columns:
    """One sample of before, after and before again in every round."""
    columns: Columns = {"before_ns": [], "after_ns": [], "again_ns": []}
    for _ in range(5):
        before()
        after()
    for _ in range(rounds):
        for name, run in zip(columns, (before, after, before), strict=True):
            columns[name].append(sample_ns(run))
    return columns


def ratio(columns: Columns) -> float:
    pairs = zip(columns["before_ns"], columns["after_ns"], strict=True)
    return median([after / before for before, after in pairs])


def with_benchmark(run: Run) -> Run:
    def changed() -> object:
        torch.backends.cudnn.benchmark = True
        try:
            return run()
        finally:
            torch.backends.cudnn.benchmark = False

    return changed


def with_high_precision(run: Run) -> Run:
    def changed() -> object:
        torch.set_float32_matmul_precision("high")
        try:
            return run()
        finally:
            torch.set_float32_matmul_precision("highest")

    return changed


def with_log(server: Server, ids: torch.Tensor) -> Run:
    log: list[float] = []

    def changed() -> list[int]:
        log.clear()
        x = server.model.embed(ids.to(server.static.device))
        for block in server.model.blocks:
            x = block(x)
            log.append(x.mean().item())
        return server.model.head(x.mean(dim=1)).argmax(dim=-1).tolist()

    return changed


def main() -> None:
    with torch.inference_mode():
        eager, graph = Server("eager", most=BATCH), Server("graph", most=BATCH)
        ids = Texts(BATCH, seed=3).ids

        def serve() -> list[int]:
            return eager(ids)

        def replay() -> list[int]:
            return graph(ids)

        tuned, precise, logged = (
            with_benchmark(serve),
            with_high_precision(serve),
            with_log(eager, ids),
        )
        assert serve() == tuned() == precise() == logged() and graph.agrees(ids)
        blocks = [in_turns(serve, precise, SHORT) for _ in range(BLOCKS)]
        changes: list[tuple[str, str, int, Columns]] = [
            ("the model runs as a CUDA graph", "CUDA graph", 1, in_turns(serve, replay, ROUNDS)),
            ("cuDNN looks for its fastest algorithms", "torch.backends.cudnn.benchmark = True", 1,
             in_turns(serve, tuned, ROUNDS)),
            ("float32 matrix products may use TF32", "set_float32_matmul_precision('high')", BLOCKS,
             min(blocks, key=ratio)),
            ("the mean of every layer's output is read for the log", ".item() in every layer", 1,
             in_turns(serve, logged, ROUNDS)),
        ]  # fmt: skip
    runs: list[dict[str, Any]] = []
    for letter, (what, after, tried, columns) in zip("abcd", changes, strict=True):
        facts = {"what": what, "before": "eager, bfloat16", "after": after, "blocks_tried": tried}
        runs.append({"run": f"change_{letter}", **facts, **columns})
    save("evidence.json", runs)
    report(
        batch=BATCH,
        median_ratio={run["run"]: round(ratio(run), 4) for run in runs},
        median_before_ms=round(median(runs[0]["before_ns"]) / 1e6, 4),
        blocks_below_one=sum(ratio(block) < 1 for block in blocks),
    )


if __name__ == "__main__":
    main()
