"""Data-parallel training on two devices, healthy and in three kinds of trouble.

`--variant overlap`     DDP's usual buckets: gradients travel while the backward pass goes on.
`--variant one_bucket`  one bucket for all gradients: nothing can travel before the last one is there.
`--variant straggler`   as overlap, and the last rank works on twice as many tokens.
`--variant late_data`   as overlap, and the last rank's batch takes longer to make than a step.

`--watch nsys` marks a few steps for Nsight Systems: rank 0 opens the capture range, and each rank names
itself by an NVTX range "rank <number>" around the steps. `--watch torch` profiles each rank with
torch.profiler and writes `trace_rank<number>.json`, of which only what runs on the device, its launches,
ranges and collectives are kept. `--watch sweep` times steps for several sizes of bucket and writes
`sweep.json`.

Run alone it starts its own ranks, as torchrun would; under torchrun it takes the rank that it is given.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

# layers, width, tokens on each rank
SIZES = {"wide": (12, 4096, 2048), "narrow": (10, 3072, 2048), "cpu": (3, 32, 16)}
SWEEP_SIZE = {"cuda": (24, 2048, 2048), "cpu": (3, 32, 16)}
DATA_S = 0.006
MIB = 2**20
ONE_BUCKET_MIB = 4096.0
SWEEP_MIB = (0.001, 1.0, 10.0, 25.0, 50.0, 100.0, 1000.0)
SWEEP_ROUNDS, SWEEP_STEPS = 5, 8
WARM_UP_STEPS, STEPS, WATCHED_STEPS = 10, 20, 3
KEPT_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "user_annotation", "gpu_user_annotation")
KEPT_OPERATORS = ("nccl:", "gloo:", "c10d::", "record_param_comms")
KEPT_CALLS = ("Launch", "Synchronize", "Memcpy", "Memset")


def launch(ranks: int) -> int:
    """Start this program once for each rank; the first that fails ends the others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks),
    }
    workers = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]
    status = 0
    try:
        while not status and any(worker.poll() is None for worker in workers):
            status = next((w.returncode for w in workers if w.returncode), 0)
            time.sleep(0.05)
        return status or next((w.returncode for w in workers if w.returncode), 0)
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
                worker.wait()


def make_model(layers: int, width: int, norms: bool) -> nn.Sequential:
    from torch import nn

    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.LayerNorm(width)] if norms else []
        parts += [nn.Linear(width, width, bias=norms), nn.GELU()]
    return nn.Sequential(*parts)


