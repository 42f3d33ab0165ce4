"""Measure how training scales: one process, then 1, 2, 4, … of all that are there, in one run.

    python3 scaling_benchmark.py baseline                     one process: batch sizes, phases of a step
    python3 scaling_benchmark.py scaling                      a process on every GPU of this machine
    python3 scaling_benchmark.py scaling --device cpu --processes 8          processes on the CPU, gloo
    torchrun --standalone --nproc-per-node 4 scaling_benchmark.py scaling    the same, started by hand

Under `scaling` a program that was not started by torchrun starts itself through it. All processes are
there from the beginning; the first 1, 2, 4, … of them work, while the others wait on a socket and use no
device. So a run on 8 GPUs measures 1, 2, 4 and 8, and the file says which (`world_sizes`).

Written into the current folder, all times in ns, every sample kept in its order:

baseline.json       `runs`: batch, round, `phases` of each step from the first on ("load": the device waits
                    for the host's data; "copy"; "compute": forward and backward; "optimizer"), and
                    `host_ns`, in which the host issued the step.
scaling.json        `runs`: series, world_size, samples_per_rank; `step_ns` and `alone_ns`, each a list a
                    rank: steps with the gradients exchanged, and steps of the same work without (no_sync).
communication.json  `all_reduce` by size in bytes; `copy` from the first device to the second; `training`
                    by batch and bucket size, with the buckets that DDP made.

Each of them holds `environment`: what it takes to repeat the run. Numbers are random, never zero.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Multicast over NVLink stays off, so that a run needs no fabric manager's rights and is comparable.
VARIABLES = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
for _name, _value in VARIABLES.items():
    os.environ.setdefault(_name, _value)
if os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE") and sys.platform == "linux":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one machine: its name need not resolve
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

SEED = 5
MIB = 2**20
# What is measured where. "samples": (strong, weak per rank, few); a rank's share of the uneven series
# is 5 parts for rank 0 and 3 for each other.
PLANS: dict[str, dict[str, Any]] = {
    "cuda": {
        "width": 4096,
        "layers": 8,
        "batches": [128, 256, 512, 1024, 2048, 4096, 8192, 16384],
        "rounds": 5,
        "round_steps": 20,
        "samples": (8192, 4096, 2048),
        "blocks": 6,
        "steps": 8,
        "reduced": [2**power for power in range(10, 29, 2)],
        "copied": [2**power for power in range(20, 29, 2)],
        "buckets_mib": [1, 25, 100, 1000],
    },
    "cpu": {
        "width": 512,
        "layers": 4,
        "batches": [4, 8, 16, 32, 64, 128, 256, 512],
        "rounds": 4,
        "round_steps": 12,
        "samples": (1024, 64, 128),
        "blocks": 4,
        "steps": 5,
        "reduced": [2**power for power in range(10, 25, 2)],
        "copied": [2**power for power in range(10, 25, 2)],
        "buckets_mib": [1, 25],
    },
}
# Without tensor cores a step takes ten times as long.
SHORT = {"blocks": 4, "steps": 4, "buckets_mib": [25, 1000]}
INPUT_WIDTH = 256
WARM_UP_STEPS = 4
REDUCE_SAMPLES = 12


class Machine:
    """Where the work runs: a device, its clock, a data type."""

    def __init__(self, kind: str, dtype: str, local_rank: int) -> None:
        self.kind = kind
        self.dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
        if kind == "cuda":
            torch.cuda.set_device(local_rank)
            self.device = torch.device("cuda", local_rank)
        else:
            torch.set_num_threads(1)
            self.device = torch.device("cpu")

    def mark(self) -> Any:
        """A moment: an event in the device's queue, or the host's clock where there is no device."""
        if self.kind == "cpu":
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self) -> None:
        """The host waits for the device."""
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def between_ns(self, marks: list[Any]) -> list[int]:
        """The times between moments that follow each other."""
        self.wait()
        if self.kind == "cpu":
            return [two - one for one, two in itertools.pairwise(marks)]
        return [round(one.elapsed_time(two) * 1e6) for one, two in itertools.pairwise(marks)]

    def random(self, *shape: int) -> torch.Tensor:
        """Random numbers on the device."""
        return torch.randn(*shape, device=self.device, dtype=self.dtype)


def shapes(width: int, layers: int) -> list[tuple[int, int]]:
    """The weight matrices of the model: inputs and outputs of each."""
    return [(INPUT_WIDTH, width), *((width, width) for _ in range(layers - 1))]


def new_model(machine: Machine, width: int, layers: int) -> nn.Module:
    """Linear layers without bias, each followed by a ReLU; the same weights in every process."""
    torch.manual_seed(SEED)
    parts: list[nn.Module] = []
    for inputs, outputs in shapes(width, layers):
        parts += [nn.Linear(inputs, outputs, bias=False), nn.ReLU()]
    return nn.Sequential(*parts).to(machine.device, machine.dtype)


def new_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Plain enough that its cost is the traffic of weights, gradients and momenta."""
    return torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)


