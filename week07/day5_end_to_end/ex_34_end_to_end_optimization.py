"""Day 5, end to end: latency and throughput.

You write small functions that judge a server as its users see it: how long do they wait, how many
are served, and is the new version better? Section 1 of the lesson, `README.md` in this folder, defines the four times
of a request: intended_ns, sent_ns, start_ns and end_ns. Unless a contract says otherwise, *latency* is
end_ns - intended_ns: how long the user waited.

The library reads a recording: `read_runs` returns the runs of a file by their names, `run_of` returns one of them, and
`moments_of` returns its four times as arrays, in this order:

    intended, sent, start, end = moments_of(run_of(capture, "requests.json", run))
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from profiling_lab import captures
from profiling_lab.captures.program_runs import moments_of, read_runs, run_of
from profiling_lab.errors import CaptureError

# A product this close to a whole number is that number: 55 / 100 * 100 is 55.00000000000001 in binary.
RANK_TOLERANCE = 1e-9

# Stages of a batch in the recordings of the pipeline, in order.
STAGES = ("tokenize", "copy_in", "forward", "copy_out", "postprocess")


def refuses_bad_input(samples: Sequence[float] | np.ndarray, percent: float) -> None:
    """Refuse input that has no percentile. A function that computes one can begin with this call.

    Raises ValueError if there are no samples, if a sample is NaN, or if percent is 0 or less, above 100, or NaN. The
    message has the argument's name, "samples" or "percent", and of percent also the value.

    Example: refuses_bad_input([3.0, 4.0], 0) raises ValueError("percent is 0: …").
    """
    raise NotImplementedError


def percentile(samples: Sequence[float] | np.ndarray, percent: float) -> float:
    """The value that `percent` % of the samples do not exceed, by nearest rank: always a sample.

    samples: n numbers in any order, which stay as they are; sorted, they are x(1), the smallest, to x(n). The result is x(r), where
    r is the smallest integer that is at least 1 and at least percent / 100 · n. A product within RANK_TOLERANCE
    of an integer counts as that integer.
    Source: R. J. Hyndman, Y. Fan, "Sample Quantiles in Statistical Packages", The American
    Statistician 50(4), 1996: type 1.

    Example: of 40, 10, 30, 20 the 50th percentile is 20, and the 51st is 30.
    """
    raise NotImplementedError


def percentile_interval(
    samples: Sequence[float] | np.ndarray, percent: float, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    """(low, high), two samples between which the true percentile lies with at least this confidence. Given.

    Of n independent samples, the number below the true percentile is binomial, whatever their distribution.
    An end is None if there are too few samples to bound the percentile on that side.
    Raises ValueError if there are no samples, if one is NaN, or if percent or confidence is outside its range.
    Source: H. A. David, H. N. Nagaraja, "Order Statistics", 3rd ed., 2003, section 7.1.
    """
    if not 0 < percent < 100 or not 0 < confidence < 1:
        raise ValueError(
            "percent must be between 0 and 100, and confidence between 0 and 1, "
            f"got {percent} and {confidence}"
        )
    ordered = sorted(samples)
    if not ordered or any(math.isnan(sample) for sample in ordered):
        raise ValueError("samples must be numbers, at least one, and none of them NaN")
    tail = (1 - confidence) / 2
    low = high = None
    at_most = np.cumsum(binomial(len(ordered), percent / 100))
    for rank, sample in enumerate(ordered, 1):
        if at_most[rank - 1] <= tail:
            low = float(sample)
        if at_most[rank - 1] >= 1 - tail:
            high = float(sample)
            break
    return low, high


def binomial(n: int, p: float) -> list[float]:
    """The probabilities of 0 … n - 1 successes in n trials of probability p. Given."""
    # In logarithms: the binomial coefficients of a thousand samples do not fit into a float.
    return [
        math.exp(
            math.lgamma(n + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n - k + 1)
            + k * math.log(p)
            + (n - k) * math.log1p(-p)
        )
        for k in range(n)
    ]


def latency_from_intended(capture: str, run: str) -> dict[str, list[int]]:
    """How long users of a run waited, what its client measured, and what the client left out.

    Returns for a run of requests.json three lists in ns, one entry per request, in the file's order:
        "latency_ns"   how long the user waited, from when the request was due
        "measured_ns"  what the client measured, from when it sent the request
        "late_ns"      the difference of the two
    Source of the term "coordinated omission": G. Tene, "How NOT to Measure Latency", QCon San
    Francisco, 2012.

    Example: due at 10, sent at 20, answered at 60: 50, 40 and 10 ns.
    """
    raise NotImplementedError


def littles_law(
    capture: str, run: str, window: tuple[int, int] | None = None
) -> dict[str, float | None]:
    """Both sides of Little's law, L = λ · W, for a window of a run of requests.json.

    A request is in the system from sent_ns to end_ns. window: start and end in ns; without one,
    from the earliest sent_ns to the latest end_ns, wherever they are in the file. Returns
        "in_system_count"   L: the mean number of requests in the system over the window. It is the sum
                            of the times that requests spent in the system inside the window, divided
                            by the window's length
        "rate_per_s"        λ: requests sent in the window (start <= sent_ns < end), per second
        "latency_ns"        W: the mean time in the system of the requests sent in the window, including
                            the part after the window; None if no request was sent in it
        "mismatch_ratio"    (L - λ · W) / L; None if L is 0 or there is no W

    Over the whole run the two sides are equal. Over a part of it they are equal if the system is in
    balance, and unequal if requests pile up.
    Raises ValueError if the window does not end after its start, and the errors of
    `latency_from_intended`.
    Source: J. D. C. Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9(3), 1961.
    """
    raise NotImplementedError


def throughput_latency_curve(capture: str) -> list[dict]:
    """For each run of requests.json: how many requests were served, and how long they took.

    Returns a list of dictionaries, ordered by throughput_per_s (equal ones by run), of
        "run"                its name
        "throughput_per_s"   requests per second, from the earliest sent_ns to the latest end_ns
        "p50_ns", "p99_ns"   percentiles of the latency, by nearest rank
        "mean_batch"         the mean number of requests in a batch. Requests with the same
                             start_ns were in the same batch.

    Example: three requests from 0 to 60 ns in two batches: 5e7 per second, a mean batch of 1.5.
    """
    raise NotImplementedError


def best_batch(capture: str, limit_ns: float, percent: float = 99) -> dict | None:
    """The batch size that serves most requests per second within a limit on its service time.

    Each run of service.json has the fact "batch", a batch size, and the column "service_ns", how
    long batches of that size took. A size is within the limit if the percentile of its service_ns
    (nearest rank) is at most limit_ns. Its throughput is that of a server that runs one such
    batch after the other: batch / mean service time.

    Returns {"batch", "throughput_per_s", "percentile_ns"} of the size within the limit with the
    highest throughput, or of the smallest if several are equal; None if no size is within the limit.

    Example: 2 in 10 ns and 4 in 20 ns, a limit of 15 ns: a batch of 2, 2e8 per second.
    """
    raise NotImplementedError


def token_metrics(capture: str, run: str) -> dict:
    """How long readers waited in a run of tokens.json: first token, time per token, and tokens per second.

    Its columns are sent_ns, when a request was sent, and token_ns, a list for each request: when each of its
    output tokens was complete, in order. Returns
        "ttft_ns"         time to first token, one entry per request
        "inter_token_ns"  all times from one token of a request to its next, in one list, request after
                          request
        "tpot_ns"         time per output token, one entry per request: the time from first to last
                          token, over the number of steps between them; None if it has only one token
        "tokens_per_s"    output tokens of all requests per second, from the earliest sent_ns to the
                          latest token

    Raises CaptureError if the run is unknown (the message lists the runs) or took no time, if a column is
    missing, if there are no requests, if a request has no token, or if its tokens are not in order or come
    before it was sent.
    """
    raise NotImplementedError


def goodput(
    capture: str, run: str, ttft_limit_ns: float, tpot_limit_ns: float
) -> dict[str, float | int]:
    """How many requests per second of a run of tokens.json met two latency limits.

    A request is good if its time to first token and its time per output token (see `token_metrics`)
    are both at most their limits. A request with one token has no time per output token, so only its
    time to first token counts. Returns
        "request_count"      all requests
        "good_count"         the good ones
        "attainment_ratio"   good ones over all
        "goodput_per_s"      good ones per second, from the earliest sent_ns to the latest token

    Raises ValueError if a limit is not above 0, and the errors of `token_metrics`.
    Source of the term: Y. Zhong et al., "DistServe", OSDI 2024.
    """
    raise NotImplementedError


def request_ranges(capture: str) -> list[tuple[int, int, int, int, dict[str, int]]]:
    """The requests of a recorded pipeline, in the order of their numbers. Given.

    Of each: its number, its start_ns and end_ns, the start_ns of the batch in whose range it ends, and for each of
    STAGES the time in ns: the sum over this batch's ranges of that name, each only as far as it overlaps the request.
    Raises CaptureError if there is no request, or if one ends in no batch.
    """
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges.select("name", "start_ns", "end_ns").rows()
    batches = [(start, end) for name, start, end in ranges if re.fullmatch(r"batch \d+", name)]
    out = []
    for name, start, end in ranges:
        if not re.fullmatch(r"request \d+", name):
            continue
        batch = next((batch for batch in batches if batch[0] < end <= batch[1]), None)
        if batch is None:
            raise CaptureError(f"{capture}: {name} ends in no batch")
        spent = dict.fromkeys(STAGES, 0)
        for stage, a, b in ranges:
            if stage in spent and batch[0] <= a and b <= batch[1]:
                spent[stage] += max(0, min(b, end) - max(a, start))
        out.append((int(name.removeprefix("request ")), start, end, batch[0], spent))
    if not out:
        raise CaptureError(f'{capture}: has no NVTX range "request <i>"')
    return sorted(out, key=lambda request: request[0])


def request_breakdown(capture: str) -> list[dict[str, int]]:
    """How each request of a recorded pipeline spent its time.

    `request_ranges` gives the requests, each with the start of its batch and the time of each stage. Returns one
    dictionary per request, in the same order, of
        "request"    its number
        "total_ns"   from its start to its end
        "queue_ns"   from its start to its batch's start; 0 if the batch began earlier
        "<stage>_ns" for each of STAGES its time
        "other_ns"   the rest, so that queue, stages and other add up to the total

    Example: a request from 0 to 100 whose batch began at 30 and whose forward took 50: a queue of 30, other 20.
    """
    raise NotImplementedError


def amdahl_bound(parts_ns: dict[str, float], faster: dict[str, float]) -> float:
    """How many times faster the whole becomes if some of its parts become faster.

    parts_ns: part → time. The parts follow one another and make up the whole. faster: part → how many
    times faster it becomes; math.inf removes it; below 1 it becomes slower. Other parts do not change.
    Returns old time / new time; math.inf if nothing is left.
    Source: G. M. Amdahl, AFIPS Spring Joint Computer Conference, 1967.

    Example: parts of 60 and 40, the first twice as fast: 100 / 70.
    """
    raise NotImplementedError


def simulate_batcher(
    arrival_ns: Sequence[int], service_ns: dict[int, int], max_batch: int, max_wait_ns: int
) -> dict[str, list[int]]:
    """When a dynamic batcher serves each request: an event simulation.

    arrival_ns: when requests arrive, ascending. service_ns: batch size → how long the server works
    on such a batch. If a size is not in the table, the batch is padded: it takes as long as the next
    larger size in the table.

    One server works on one batch at a time, first come, first served. When it is free, it starts a
    batch as soon as max_batch requests wait or the one that waits longest has waited max_wait_ns,
    whichever comes first. The batch takes the requests that have arrived by then (including those that
    arrive at that moment), longest waiting first, at most max_batch. The last requests wait as well,
    because the batcher does not know that no more will come.

    Returns, with one entry per request, "start_ns" and "end_ns" of its batch and "batch", the number of
    requests in it (without padding). Returns empty lists if there are no arrivals.
    Raises ValueError if arrivals are not ascending, if max_batch is below 1 or above the largest size in
    the table, if max_wait_ns is negative, or if the table is empty or has a size below 1 or a time that
    is not above 0.
    """
    raise NotImplementedError


def choose_batcher(
    arrival_ns: Sequence[int],
    service_ns: dict[int, int],
    limit_ns: float,
    max_batches: Sequence[int],
    max_waits_ns: Sequence[int],
    percent: float = 99,
) -> dict | None:
    """The setting of a dynamic batcher that meets a limit on latency with the least work.

    Simulate every pair of max_batches and max_waits_ns (`simulate_batcher`). A setting meets the
    limit if the percentile (nearest rank) of end_ns - arrival is at most limit_ns. The best of these is the
    one whose server is busy for the shortest time, because the rest of its time could serve other requests.
    If several are equal, choose the lower percentile, then the smaller max_batch, then the smaller max_wait_ns.

    Returns {"max_batch", "max_wait_ns", "percentile_ns", "busy_ns"}; busy_ns is the sum of the service
    times of all batches. Returns None if no setting meets the limit.
    Raises ValueError if there are no arrivals or no settings, or if the limit is not above 0, and the
    errors of `simulate_batcher`.
    """
    raise NotImplementedError


def rounds_of(capture: str, run: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The times of each round of a run of evidence.json, in ns: before, after, again. Given.

    A round measured the old program (before), then the new one (after), then the old one again.
    """
    found = run_of(capture, "evidence.json", run)
    before, after, again = (np.array(found[f"{name}_ns"]) for name in ("before", "after", "again"))
    return before, after, again


def evidence_verdict(capture: str, run: str, confidence: float = 0.95) -> dict:
    """Is the program faster after a change than before, by more than the noise of the measurement?

    `rounds_of` gives the times. Compare only within rounds: clocks and other programs change from round to round.
    Returns
        "ratio"          the median over the rounds of after / before (np.median)
        "low_ratio",
        "high_ratio"     the ends of its interval (`percentile_interval`); either may be None
        "noise_ratio"    max(|low - 1|, |high - 1|) of the interval of again / before; None if an end is None
        "verdict"        "undecided" if any end is None, "win" if high_ratio < 1 - noise_ratio,
                         "regression" if low_ratio > 1 + noise_ratio, else "no_win"

    Example: an interval of 0.91 to 0.94 and a noise of 0.05: a win. With a noise of 0.06: no win.
    """
    raise NotImplementedError