class Rank:
    """One rank: its model, its data, its device."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import torch
        import torch.distributed as dist

        self.arguments = arguments
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.is_last = self.rank == self.world - 1
        self.on_gpu = torch.cuda.is_available() and not arguments.cpu
        number = int(os.environ["LOCAL_RANK"]) % max(1, torch.cuda.device_count())
        self.device = torch.device("cuda", number) if self.on_gpu else torch.device("cpu")
        self.dtype = torch.bfloat16 if self.on_gpu else torch.float32
        if self.on_gpu:
            torch.cuda.set_device(self.device)
        else:
            torch.set_num_threads(1)
        backend = arguments.backend or ("nccl" if self.on_gpu else "gloo")
        own = {"device_id": self.device} if backend == "nccl" else {}
        dist.init_process_group(backend, **own)
        self.store = dist.distributed_c10d._get_default_store()
        self.backend = backend
        torch.manual_seed(11 + self.rank)

    def wait(self) -> None:
        """Let the device finish."""
        import torch

        if self.on_gpu:
            torch.cuda.synchronize()

    def meet(self, name: str) -> None:
        """Wait until every rank is here, without a collective."""
        self.store.add(name, 1)
        while self.store.add(name, 0) < self.world:
            pass

    def leave(self) -> None:
        """The store lives in rank 0, which therefore goes last."""
        if self.rank:
            self.store.add("left", 1)
            return
        while self.store.add("left", 0) < self.world - 1:
            time.sleep(0.01)

    def wrap(self, size: tuple[int, int, int], bucket_mib: float | None, norms: bool = False):
        """A model under DDP, its optimizer and its batch."""
        import torch
        from torch.nn.parallel import DistributedDataParallel

        layers, width, tokens = size
        with self.device:
            model = make_model(layers, width, norms).to(self.dtype)
            if self.arguments.variant == "straggler" and self.is_last:
                tokens *= 2
            batch = torch.randn(tokens, width, dtype=self.dtype)
        more: dict[str, Any] = {} if bucket_mib is None else {"bucket_cap_mb": bucket_mib}
        ddp = DistributedDataParallel(
            model,
            device_ids=[self.device.index] if self.on_gpu else None,
            gradient_as_bucket_view=True,
            **more,
        )
        optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3, foreach=True)
        return ddp, optimizer, batch

    def step(
        self,
        ddp: DistributedDataParallel,
        optimizer: torch.optim.Optimizer,
        batch: torch.Tensor,
        marked: Any = None,
        exchange: bool = True,
    ) -> torch.Tensor:
        """One step; `marked` opens a named range around each of its parts."""
        marked = marked or (lambda name: nullcontext())
        with marked("data"):
            if self.arguments.variant == "late_data" and self.is_last:
                time.sleep(DATA_S)
        with nullcontext() if exchange else ddp.no_sync():
            with marked("forward"):
                loss = ddp(batch).float().square().mean()
            with marked("backward"):
                loss.backward()
        with marked("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def timed(self, parts: tuple, count: int) -> float:
        """Seconds a step, without a profiler, over `count` steps in a row."""
        self.wait()
        self.meet("timing")
        start = time.perf_counter()
        for _ in range(count):
            self.step(*parts)
        self.wait()
        return (time.perf_counter() - start) / count

    # -- what is recorded ---------------------------------------------------------------------------

    def parts(self) -> tuple:
        """Model, optimizer and batch of the chosen variant, warmed up."""
        size = SIZES[self.arguments.size if self.on_gpu else "cpu"]
        one = self.arguments.variant == "one_bucket"
        parts = self.wrap(size, ONE_BUCKET_MIB if one else None)
        for _ in range(WARM_UP_STEPS):
            self.step(*parts)
        return parts

    def report(self, parts: tuple, step_s: float, loss: torch.Tensor) -> None:
        if self.rank:
            return
        told = parts[0]._get_ddp_logging_data()
        result = {
            "ranks": self.world,
            "backend": self.backend,
            "nccl": nccl_version() if self.backend == "nccl" else None,
            "watched_steps": WATCHED_STEPS,
            "gradient_bytes": sum(p.numel() * p.element_size() for p in parts[0].parameters()),
            "bucket_bytes": bytes_of_buckets(told),
            "step_ms_unwatched": round(step_s * 1e3, 3),
            "finite": bool(loss.isfinite()),
        }
        print("RESULT", json.dumps(result), flush=True)

    def watch_nsys(self) -> None:
        import torch
        from torch.cuda import nvtx

        parts = self.parts()
        step_s = self.timed(parts, STEPS)
        if self.rank == 0:
            torch.cuda.profiler.start()
        self.meet("started")
        loss = self.step(*parts)  # the first one after the start is not steady
        self.wait()
        self.meet("steady")
        with nvtx.range(f"rank {self.rank}"):
            for _ in range(WATCHED_STEPS):
                with nvtx.range("step"):
                    loss = self.step(*parts, marked=nvtx.range)
            self.wait()
        self.meet("done")
        if self.rank == 0:
            torch.cuda.profiler.stop()
        self.report(parts, step_s, loss)

    def watch_torch(self) -> None:
        from torch.profiler import ProfilerActivity, profile, record_function, schedule

        parts = self.parts()
        step_s = self.timed(parts, STEPS)
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * self.on_gpu
        before = 3
        with profile(
            activities=activities,
            schedule=schedule(wait=1, warmup=before - 1, active=WATCHED_STEPS, repeat=1),
            record_shapes=True,
        ) as profiler:
            for number in range(before + WATCHED_STEPS):
                loss = self.step(*parts, marked=record_function)
                if number in (before - 1, before + WATCHED_STEPS - 1):
                    self.wait()  # the recorded steps begin and end with a device that is done
                profiler.step()
        file = Path(f"trace_rank{self.rank}.json")
        profiler.export_chrome_trace(str(file))
        trim(file)
        self.report(parts, step_s, loss)

    def watch_sweep(self) -> None:
        """Time steps for each size of bucket, in turns; and without any exchange."""
        import torch
        import torch.distributed as dist

        size = SWEEP_SIZE[self.device.type]
        cases: list[tuple[float | None, bool]] = [(cap, True) for cap in SWEEP_MIB]
        cases += [(25.0, False)]
        built = [self.wrap(size, cap, norms=True) for cap, _ in cases]
        samples: list[list[int]] = [[] for _ in cases]
        for turn in range(1 + SWEEP_ROUNDS):
            for place, (parts, (_, exchange)) in enumerate(zip(built, cases, strict=True)):
                for warm in range(3 if turn == 0 else 2):
                    # DDP settles its buckets in the first exchanging steps.
                    self.step(*parts, None, exchange or turn + warm == 0)
                self.wait()
                dist.barrier()
                for _ in range(SWEEP_STEPS):
                    self.wait()
                    start = time.perf_counter_ns()
                    self.step(*parts, None, exchange)
                    self.wait()
                    if turn:
                        samples[place].append(time.perf_counter_ns() - start)
        if self.rank:
            return
        rows = [
            {
                "bucket_cap_mib": cap if exchange else None,
                "exchange": exchange,
                "bucket_bytes": bytes_of_buckets(parts[0]._get_ddp_logging_data()),
                "step_ns": found,
            }
            for (cap, exchange), parts, found in zip(cases, built, samples, strict=True)
        ]
        parameters = list(built[0][0].module.parameters())
        Path("sweep.json").write_text(
            json.dumps(
                {
                    "ranks": self.world,
                    "device": torch.cuda.get_device_name() if self.on_gpu else "cpu",
                    "torch": torch.__version__,
                    "nccl": nccl_version() if self.backend == "nccl" else None,
                    "layers_width_tokens": size,
                    "parameter_bytes": [p.numel() * p.element_size() for p in parameters],
                    "sweep": rows,
                }
            ).replace('{"bucket_cap_mib"', '\n{"bucket_cap_mib"')
            + "\n",
            encoding="utf-8",
        )
        middle = {
            str(r["bucket_cap_mib"]): sorted(r["step_ns"])[len(r["step_ns"]) // 2] for r in rows
        }
        print("RESULT", json.dumps({"median_step_ns": middle}), flush=True)


def bytes_of_buckets(told: dict[str, Any]) -> list[int]:
    """Sizes of the buckets as DDP reports them: of the rebuilt ones, where it rebuilt them."""
    text = str(told.get("rebuilt_bucket_sizes") or told.get("bucket_sizes") or "")
    return [int(word) for word in text.replace(",", " ").split()]


def nccl_version() -> str:
    import torch

    return ".".join(str(part) for part in torch.cuda.nccl.version())


def trim(file: Path) -> None:
    """Leave of a trace what this recording is about; operators of the model are many and not asked for."""
    trace = json.loads(file.read_text(encoding="utf-8"))
    trace.pop("host_name", None)
    trace.pop("trace_id", None)
    kept = []
    for event in trace["traceEvents"]:
        category, name = event.get("cat", ""), event.get("name", "")
        if (
            category in KEPT_CATEGORIES
            or event.get("ph") == "M"
            or (category == "cpu_op" and name.startswith(KEPT_OPERATORS))
            or (
                category in ("cuda_runtime", "cuda_driver")
                and any(word in name for word in KEPT_CALLS)
            )
        ):
            kept.append(event)
    trace["traceEvents"] = kept
    text = json.dumps(trace).replace('{"ph"', '\n{"ph"')
    file.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--variant", choices=("overlap", "one_bucket", "straggler", "late_data"), default="overlap"
    )
    parser.add_argument("--watch", choices=("nsys", "torch", "sweep"), required=True)
    parser.add_argument("--size", choices=("wide", "narrow"), default="wide")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", help="other than nccl on GPUs and gloo without")
    parser.add_argument("--cpu", action="store_true", help="try it without a GPU, on small shapes")
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        raise SystemExit(launch(arguments.ranks))

    import torch.distributed as dist

    rank = Rank(arguments)
    try:
        {"nsys": rank.watch_nsys, "torch": rank.watch_torch, "sweep": rank.watch_sweep}[
            arguments.watch
        ]()
        rank.leave()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
