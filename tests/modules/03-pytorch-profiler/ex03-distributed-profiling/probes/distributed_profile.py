"""What runs beside the learner's `profile_rank`."""

from __future__ import annotations

import datetime
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

TIMEOUT_S = 60  # a guard against hanging ranks


def alone(
    module: ModuleType,
    plan: dict[str, int],
    rank: int,
    world: int,
    fail_at: int | None = None,
    group: bool = True,
) -> dict[str, Any]:
    """Run profile_rank as one rank of a process group that has no others and exchanges nothing.

    Returns what was raised, the order of calls and barriers, the name of the returned file, and of each
    file in the folder which calls it recorded and which rank it says it is.
    """
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    happened: list[str] = []

    def step() -> None:
        number = sum(entry.startswith("call") for entry in happened)
        happened.append(f"call {number}")
        with torch.profiler.record_function(f"call {number}"):
            torch.sin(torch.ones(8))
            if number == fail_at:
                raise ArithmeticError(f"call {number} cannot go on")

    def barrier(*args: Any, **more: Any) -> None:
        happened.append("barrier")

    out: dict[str, Any] = {"raised": None, "returned": None, "files": {}}
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(dist, "barrier", barrier):
        if group:
            dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
        try:
            returned = module.profile_rank(step, folder, **plan)
            out["returned"] = str(returned)[len(folder) :].lstrip("/")
        except (ArithmeticError, ValueError, RuntimeError) as error:
            out["raised"] = type(error).__name__
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
            out["left_on"] = bool(torch.autograd._profiler_enabled())  # type: ignore[attr-defined]
            if out["left_on"]:
                torch.autograd._disable_profiler()  # type: ignore[attr-defined]
        for file in sorted(Path(folder).iterdir()):
            out["files"][file.name] = _recorded(file)
    return out | {"happened": happened}


def _recorded(file: Path) -> dict[str, Any]:
    try:
        trace = json.loads(file.read_text(encoding="utf-8"))
        events = trace["traceEvents"]
    except (OSError, ValueError, LookupError, TypeError):
        return {"calls": None, "rank": None, "world_size": None, "reduced": 0}
    names = [event.get("name", "") for event in events if event.get("cat") == "user_annotation"]
    info = trace.get("distributedInfo", {})
    return {
        "calls": sorted(name for name in names if name.startswith("call ")),
        "rank": info.get("rank"),
        "world_size": info.get("world_size"),
        "reduced": sum("all_reduce" in name for name in names),
    }


RANK = """
import importlib.util, sys, types
import torch
import torch.distributed as dist

# The profiler asks the compiler for one setting; to import the compiler takes longer than all the rest.
config = types.ModuleType("torch._inductor.config")
config.triton = types.SimpleNamespace(cudagraphs=False)
torch._inductor = types.ModuleType("torch._inductor")
torch._inductor.config = config
sys.modules |= {"torch._inductor": torch._inductor, "torch._inductor.config": config}

file, folder, at = sys.argv[1:]
dist.init_process_group("gloo", init_method=at, rank=1, world_size=2)
spec = importlib.util.spec_from_file_location("own", file)
own = importlib.util.module_from_spec(spec)
sys.modules["own"] = own
spec.loader.exec_module(own)

def step():
    with torch.profiler.record_function("call of a pair"):
        dist.all_reduce(torch.ones(1000))

own.profile_rank(step, folder, warmup=1, active=2)
dist.destroy_process_group()
"""


def pair(module: ModuleType) -> dict[str, Any]:
    """Run profile_rank on two ranks that exchange numbers through gloo; returns what each file says.

    Rank 0 is this process, rank 1 another one.
    """
    import torch
    import torch.distributed as dist

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        at = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    paths = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    local = {"GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}

    def step() -> None:
        with torch.profiler.record_function("call of a pair"):
            dist.all_reduce(torch.ones(1000))

    errors: list[str] = []
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, local):
        other = subprocess.Popen(
            [sys.executable, "-c", RANK, str(module.__file__), folder, at],
            env=os.environ | paths,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            limit = datetime.timedelta(seconds=TIMEOUT_S)
            dist.init_process_group("gloo", init_method=at, rank=0, world_size=2, timeout=limit)
            module.profile_rank(step, folder, warmup=1, active=2)
            said = other.communicate(timeout=TIMEOUT_S)[1]
            if other.returncode:
                errors += [line for line in said.splitlines() if line.strip()][-1:]
        finally:
            if other.poll() is None:
                other.kill()
            other.wait()
            if dist.is_initialized():
                dist.destroy_process_group()
        files = {file.name: _recorded(file) for file in sorted(Path(folder).iterdir())}
    return {"errors": errors, "files": files}