def loss_of(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
    """The forward pass."""
    return model(data).float().pow(2).mean()


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, data: torch.Tensor) -> None:
    """Forward, backward, optimizer."""
    loss_of(model, data).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


# -- what it takes to repeat a run ---------------------------------------------------------------------


def output_of(*command: str) -> str:
    """What a command prints, without colours; "" where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).strip() if done.returncode == 0 else ""


def cpu_name() -> str:
    """What the processor calls itself."""
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text("utf-8"))
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def environment(machine: Machine, plan: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Hardware, versions, settings and connections."""
    cuda = machine.kind == "cuda"
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if cuda else cpu_name(),
        "device_kind": machine.kind,
        "cpu_count": os.cpu_count(),
        "dtype": dtype,
        "layers": [list(shape) for shape in shapes(plan["width"], plan["layers"])],
        "optimizer": "SGD, momentum 0.9",
        "seed": SEED,
        "threads_per_process_count": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "clock": "events of the device" if cuda else "host, perf_counter",
        "backend": "nccl" if cuda else "gloo",
        "variables": {name: os.environ.get(name, "") for name in VARIABLES},
    }
    if cuda:
        count = torch.cuda.device_count()
        found |= {
            "cuda": torch.version.cuda,
            "driver": output_of(
                "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0"
            ),
            "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
            "device_count": count,
            "peer_access": [
                [one == two or torch.cuda.can_device_access_peer(one, two) for two in range(count)]
                for one in range(count)
            ],
            "topology": output_of("nvidia-smi", "topo", "-m").splitlines(),
            "peer_status": output_of("nvidia-smi", "topo", "-p2p", "r").splitlines(),
        }
    return found


def write(name: str, content: dict[str, Any]) -> None:
    """A file with a line for each run, so that it compresses and compares well."""
    lists = [key for key, value in content.items() if isinstance(value, list)]
    head = {key: value for key, value in content.items() if key not in lists}
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key in lists:
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in content[key])
        parts.append(f"{json.dumps(key)}: [\n{rows}\n]")
    Path(name).write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


# -- one process ---------------------------------------------------------------------------------------


def loader(machine: Machine, how: str, batch: int) -> Callable[[int], torch.Tensor]:
    """Gives the host's batch of a step: from a ring in pinned memory, or made when it is asked for."""
    if how == "late":
        return lambda step: torch.randn(batch, INPUT_WIDTH)
    ring = [torch.randn(batch, INPUT_WIDTH).to(machine.dtype) for _ in range(4)]
    if machine.kind == "cuda":
        ring = [data.pin_memory() for data in ring]
    return lambda step: ring[step % len(ring)]


def measure_batch(machine: Machine, model: nn.Module, how: str, batch: int, steps: int) -> dict:
    """The phases of some steps at a batch size."""
    optimizer = new_optimizer(model)
    load = loader(machine, how, batch)
    marks, issued = [], []
    machine.wait()
    marks.append(machine.mark())
    for step in range(steps):
        began = time.perf_counter_ns()
        data = load(step)
        marks.append(machine.mark())
        data = data.to(machine.device, machine.dtype, non_blocking=True)
        marks.append(machine.mark())
        loss_of(model, data).backward()
        marks.append(machine.mark())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        marks.append(machine.mark())
        issued.append(time.perf_counter_ns() - began)
    times = machine.between_ns(marks)
    phases = [times[at : at + 4] for at in range(0, len(times), 4)]
    return {"phases": phases, "host_ns": issued}


