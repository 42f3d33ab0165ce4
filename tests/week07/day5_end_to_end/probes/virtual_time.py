"""Run a batcher that is written for asyncio on a clock that moves only when everybody waits."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from typing import Any

MOST_POLLS = 100_000


class Stuck(Exception):
    """Nothing can happen any more, or time stands still."""


class _Selector(selectors.DefaultSelector):
    """Instead of sleeping, moves the loop's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.polls = 0

    def select(self, timeout: float | None = None) -> list:
        if timeout is None:
            raise Stuck("nothing is left that could wake anybody up")
        self.polls = 0 if timeout > 0 else self.polls + 1
        if self.polls > MOST_POLLS:
            raise Stuck("it looks again and again without letting time pass (sleep(0) in a loop?)")
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on which a second takes no time."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        # asyncio runs a timer up to a nanosecond early: who looks at the clock then would see it stand still.
        def on_time() -> None:
            self._virtual.now_s = max(self._virtual.now_s, when)
            callback(*args)

        return super().call_at(when, on_time, context=context)


def simulate(
    module: Any,
    arrival_ns: list[int],
    service_ns: dict[int, int],
    max_batch: int,
    max_wait_ns: float,
    give_up_ns: dict[int, int] | None = None,
    failing: list[int] | None = None,
    short: list[int] | None = None,
    long: list[int] | None = None,
    close_ns: int | None = None,
) -> dict[str, Any]:
    """Let `module.dynamic_batcher` answer requests; request i asks for i and is answered with i².

    service_ns: batch size → time, sizes not in it take as long as the next larger one. give_up_ns:
    when senders give up, by request. failing, short, long: the batches (by number) whose serve raises,
    or returns an answer too few or too many. close_ns: when None is put; without it, after the last answer.

    Returns "batches" ([start in ns, items] each), "most_at_once", and by request "end_ns" and
    "answers" (text for an exception); "returned_ns"; "stuck", a sentence, if it came to nothing.
    """
    loop = VirtualLoop()
    record: dict[str, Any] = {
        "batches": [],
        "most_at_once": 0,
        "end_ns": [None] * len(arrival_ns),
        "answers": [None] * len(arrival_ns),
        "returned_ns": None,
        "stuck": None,
    }
    options = {
        "give_up_ns": give_up_ns or {},
        "failing": failing or [],
        "short": short or [],
        "long": long or [],
        "close_ns": close_ns,
    }
    try:
        loop.run_until_complete(
            _drive(module, record, arrival_ns, service_ns, max_batch, max_wait_ns, **options)
        )
    except Stuck as stuck:
        record["stuck"] = f"{stuck}, at {_ns(loop)} ns"
    finally:
        with contextlib.suppress(BaseException):
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()
    return record


def _ns(loop: asyncio.AbstractEventLoop) -> int:
    return round(loop.time() * 1e9)


