"""Runs `measure_all_reduce` in two processes on two GPUs, beside measurements of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[5]
TIMEOUT_S = 50  # a guard against processes that wait for each other
CALLS = 10
# One machine, and no reduction in the switch: as in the recordings.
SETTINGS = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "GLOO_SOCKET_IFNAME": "lo",
}


def measured(module: ModuleType, sizes: list[int], repeats: int) -> list[dict[str, Any]]:
    """What each of two processes says: "rows" of the learner's function, "own_ns" by size, "raised".

    "raised" is the ValueError of a size that no float32 fits into, asked for first, or None.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as files:
        plan = {"file": module.__file__, "folder": folder, "sizes": sizes, "repeats": repeats}
        path = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])
        environment = {**os.environ, **SETTINGS, "PYTHONPATH": path}
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, json.dumps({**plan, "rank": rank})],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=files.enter_context((Path(folder) / f"errors{rank}").open("w")),
            )
            for rank in (0, 1)
        ]
        try:
            until = time.monotonic() + TIMEOUT_S
            while any(process.poll() is None for process in processes):
                # If one died, the other would wait for it for ever.
                failed = [process for process in processes if process.poll()]
                if failed or time.monotonic() > until:
                    break
                time.sleep(0.05)
            codes = [process.poll() for process in processes]
            if codes != [0, 0]:
                dead = next((rank for rank, code in enumerate(codes) if code), 0)
                said = (Path(folder) / f"errors{dead}").read_text("utf-8").strip().splitlines()
                why = said[-1] if said else "no output"
                raise RuntimeError(f"process {dead} of two ended with {codes[dead]}: {why}")
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        return [
            json.loads((Path(folder) / f"rank{rank}.json").read_text("utf-8")) for rank in (0, 1)
        ]


def _own_ns(size: int) -> float:
    """The median of eleven samples of this probe, in ns."""
    import torch
    import torch.distributed as dist

    data = torch.randn(size // 4, device="cuda")
    found = []
    for _ in range(12):
        dist.barrier()
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(CALLS):
            dist.all_reduce(data)
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) * 1e6 / CALLS)
    slowest = torch.tensor(sorted(found[1:])[5], dtype=torch.float64, device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return float(slowest)


def _process(plan: dict[str, Any]) -> None:
    """One of the two processes."""
    import torch
    import torch.distributed as dist

    from profiling_lab.mine.functions import load_file

    rank, folder = plan["rank"], Path(plan["folder"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    module = load_file(Path(plan["file"]), "learners_file")
    raised = None
    try:
        module.measure_all_reduce([4096, 4098], 2)
    except ValueError as error:
        raised = type(error).__name__
    before = [_own_ns(size) for size in plan["sizes"]]
    rows = module.measure_all_reduce(plan["sizes"], plan["repeats"])
    after = [_own_ns(size) for size in plan["sizes"]]
    found = {"rows": rows, "raised": raised, "own_ns": list(zip(before, after, strict=True))}
    (folder / f"rank{rank}.json").write_text(json.dumps(found), "utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    _process(json.loads(sys.argv[1]))