def baseline(arguments: argparse.Namespace, plan: dict[str, Any]) -> None:
    """Sweep batch sizes on one device, several times over."""
    machine = Machine(arguments.device, arguments.dtype, 0)
    model = new_model(machine, plan["width"], plan["layers"])
    runs: list[dict[str, Any]] = []
    for turn in range(plan["rounds"]):
        for batch in plan["batches"]:
            found = measure_batch(machine, model, arguments.loader, batch, plan["round_steps"])
            runs.append({"batch": batch, "round": turn, **found})
    table = {
        "format": 1,
        "unit": "ns",
        "what": "baseline",
        "phase_names": ["load", "copy", "compute", "optimizer"],
        "loader": arguments.loader,
        "environment": environment(machine, plan, arguments.dtype),
        "runs": runs,
    }
    write("baseline.json", table)
    last = [run for run in runs if run["batch"] == plan["batches"][-1]]
    steps = [sum(step) for run in last for step in run["phases"][WARM_UP_STEPS:]]
    print("RESULT", json.dumps({"batch": last[0]["batch"], "step_ns": statistics.median(steps)}))


# -- many processes ------------------------------------------------------------------------------------


class Team:
    """The first `size` processes: a group for gradients and one, on sockets, to start together."""

    def __init__(self, size: int, backend: str) -> None:
        ranks = list(range(size))
        self.size = size
        self.member = dist.get_rank() < size
        self.group: Any = dist.new_group(ranks, backend=backend)
        self.control: Any = dist.new_group(ranks, backend="gloo")

    def together(self, machine: Machine) -> None:
        """Wait for the device, then for the other processes."""
        machine.wait()
        dist.barrier(group=self.control)

    def distributed(self, machine: Machine, model: nn.Module, bucket_mib: int = 25) -> nn.Module:
        """The model with its gradients averaged over the team, in buckets of at most this size."""
        if self.size == 1:
            return model
        devices = [machine.device] if machine.kind == "cuda" else None
        return nn.parallel.DistributedDataParallel(
            model,
            device_ids=devices,
            process_group=self.group,
            bucket_cap_mb=bucket_mib,
            gradient_as_bucket_view=True,
        )


def quiet(model: nn.Module) -> Any:
    """A context in which gradients stay where they are."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return model.no_sync()
    return contextlib.nullcontext()


def shared_out(count: int, parts: list[int]) -> list[int]:
    """Samples of each rank in these proportions, in multiples of 4, together `count`."""
    shares = [count * part // sum(parts) // 4 * 4 for part in parts]
    shares[0] += count - sum(shares)
    return shares


def timed_steps(machine: Machine, step: Callable[[], object], count: int) -> list[int]:
    """Times of steps in a row, from the end of one to the end of the next."""
    marks = [machine.mark()]
    for _ in range(count):
        step()
        marks.append(machine.mark())
    return machine.between_ns(marks)


def measure_series(
    machine: Machine, team: Team, plan: dict[str, Any], samples: list[int]
) -> dict[str, list[int]]:
    """Blocks of steps with and without exchange, in turns, as this process sees them."""
    model = team.distributed(machine, new_model(machine, plan["width"], plan["layers"]))
    optimizer = new_optimizer(model)
    torch.manual_seed(SEED + dist.get_rank())
    data = machine.random(samples[dist.get_rank()], INPUT_WIDTH)

    def step() -> None:
        train_step(model, optimizer, data)

    def step_alone() -> None:
        with quiet(model):
            train_step(model, optimizer, data)

    timed_steps(machine, step, WARM_UP_STEPS)
    found: dict[str, list[int]] = {"step_ns": [], "alone_ns": []}
    for _ in range(plan["blocks"]):
        for name, one in (("step_ns", step), ("alone_ns", step_alone)):
            team.together(machine)
            one()  # the first after a pause is not counted
            found[name] += timed_steps(machine, one, plan["steps"])
    return found


def measure_scaling(machine: Machine, team: Team, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """All series of this number of processes: this process's share of each run."""
    strong, weak, few = plan["samples"]
    equal = [1] * team.size
    series = {
        "a": shared_out(strong, equal),
        "b": [weak] * team.size,
        "c": shared_out(few, equal),
        "d": shared_out(strong, [5, *[3] * (team.size - 1)]),
    }
    runs = []
    if team.size == 1:
        del series["d"]  # one process has nobody to be uneven with
    for name, samples in series.items():
        found = measure_series(machine, team, plan, samples)
        runs.append({"series": name, "world_size": team.size, "samples_per_rank": samples} | found)
    return runs


