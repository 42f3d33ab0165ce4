"""What a recorder costs: the same loops with it and without, in turns.

    recorder_cost.py kineto OUT [NAME…]    PyTorch's profiler is switched on and off in one process
    recorder_cost.py nsys OUT [NAME…]      one process under Nsight Systems, and one without, take turns: before it
                                           records, and while it does
    recorder_cost.py asked OUT [NAME…]     no recorder: all calls of CUDA's two interfaces that a step makes, by name

NAME is a program of pairs.toml (its faulty version), or "micro" for loops that do one thing again and again. OUT gets a
JSON object: by loop the ns a step takes without a recorder and with it, in each turn, and what a step leaves in the
recording. RECORDER_OPTIONS: of torch.profiler, those to switch on (record_shapes,with_stack,profile_memory); of nsys, what
to trace. Runs on the machine with the GPU.
"""

from __future__ import annotations

import collections
import ctypes
import glob
import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness

ROUNDS, TURNS = 300, int(os.environ.get("RECORDER_TURNS", "7"))
OPTIONS = os.environ.get("RECORDER_OPTIONS", "")
COUNTED = {
    "calls": "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME",
    "issuing": "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId WHERE s.value LIKE 'cu%Launch%' OR s.value LIKE 'cu%Mem%Async%' OR s.value LIKE 'cu%Memcpy%'",
    "system": "SELECT COUNT(*) FROM OSRT_API",
}
LAUNCHES = "SELECT r.end - r.start FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId WHERE s.value LIKE 'cu%Launch%'"
NSYS = sorted(Path("/opt/nvidia").glob("nsight-compute/*/host/target-linux-x64/nsys"))


def runtime() -> ctypes.CDLL:
    places = [f"{place}/nvidia/*/lib/libcudart.so.1?" for place in sys.path]
    found = [
        file for p in (*places, "/usr/local/cuda*/lib64/libcudart.so.1?") for file in glob.glob(p)
    ]
    return ctypes.CDLL(found[0])


def loops() -> dict[str, Callable[[], object]]:
    """By name one round of a loop."""
    import numpy
    import torch

    cuda = runtime()
    x = torch.zeros(1, device="cuda")
    host = torch.zeros(1)
    batch, layer = torch.zeros(8, 32, device="cuda"), torch.nn.Linear(32, 32, device="cuda")
    here = ctypes.c_void_p(x.data_ptr())
    there = ctypes.c_void_p(host.data_ptr())
    event, made = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cudaEventCreate(ctypes.byref(event))
    none, four = ctypes.c_void_p(), ctypes.c_size_t(4)
    large = ctypes.c_size_t(1 << 20)
    zero = os.open("/dev/zero", os.O_RDONLY)
    number, context = ctypes.c_int(), ctypes.c_void_p()
    driver = ctypes.CDLL("libcuda.so.1")
    # Twice what a core's second cache holds: what a recorder needs is not there any more.
    much, room = (numpy.ones(4 << 20, dtype=numpy.uint8) for _ in range(2))

    def elsewhere() -> None:
        numpy.copyto(room, much)

    def behind(go: Callable[[], object]) -> Callable[[], object]:
        def both() -> None:
            numpy.copyto(room, much)
            go()

        return both

    def memset() -> None:
        cuda.cudaMemsetAsync(here, 0, four, none)

    def allocate() -> None:
        cuda.cudaMalloc(ctypes.byref(made), large)
        cuda.cudaFree(made)

    def backward() -> None:
        layer(batch).sum().backward()

    import cupy

    with torch.no_grad():
        frozen = torch.nn.Linear(32, 32, device="cuda").requires_grad_(False)
    kernel = cupy.RawKernel('extern "C" __global__ void one(float* a) { a[0] += 1; }', "one")
    array = cupy.zeros(1, dtype=cupy.float32)
    from with_numba import cuda as numba_cuda  # it makes Numba work with a newer NumPy

    @numba_cuda.jit
    def by_numba(a):
        a[0] += 1

    numba_array = numba_cuda.to_device(numpy.zeros(4))
    import jax

    add = jax.jit(lambda a: a + 1)
    value = add(jax.numpy.zeros(1))
    value.block_until_ready()
    return {
        "nothing": cuda.cudaGetLastError,
        "cudaGetDevice": lambda: cuda.cudaGetDevice(ctypes.byref(number)),
        "cuCtxGetCurrent": lambda: driver.cuCtxGetCurrent(ctypes.byref(context)),
        "cudaMemsetAsync": memset,
        "4 MiB moved": elsewhere,
        "4 MiB moved, cudaMemsetAsync": behind(memset),
        "4 MiB moved, cudaStreamSynchronize": behind(lambda: cuda.cudaStreamSynchronize(none)),
        "4 MiB moved, an operator on the device": behind(lambda: x.add_(1)),
        "4 MiB moved, a kernel of CuPy": behind(lambda: kernel((1,), (1,), (array,))),
        "cudaEventRecord": lambda: cuda.cudaEventRecord(event, none),
        "cudaStreamSynchronize": lambda: cuda.cudaStreamSynchronize(none),
        "cudaMemcpy": lambda: cuda.cudaMemcpy(there, here, four, 2),
        "cudaMemcpyAsync": lambda: cuda.cudaMemcpyAsync(there, here, four, 2, none),
        "cudaMalloc and cudaFree": allocate,
        "a kernel of CuPy": lambda: kernel((1,), (1,), (array,)),
        "an expression of CuPy": lambda: array + 1,
        "a kernel of Numba": lambda: by_numba[1, 1](array),
        "a copy of Numba": numba_array.copy_to_host,
        "an operator on the device": lambda: x.add_(1),
        "an operator on the host": lambda: host.add_(1),
        "a layer": lambda: frozen(batch),
        "a layer and its gradient": backward,
        "a value read": x.item,
        "a function of JAX": lambda: add(value),
        "a value of JAX read": lambda: float(add(value)[0]),
        "read of a file": lambda: os.read(zero, 1),
        "read of 64 KiB": lambda: os.read(zero, 1 << 16),
    }


