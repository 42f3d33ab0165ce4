"""Run the slow pipeline and the learner's with the same texts and weights, on the stand-in or on the GPU."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
import types
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from profiling_lab.mine.functions import load_once

ROOT = Path(__file__).resolve().parents[4]
GIVEN = ROOT / "week07" / "day5_end_to_end" / "pipeline_slow.py"
STAND_IN = Path(__file__).with_name("stand_in_device.py")


TEXTS, WORDS = 43, 300  # of a seed: texts, and short words of the vocabulary


def _load(file: Path) -> ModuleType:
    """The module of a file, the same one each time."""
    return load_once(file, f"_probed_{file.stem}")


class SearchedList(list):
    """A list that counts how often it is searched from its beginning, and how often one goes through it."""

    searches = passes = 0

    def __iter__(self) -> Any:
        self.passes += 1
        return super().__iter__()

    def index(self, *args: Any) -> int:
        self.searches += 1
        return super().index(*args)

    def __contains__(self, value: object) -> bool:
        self.searches += 1
        return super().__contains__(value)

    def count(self, value: object) -> int:
        self.searches += 1
        return super().count(value)


def words_of(count: int) -> list[str]:
    """Words for a vocabulary: short ones, then as many as a tenth with as many letters as a long text."""
    letters = range(280, 500, max(1, 2200 // count))
    return [f"word{number}" for number in range(count)] + [f"{n}".ljust(n, "x") for n in letters]


def texts_of(seed: int, count: int, words: int) -> list[str]:
    """Short and long texts in turns: empty ones, unknown words, capitals, some that are too long.

    Some texts occur twice, and some are one word with as many letters as its neighbour.
    """
    choose = random.Random(seed)
    known = words_of(words)
    texts = []
    for number in range(count):
        length = choose.choice([40, 48, 55] if number % 2 else [1, 2, 4, 5])
        chosen = choose.choices([*known[:words], "strange", "words"], k=length)
        texts.append(("  " if number % 3 else " ").join(chosen).title())
    for number in range(count - 1):
        if number % 6 in (0, 2):
            letters = len(texts[number + 1])
            near = {abs(len(word) - letters): word for word in known[words:]}
            texts[number] = near[min(near)]
    if count > 5:
        for number, text in zip(range(4, count, 6), choose.sample(["", "  "], 2), strict=False):
            texts[number] = text
        texts[1], texts[3] = texts[2], texts[5]
    return texts


def work_of(seed: int, count: int) -> tuple[list[str], list[str]]:
    """The first `count` of the TEXTS of a seed, and the vocabulary."""
    return texts_of(seed, TEXTS, WORDS)[:count], ["<padding>", "<unknown>", *words_of(WORDS)]


def run_pipeline_slow(module: Any, seed: int, count: int, best: int) -> dict:
    """The slow pipeline on the stand-in device, with the first `count` of the texts, and what it counted.

    answers, counts of the device, operations of the model alone, "calls" of the model as [texts, length, whether
    gradients were on], searches in the vocabulary; also the "lengths" of the texts, and those of the "different" ones.
    It does nothing with the learner's module.
    """
    given = _load(GIVEN)

    def pipeline(model: Any, texts: list[str], vocabulary: list[str]) -> Any:
        return given.pipeline_slow(texts, vocabulary, model, "cuda", best)

    texts, vocabulary = work_of(seed, count)
    ids = [tuple(given.tokenize(text, vocabulary)) for text in texts]
    return {
        "lengths": [len(of_text) for of_text in ids],
        "different": [len(of_text) for of_text in set(ids)],
        **_counted(seed, count, pipeline),
    }


def run_pipeline_optimized(module: Any, seed: int, count: int, max_batch: int, best: int) -> dict:
    """The learner's pipeline with the same texts and weights, and what it counted, as of `run_pipeline_slow`."""

    def pipeline(model: Any, texts: list[str], vocabulary: list[str]) -> Any:
        return module.pipeline_optimized(texts, vocabulary, model, "cuda", max_batch, best)

    return _counted(seed, count, pipeline)


def on_the_host(module: Any, seed: int, count: int, max_batch: int, best: int) -> list[dict]:
    """Both pipelines with device="cpu", the same texts and two models; one word of the vocabulary has a capital.

    The second model is in training mode (it has no dropout), called with gradients off, and its words have other places.
    For each model the answers as "slow" and "fast", the "lengths" of the texts and its "modes" before and after, or the
    "error".
    """
    import torch

    given = _load(GIVEN)
    texts, vocabulary = work_of(seed, count)
    vocabulary.append("Strange")
    texts[0] = "strange words"
    lengths = [len(given.tokenize(text, vocabulary)) for text in texts]
    told: list[dict[str, Any]] = []
    for number in (seed, seed + 1):
        torch.manual_seed(number)
        model = given.Classifier(len(vocabulary), labels=20, width=16, heads=2, layers=1)
        first = number == seed
        vocabulary[2:] = vocabulary[2:] if first else vocabulary[:1:-1]
        model.train(not first)
        torch.set_grad_enabled(first)
        try:
            fast = module.pipeline_optimized(texts, vocabulary, model, "cpu", max_batch, best)
        except (AssertionError, RuntimeError) as error:  # what torch raises without a GPU
            told.append({"error": str(error).partition("\n")[0]})
            continue
        finally:
            modes = {
                "torch.is_grad_enabled()": [first, torch.is_grad_enabled()],
                "model.training": [not first, model.training],
            }
            torch.set_grad_enabled(True)
        slow = given.pipeline_slow(texts, vocabulary, model, "cpu", best)
        told.append({"slow": slow, "fast": fast, "lengths": lengths, "modes": modes})
    return told