def measure_reduce(machine: Machine, team: Team, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """One all-reduce by size: each sample is the mean of some calls in a row."""
    rows = []
    for size in plan["reduced"]:
        source = machine.random(size // machine.dtype.itemsize)
        data = source.clone()
        calls = 20 if size <= 2**20 else 5
        samples = []
        for number in range(REDUCE_SAMPLES + 2):
            data.copy_(source)
            team.together(machine)
            dist.all_reduce(data, group=team.group)
            marks = [machine.mark()]
            for _ in range(calls):
                dist.all_reduce(data, group=team.group)
            marks.append(machine.mark())
            if number >= 2:
                samples.append(machine.between_ns(marks)[0] // calls)
            machine.wait()
        rows.append({"world_size": team.size, "bytes": size, "samples_ns": samples})
    return rows


def measure_copy(machine: Machine, team: Team, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """From the first device to the second: a copy between GPUs, half a round trip between processes."""
    rank, rows = dist.get_rank(), []
    if machine.kind == "cuda" and torch.cuda.device_count() < 2:
        return rows
    for size in plan["copied"]:
        data = machine.random(size // machine.dtype.itemsize)
        samples, calls = [], 10
        team.together(machine)
        if machine.kind == "cuda" and rank == 0:
            target = torch.empty_like(data, device="cuda:1")
            for _ in range(REDUCE_SAMPLES + 2):
                machine.wait()
                marks = [machine.mark()]
                for _ in range(calls):
                    target.copy_(data, non_blocking=True)
                marks.append(machine.mark())
                samples.append(machine.between_ns(marks)[0] // calls)
        elif machine.kind == "cpu" and rank < 2:
            for _ in range(REDUCE_SAMPLES + 2):
                began = time.perf_counter_ns()
                for _ in range(calls):
                    for sender in (0, 1):
                        if rank == sender:
                            dist.send(data, 1 - rank, group=team.group)
                        else:
                            dist.recv(data, 1 - rank, group=team.group)
                samples.append((time.perf_counter_ns() - began) // (2 * calls))
        team.together(machine)
        how = "copy between devices" if machine.kind == "cuda" else "half a round trip"
        rows.append({"how": how, "bytes": size, "samples_ns": samples[2:]})
    return rows


def bucket_bytes(model: nn.Module) -> list[int]:
    """The buckets that DDP made of the gradients, in the order in which they are sent; [] unknown."""
    with contextlib.suppress(AttributeError, RuntimeError, ValueError):
        said = model._get_ddp_logging_data()  # type: ignore[operator]
        text = said.get("rebuilt_bucket_sizes") or said.get("bucket_sizes") or ""
        return [int(part) for part in re.findall(r"\d+", str(text))]
    return []


def measure_training(machine: Machine, team: Team, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Steps by batch and bucket size, and the phases of a step without exchange."""
    rows = []
    strong, _, few = plan["samples"]
    for batch in (strong // team.size, few // team.size):
        for bucket_mib in plan["buckets_mib"]:
            model = team.distributed(
                machine, new_model(machine, plan["width"], plan["layers"]), bucket_mib
            )
            optimizer = new_optimizer(model)
            torch.manual_seed(SEED + dist.get_rank())
            data = machine.random(batch, INPUT_WIDTH)
            steps: list[int] = []
            phases: list[list[int]] = []
            for block in range(plan["blocks"] + 1):
                team.together(machine)
                train_step(model, optimizer, data)
                timed = timed_steps(
                    machine, lambda m=model, o=optimizer, d=data: train_step(m, o, d), plan["steps"]
                )
                team.together(machine)
                marks = []
                for _ in range(plan["steps"] + 1):
                    with quiet(model):
                        marks.append(machine.mark())
                        loss = loss_of(model, data)
                        marks.append(machine.mark())
                        loss.backward()
                        marks.append(machine.mark())
                        optimizer.step()
                        optimizer.zero_grad(set_to_none=True)
                marks.append(machine.mark())
                times = machine.between_ns(marks)
                if block:  # DDP makes its buckets anew after the first step
                    steps += timed
                    phases += [times[at : at + 3] for at in range(3, len(times), 3)]
            rows.append(
                {
                    "world_size": team.size,
                    "samples_per_rank": [batch] * team.size,
                    "bucket_cap_mib": bucket_mib,
                    "bucket_bytes": bucket_bytes(model),
                    "gradient_bytes": sum(p.nbytes for p in model.parameters()),
                    "step_ns": steps,
                    "alone_phases_ns": phases,
                }
            )
    return rows


def gathered(mine: Any) -> list[Any]:
    """What each process found, by rank, in process 0; [] in the others."""
    whole = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(mine, whole)
    return whole or []


def of_all(found: list[Any], size: int, lists: list[str]) -> list[dict[str, Any]]:
    """Rows of rank 0, with the named lists as lists of every rank."""
    rows = [dict(row) for row in found[0]]
    for number, row in enumerate(rows):
        for name in lists:
            row[name] = [found[rank][number][name] for rank in range(size)]
    return rows


def slowest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples of a collective: each lasted as long as its slowest rank says."""
    for row in rows:
        row["samples_ns"] = [max(sample) for sample in zip(*row["samples_ns"], strict=True)]
    return rows


def scaling(arguments: argparse.Namespace, plan: dict[str, Any]) -> None:
    """Measure 1, 2, 4, … processes of those that torchrun started."""
    machine = Machine(arguments.device, arguments.dtype, int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    sizes = sorted({min(2**power, world) for power in range(world.bit_length() + 1)})
    runs, reduced, copied, training = [], [], [], []
    head: dict[str, Any] = {"format": 1, "unit": "ns", "world_sizes": []}
    head["environment"] = environment(machine, plan, arguments.dtype) | {"process_count": world}
    for size in sizes:
        team = Team(size, "nccl" if machine.kind == "cuda" else "gloo")
        mine: dict[str, list] = {"runs": [], "reduced": [], "copied": [], "training": []}
        if team.member:
            mine["runs"] = measure_scaling(machine, team, plan)
            if size > 1:
                mine["reduced"] = measure_reduce(machine, team, plan)
                mine["training"] = measure_training(machine, team, plan)
            if size == 2:
                mine["copied"] = measure_copy(machine, team, plan)
        found = gathered(mine)
        if found:
            each = {key: [one[key] for one in found] for key in mine}
            runs += of_all(each["runs"], size, ["step_ns", "alone_ns"])
            reduced += slowest(of_all(each["reduced"], size, ["samples_ns"]))
            training += of_all(each["training"], size, ["step_ns", "alone_phases_ns"])
            copied += each["copied"][0]
            # After each size, so that a process that dies later costs only what came later.
            head["world_sizes"].append(size)
            write("scaling.json", head | {"what": "scaling", "runs": runs})
            tables = {"all_reduce": reduced, "copy": copied, "training": training}
            write("communication.json", head | {"what": "communication"} | tables)
    if dist.get_rank() == 0:
        medians = {
            f"{run['series']}{run['world_size']}": statistics.median(run["step_ns"][0])
            for run in runs
        }
        print("RESULT", json.dumps({"world_sizes": sizes, "step_ns": medians}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Read the arguments; start through torchrun if need be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("baseline", "scaling"))
    parser.add_argument(
        "--device", choices=tuple(PLANS), default=None, help="default: cuda if here"
    )
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default=None)
    parser.add_argument("--processes", type=int, default=0, help="default: one on each GPU, or 2")
    parser.add_argument("--width", type=int, default=0, help="of the model; default: by device")
    parser.add_argument("--loader", choices=("ring", "late"), default="ring", help="of baseline")
    arguments = parser.parse_args()
    arguments.device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU is visible here: use --device cpu")
    arguments.dtype = arguments.dtype or ("bf16" if arguments.device == "cuda" else "fp32")
    plan = dict(PLANS[arguments.device])
    if (arguments.device, arguments.dtype) == ("cuda", "fp32"):
        plan |= SHORT
    if arguments.width:
        plan["width"] = arguments.width
    if arguments.what == "baseline":
        baseline(arguments, plan)
    elif "RANK" in os.environ:
        scaling(arguments, plan)
    else:
        count = torch.cuda.device_count() if arguments.device == "cuda" else 2
        if arguments.device == "cuda" and arguments.processes > count:
            raise SystemExit(f"{arguments.processes} processes, but {count} GPUs are visible here")
        launch = ["--standalone", "--local-addr=127.0.0.1"]
        launch += [f"--nproc-per-node={arguments.processes or count}", *sys.argv]
        command = [sys.executable, "-m", "torch.distributed.run", *launch]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