def built(name: str) -> dict[str, tuple[harness.Loop, int]]:
    """By name, loops and how many steps of them are timed at once."""
    if name != "micro":
        pair = harness.plan()[name]
        return {name: (pair.load()(False), pair.recorded_steps)}

    def repeated(go: Callable[[], object]) -> harness.Loop:
        def loop(steps: int):
            for _ in range(steps):
                go()
                yield

        return loop

    return {key: (repeated(go), ROUNDS) for key, go in loops().items()}


def by_kineto(name: str) -> dict[str, dict]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    out: dict[str, dict] = {}
    for key, (loop, steps) in built(name).items():
        harness.timed(loop, harness.WARM_UP)
        row: dict = {"without_ns": [], "with_ns": []}
        for _ in range(TURNS):
            row["without_ns"].append(round(harness.timed(loop, steps) * 1e9 / steps))
            more: dict[str, Any] = dict.fromkeys(filter(None, OPTIONS.split(",")), True)
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], **more) as made:
                torch.cuda.synchronize()
                row["with_ns"].append(round(harness.timed(loop, steps) * 1e9 / steps))
        kinds: collections.Counter = collections.Counter()
        assert made.profiler is not None and made.profiler.kineto_results is not None
        for event in made.profiler.kineto_results.events():
            device = "device" if "CUDA" in str(event.device_type()) else "host"
            called = device == "host" and event.name().startswith("cu")
            kinds["calls" if called else device] += 1
        out[key] = row | {kind: round(count / steps, 2) for kind, count in kinds.items()}
        print(key, out[key], flush=True)
    return out