def _counted(seed: int, count: int, pipeline: Callable[..., Any]) -> dict:
    import torch

    given, stand_in = _load(GIVEN), _load(STAND_IN)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        texts, vocabulary = work_of(seed, count)
        torch.manual_seed(seed)
        model = given.Classifier(len(vocabulary), labels=120, width=16, heads=2, layers=2).eval()
        with torch.no_grad():
            model.head.weight.mul_(6)  # so that probabilities differ
        stand_in.put_on_device(model)
        return _noted(stand_in, model, pipeline, texts, vocabulary)
    finally:
        torch.set_num_threads(threads)


def _noted(
    stand_in: ModuleType,
    model: Any,
    pipeline: Callable[..., Any],
    texts: list[str],
    vocabulary: list[str],
) -> dict:
    import torch

    calls: list[list] = []
    before = after = 0
    model_operations = 0
    searched = SearchedList(vocabulary)
    device = stand_in.Device()

    def note(_: Any, args: tuple, kwargs: dict) -> None:
        nonlocal before
        ids = args[0] if args else kwargs["ids"]
        calls.append([*ids.shape, torch.is_grad_enabled()])
        before = device.counts["operations"]

    def done(*_: Any) -> None:
        nonlocal after, model_operations
        after = device.counts["operations"]
        model_operations += after - before

    hooks = (
        model.register_forward_pre_hook(note, with_kwargs=True),
        model.register_forward_hook(done),
    )
    try:
        with device.active():
            answers = pipeline(model, texts, searched)
        gradients_after = torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
        for hook in hooks:
            hook.remove()
    return {
        "answers": answers,
        "counts": dict(device.counts),
        "model_operations": model_operations,
        "calls": calls,
        "searches": searched.searches,
        "passes": searched.passes,
        "gradients_after": gradients_after,
    }


def on_this_gpu(
    module: Any, seed: int, count: int = 128, max_batch: int = 32, rounds: int = 7
) -> dict:
    """Both pipelines on the GPU of this machine.

    Returns the answers as "slow" and "fast", the copies that the profiler saw of each, what
    `pipeline_on_gpu` said ("told") and called ("calls"), and the median ratio of times taken here.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    given = _load(GIVEN)
    texts, vocabulary = given.example(count, seed)
    torch.manual_seed(seed)
    model = given.Classifier(len(vocabulary), labels=5_000, width=256, heads=8, layers=4)
    model = model.cuda().eval()
    runs = {
        "slow": lambda: given.pipeline_slow(texts, vocabulary, model, "cuda", 5),
        "fast": lambda: module.pipeline_optimized(texts, vocabulary, model, "cuda", max_batch, 5),
    }
    found: dict[str, Any] = {}
    for name, run in runs.items():
        run()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            found[name] = run()
            torch.cuda.synchronize()
        names = [event.name for event in profiler.events() or ()]
        found[f"{name}_copies"] = sum(name.startswith("Memcpy") for name in names)
    calls: list[str] = []

    def noted(name: str, run: Any) -> Any:
        def call() -> object:
            calls.append(name)
            return run()

        return call

    told = module.pipeline_on_gpu(noted("slow", runs["slow"]), noted("fast", runs["fast"]), rounds)
    times: dict[str, list[float]] = {"slow": [], "fast": []}
    for _ in range(rounds):
        for name, run in runs.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times[name].append(time.perf_counter() - start)
    ratios = [slow / fast for slow, fast in zip(times["slow"], times["fast"], strict=True)]
    return {
        **found,
        "told": told,
        "calls": calls,
        "median_ratio": statistics.median(ratios),
        "device": torch.cuda.get_device_name(),
    }


class Clock:
    """A clock that moves when the host works or waits, and a device that works on meanwhile."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.device_free_ns = 0

    def launch(self, host_ns: int, device_ns: int) -> None:
        """The host starts work for the device and goes on."""
        self.device_free_ns = max(self.device_free_ns, self.now_ns) + device_ns
        self.now_ns += host_ns

    def synchronize(self) -> None:
        """The host waits until the device has done everything."""
        self.now_ns = max(self.now_ns, self.device_free_ns)


def speedup_on_paper(module: Any, slow_ns: list[int], fast_ns: list[int], rounds: int) -> dict:
    """`pipeline_speedup` of two functions whose calls take given times on a clock of their own.

    slow_ns, fast_ns: what each call takes on the device, the first of them to warm up; a call returns
    after a tenth of that. Returns what it "told", the order of its "calls" and the "clocks" it read.
    """
    clock, calls = Clock(), []
    times = {"slow": iter(slow_ns), "fast": iter(fast_ns)}

    def call(name: str) -> None:
        calls.append(name)
        device_ns = next(times[name], 1_000_000)
        clock.launch(device_ns // 10, device_ns)

    read: set[str] = set()

    def stand_in_for(name: str) -> Callable[[], float]:
        def now() -> float:
            read.add(name)
            return clock.now_ns if name.endswith("_ns") else clock.now_ns / 1e9

        return now

    clocks = {
        name: stand_in_for(name)
        for base in ("perf_counter", "monotonic", "time")
        for name in (base, f"{base}_ns")
    }
    real = {getattr(time, name): stand_in for name, stand_in in clocks.items()}
    with contextlib.ExitStack() as patches:
        for name, stand_in in clocks.items():
            patches.enter_context(mock.patch.object(time, name, stand_in))
        for name, value in list(vars(module).items()):  # from time import perf_counter
            if isinstance(value, types.BuiltinFunctionType) and value in real:
                patches.enter_context(mock.patch.object(module, name, real[value]))
        told = module.pipeline_speedup(
            lambda: call("slow"), lambda: call("fast"), clock.synchronize, rounds
        )
    return {"told": told, "calls": calls, "clocks": sorted(read)}
