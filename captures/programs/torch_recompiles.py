"""The encoder of torch_compiled.py, compiled for exact shapes, given batches at their own lengths.

It is compiled by `aot_eager`: TorchDynamo and AOTAutograd trace it as for the default backend, and no
kernels are generated and tried out, which would take seconds and a hundred times as many events.
"""

from __future__ import annotations

import argparse

import torch
import torch_compiled
import torch_recording as recording
from torch._dynamo.utils import counters


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="try it without a GPU, on small shapes")
    parser.parse_args()

    work = torch_compiled.Work("recompiles")
    work.model = torch.compile(work.plain, dynamic=False, backend="aot_eager")
    work.step(0)
    recording.wait()
    before = counters["stats"]["unique_graphs"]
    profiler = recording.profile_steps(work.step, torch_compiled.PROFILED_STEPS)
    compiled = counters["stats"]["unique_graphs"] - before
    recording.write_trace(profiler)

    for answer, batch in zip(work.answers[1:], work.batches, strict=True):
        ones = torch.ones(batch.shape[0], batch.shape[1], 1, device=batch.device)
        torch.testing.assert_close(answer, work.plain(batch, ones).cpu(), rtol=1e-3, atol=1e-3)
    recording.report(
        {
            "profiled_steps": torch_compiled.PROFILED_STEPS,
            "graphs_before": before,
            "graphs_compiled_while_profiled": compiled,
            "graph_breaks": sum(counters["graph_break"].values()),
            "checksum": round(float(torch.stack(work.answers[1:8]).square().sum()), 1),
        }
    )


if __name__ == "__main__":
    main()