def asked(name: str) -> dict[str, dict]:
    """By loop and call how often a step makes it: CUPTI says, which calls back for each, those that nobody records too."""
    places = [f"{place}/nvidia/*/lib/libcupti.so.1?" for place in sys.path]
    found = [
        file
        for p in (
            *places,
            "/usr/local/cuda*/lib64/libcupti.so.1?",
            "/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1?",
        )
        for file in glob.glob(p)
    ]
    cupti = ctypes.CDLL(found[0])
    counts: collections.Counter = collections.Counter()
    depth = [0]

    @ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int)
    )
    def called(_, domain, number, data):
        if data[0] == 0:
            counts[domain, number, depth[0] > 0] += 1  # within a call of the other interface
            depth[0] += 1
        else:
            depth[0] -= 1

    known = built(name)
    for loop, steps in known.values():
        harness.timed(loop, max(harness.WARM_UP, steps // 4))
    subscriber = ctypes.c_void_p()
    failed = cupti.cuptiSubscribe(ctypes.byref(subscriber), called, None)
    failed = (
        failed
        or cupti.cuptiEnableDomain(1, subscriber, 1)
        or cupti.cuptiEnableDomain(1, subscriber, 2)
    )
    if failed:
        raise RuntimeError(f"CUPTI: {failed}")
    out = {}
    for key, (loop, steps) in known.items():
        counts.clear()
        depth[0] = 0
        harness.timed(loop, min(steps, 20))
        own = dict(counts)
        row = out[key] = {}
        for (domain, number, inner), count in sorted(own.items(), key=lambda item: -item[1]):
            text = ctypes.c_char_p()
            cupti.cuptiGetCallbackName(domain, number, ctypes.byref(text))
            word = (text.value or b"?").decode().partition("_v")[0]
            row[word + (" (within)" if inner else "")] = round(count / min(steps, 20), 2)
        print(key, row, flush=True)
    return out


def serve(name: str, address: str) -> None:
    """Does what it is told over a socket: NAME to time a loop once, start and stop to record."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(address)
    lines = link.makefile("rw")
    cuda = runtime()
    known = built(name)
    for loop, steps in known.values():
        harness.timed(loop, max(harness.WARM_UP, steps // 4))
    print(json.dumps(list(known)), file=lines, flush=True)
    for line in lines:
        word = line.strip()
        spent = 0.0
        if word == "start":
            cuda.cudaProfilerStart()
        elif word == "stop":
            cuda.cudaProfilerStop()
        elif word == "leave":
            os._exit(0)
        else:
            loop, steps = known[word]
            spent = harness.timed(loop, steps) * 1e9 / steps
        print(round(spent), file=lines, flush=True)


def by_nsys(name: str, folder: Path) -> dict[str, dict]:
    address = str(folder / f"{name}.socket")
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    command = [sys.executable, __file__, "serve", name, address]
    nsys = [
        str(NSYS[-1]), "profile", f"--output={folder / name}", "--sample=none", "--cpuctxsw=none", f"--trace={OPTIONS or 'cuda,nvtx,osrt'}",
        "--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--kill=none",
    ]  # fmt: skip
    log = (folder / f"{name}.log").open("w")
    links, processes = [], []
    for more in ([], nsys):
        processes.append(subprocess.Popen([*more, *command], stdout=log, stderr=log))
        server.settimeout(60)
        links.append(server.accept()[0].makefile("rw"))
    names, _ = [json.loads(link.readline()) for link in links]

    def ask(which: int, word: str) -> int:
        print(word, file=links[which], flush=True)
        return int(links[which].readline())

    out: dict[str, dict] = {n: collections.defaultdict(list) for n in names}
    for recording in (False, True):
        if recording:
            ask(1, "start")
        for n in names:
            for _ in range(TURNS):
                out[n]["without_ns"].append(ask(0, n))
                out[n]["with_ns" if recording else "attached_ns"].append(ask(1, n))
    ask(1, "stop")
    for which in (0, 1):
        print("leave", file=links[which], flush=True)
    processes[0].wait(20)
    processes[1].wait(60)
    made = folder / f"{name}.sqlite"
    subprocess.run([str(NSYS[-1]), "export", "--type=sqlite", f"--output={made}", str(folder / f"{name}.nsys-rep")], capture_output=True, check=False)  # fmt: skip
    if made.is_file() and name != "micro":
        import sqlite3

        with sqlite3.connect(made) as base:
            steps = TURNS * harness.plan()[name].recorded_steps
            for kind, query in COUNTED.items():
                try:
                    out[name][kind] = round(base.execute(query).fetchone()[0] / steps, 2)
                except sqlite3.Error:
                    out[name][kind] = 0
            own = [ns for (ns,) in base.execute(LAUNCHES)]
            out[name]["launch_ns"] = int(statistics.median(own)) if own else 0
    print(name, json.dumps(out), flush=True)
    return out


def main() -> None:
    mode, *rest = sys.argv[1:]
    if mode == "serve":
        serve(*rest)
        return
    if mode == "one":
        found = (asked if OPTIONS == "asked" else by_kineto)(rest[0])
        Path(rest[1]).write_text(json.dumps(found))
        sys.stdout.flush()
        os._exit(0)
    out, found = Path(rest[0]), {}
    folder = Path.cwd()
    for name in rest[1:]:
        try:
            if mode == "nsys":
                found |= by_nsys(name, folder)
            else:
                file = folder / f"{name}.cost"
                own = os.environ | ({"RECORDER_OPTIONS": "asked"} if mode == "asked" else {})
                subprocess.run(
                    [sys.executable, __file__, "one", name, str(file)],
                    check=True,
                    timeout=90,
                    env=own,
                )
                found |= json.loads(file.read_text())
        except Exception as error:  # noqa: BLE001 - the rest goes on
            print(name, type(error).__name__, error, flush=True)
        out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
