"""Work half done: what is written earns, what is still to do does not, and prints and files are harmless."""

EXERCISE = "scaling_ex01"
EARNS = ("model_flops_utilization",)
SUBMITTED = r'''
import tempfile, threading
from pathlib import Path

from profiling_lab import devices


def throughput(step_ns, batch, warmup_count):
    """Still to do."""
    raise NotImplementedError


def model_flops_utilization(layers, samples_per_s, device, dtype):
    print("looking at", layers)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "notes.txt").write_text("mine")
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start()
    thread.join()
    if not layers or any(len(shape) != 2 or min(shape) < 1 for shape in layers) or samples_per_s <= 0:
        raise ValueError("layers must be pairs of sizes, and a rate is above 0")
    products = [2 * a * b for a, b in layers]
    flops = 3 * sum(products) - products[0]
    return {
        "flops_per_sample_count": flops,
        "utilization_ratio": flops * samples_per_s / devices.get(device).peak(dtype),
    }
'''