async def _drive(
    module: Any,
    record: dict[str, Any],
    arrival_ns: list[int],
    service_ns: dict[int, int],
    max_batch: int,
    max_wait_ns: float,
    *,
    give_up_ns: dict[int, int],
    failing: list[int],
    short: list[int],
    long: list[int],
    close_ns: int | None,
) -> None:
    loop = asyncio.get_running_loop()
    requests: asyncio.Queue = asyncio.Queue()
    at_once = 0

    async def serve(items: list) -> list:
        nonlocal at_once
        number = len(record["batches"])
        record["batches"].append([_ns(loop), list(items)])
        at_once += 1
        record["most_at_once"] = max(record["most_at_once"], at_once)
        size = min((size for size in service_ns if size >= len(items)), default=max(service_ns))
        await asyncio.sleep(service_ns[size] / 1e9)
        at_once -= 1
        if number in failing:
            raise RuntimeError("out of memory")
        answers = [item * item for item in items]
        if number in long:
            answers.append(0)
        return answers[:-1] if number in short else answers

    futures = [loop.create_future() for _ in arrival_ns]

    def note(place: int, future: asyncio.Future) -> None:
        record["end_ns"][place] = _ns(loop)
        if future.cancelled():
            record["answers"][place] = "given up"
        elif error := future.exception():
            record["answers"][place] = f"{type(error).__name__}: {error}"
        else:
            record["answers"][place] = future.result()

    def put(places: list[int]) -> None:
        for place in places:
            requests.put_nowait(module.Request(place, loop.time(), futures[place]))

    for place, future in enumerate(futures):
        future.add_done_callback(lambda future, place=place: note(place, future))
    for at_ns in sorted(set(arrival_ns)):  # a loop does not keep the order of equal moments
        loop.call_at(at_ns / 1e9, put, [i for i, other in enumerate(arrival_ns) if other == at_ns])
    for place, at_ns in give_up_ns.items():
        loop.call_at(at_ns / 1e9, futures[place].cancel)
    batcher = loop.create_task(
        module.dynamic_batcher(requests, serve, max_batch, max_wait_ns / 1e9)
    )
    if close_ns is not None:
        loop.call_at(close_ns / 1e9, requests.put_nowait, None)
    waited: set[asyncio.Future] = {batcher, asyncio.gather(*futures, return_exceptions=True)}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0)
    if batcher.done():
        batcher.result()  # raises what it raised
    elif close_ns is None:
        requests.put_nowait(None)
    await asyncio.wait({batcher}, timeout=1e6)
    if batcher.done():
        batcher.result()
        record["returned_ns"] = _ns(loop)


def run_for_real(module: Any, bursts: list[int], max_batch: int) -> dict[str, Any]:
    """Real time, real work: bursts of requests, each sent while the batch before is worked on.

    Returns "sizes" of the batches, whether the "answers" are right, "late_puts" (bursts that could not
    be sent while a batch was worked on) and whether the batcher "returned".
    """
    import numpy as np

    chance = np.random.default_rng(sum(bursts))
    weights = chance.standard_normal((64, 8))
    items = [chance.standard_normal(64) for _ in range(sum(bursts))]
    sizes: list[int] = []
    sent_while_busy: list[bool] = []

    async def run() -> tuple[list, bool]:
        loop = asyncio.get_running_loop()
        requests: asyncio.Queue = asyncio.Queue()
        futures: list[asyncio.Future] = []
        waiting_bursts = list(bursts)
        busy = False

        def send() -> None:
            for _ in range(waiting_bursts.pop(0)):
                future = loop.create_future()
                item = items[len(futures)]
                requests.put_nowait(module.Request(item, loop.time(), future))
                futures.append(future)

        def send_meanwhile() -> None:
            if waiting_bursts:
                sent_while_busy.append(busy)
                send()

        async def serve(batch: list) -> list:
            nonlocal busy
            busy = True
            sizes.append(len(batch))
            loop.call_soon(send_meanwhile)
            answers = await asyncio.to_thread(lambda: list(np.stack(batch) @ weights))
            busy = False
            return answers

        send()
        batcher = loop.create_task(module.dynamic_batcher(requests, serve, max_batch, 0.002))
        while len(futures) < sum(bursts) or not all(future.done() for future in futures):
            waited = [future for future in futures if not future.done()]
            await asyncio.wait([*waited, batcher], return_when=asyncio.FIRST_COMPLETED)
            if batcher.done():
                batcher.result()
                break
            await asyncio.sleep(0)
        requests.put_nowait(None)
        await asyncio.wait({batcher}, timeout=2)
        if not (returned := batcher.done()):
            batcher.cancel()
        return [future.result() if future.done() else None for future in futures], returned

    answers, returned = asyncio.run(run())
    right = len(answers) == len(items) and all(
        answer is not None and bool(np.allclose(answer, item @ weights))
        for answer, item in zip(answers, items, strict=False)
    )
    late = sum(not busy for busy in sent_while_busy)
    return {"sizes": sizes, "answers": right, "late_puts": late, "returned": returned}
