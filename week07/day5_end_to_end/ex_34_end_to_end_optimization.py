"""Day 5, end to end: latency and throughput.

You write small functions that judge a server as its users meet it: how long do they wait, how many
are served, and is the new version better? The lesson is `README.md` in this folder, hints are in
`hints.md`, and

    uv run lab check ex_34

tells what is right and wrong. Most captures of this day are JSON files that a program wrote about
itself; `profiling_lab.captures.text(capture, "requests.json")` gives the text of one.

Four moments of a request, in order, in ns since its run began:

    intended_ns   when its user wanted to send it
    sent_ns       when it was sent (later, if its client was still waiting for an earlier answer)
    start_ns      when the server began to work on the batch that it was in
    end_ns        when the answer was there

Unless something else is said, *latency* is end_ns - intended_ns: what the user met.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from profiling_lab import captures
from profiling_lab.errors import CaptureError

# The form of the JSON files that this course's programs write, and its unit of time.
SCHEMA = 1
UNIT = "ns"

# How `percentile` may choose a value.
METHODS = ("nearest_rank", "linear")

# A product this close to a whole number is that number: 55 / 100 * 100 is 55.00000000000001 in binary.
RANK_TOLERANCE = 1e-9

# Stages of a batch in the recordings of the pipeline, in order.
STAGES = ("tokenize", "copy_in", "forward", "copy_out", "postprocess")


def read_runs(capture: str, file: str) -> dict[str, dict]:
    """The runs that a program wrote into one JSON file of a capture: name → run.

    capture: a capture's name, or the path of its folder. file: "requests.json", "service.json",
    "tokens.json" or "evidence.json". The text (see `profiling_lab.captures.text`) is one object:

        {"schema": 1, "unit": "ns", "runs": [{"run": "open_400", "loop": "open", …, "sent_ns": […]}, …]}

    A run's *columns* are its values that are lists; all columns of a run have one entry a request (or
    a repeat). The rest are facts about the run. A value whose name ends in "_ns" is a column of whole
    numbers, 0 or more, or of lists of such numbers.

    Returns {name: run}, in the file's order, each run as it is in the file, with its "run".
    Raises CaptureError, never an incomplete answer, if the text is no JSON (cut off?) or no such
    object, if the schema is not SCHEMA (true is not 1) or the unit not UNIT (the message holds what
    stands there and what is known), if there are no runs, if a run has no name or a name occurs twice, if a run's
    columns have different lengths (the message holds the run's name), and if an "_ns" value is or
    holds anything else than it may: null, text, NaN, true, a fraction, a negative number (the message
    holds the run's and the value's name).
    """
    raise NotImplementedError


def percentile(samples: Sequence[float], percent: float, method: str = "nearest_rank") -> float:
    """The value that `percent` of 100 samples do not exceed, by a stated method.

    samples: numbers in any order and unit. percent: above 0, at most 100.
    method: with the n samples in order, x(1) the smallest,
        "nearest_rank"  x(r) with r = the smallest whole number that is at least percent / 100 · n:
                        always a sample that occurred (type 1 of Hyndman and Fan)
        "linear"        with h = (n - 1) · percent / 100 + 1, the point between x(floor(h)) and the
                        next that lies h - floor(h) of the way (type 7 of Hyndman and Fan; the default
                        of numpy.percentile)
    In the first, a product within RANK_TOLERANCE of a whole number is that number.

    Raises ValueError for no samples, for a sample that is NaN, for a percent outside (0, 100] or NaN,
    and for an unknown method (the message lists METHODS).
    Source: R. J. Hyndman, Y. Fan, "Sample Quantiles in Statistical Packages", The American
    Statistician 50(4), 1996.
    """
    raise NotImplementedError


def percentile_interval(
    samples: Sequence[float], percent: float, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    """Between which two samples the true percentile lies, with at least this confidence.

    samples: independent samples, n of them, in any order. percent: above 0, below 100.
    confidence: between 0 and 1.

    How many samples fall below the true percentile is binomial, n trials with p = percent / 100,
    whatever the distribution of the samples. F(k): the probability of at most k. With
    tail = (1 - confidence) / 2 and x(1) the smallest sample,
        low   x(l), l the largest rank with F(l - 1) <= tail; None if there is none
        high  x(u), u the smallest rank with F(u - 1) >= 1 - tail; None if there is none in 1 … n
    None says that so few samples cannot bound the percentile on that side.

    Returns (low, high). Raises ValueError for no samples, NaN among them, and a percent or a
    confidence outside its range.
    Source: H. A. David, H. N. Nagaraja, "Order Statistics", 3rd ed., 2003, section 7.1.
    """
    raise NotImplementedError


def latency_from_intended(capture: str, run: str) -> dict[str, list[int]]:
    """What users of a run waited, what its client measured, and what the client left out.

    Of a run of requests.json, three lists in ns, one entry a request, in the file's order:
        "latency_ns"   from intended_ns to end_ns
        "measured_ns"  from sent_ns to end_ns
        "late_ns"      from intended_ns to sent_ns

    Raises CaptureError for an unknown run (the message lists the runs), for a column that is missing
    (named in the message), and for a request whose moments are not in order (the message holds the
    run's name): intended_ns <= sent_ns <= start_ns <= end_ns.
    Source of the term "coordinated omission": G. Tene, "How NOT to Measure Latency", QCon San
    Francisco, 2012.
    """
    raise NotImplementedError


def littles_law(
    capture: str, run: str, window: tuple[int, int] | None = None
) -> dict[str, float | None]:
    """Both sides of Little's law, L = λ · W, for a window of a run of requests.json.

    A request is in the system from sent_ns to end_ns. window: start and end in ns; without one,
    from the earliest sent_ns to the latest end_ns, wherever they stand in the file. Returns
        "in_system_count"   L: requests in the system, on average over the window: the time that
                            requests spent in the system inside the window, added up, over its length
        "rate_per_s"        λ: requests sent in the window (start <= sent_ns < end), a second
        "latency_ns"        W: the mean time in the system of those requests, whole, also the part
                            after the window; None if there are none
        "mismatch_ratio"    (L - λ · W) / L; None if L is 0 or there is no W

    Over the whole run the two sides are equal. Over a part of it they are if the system is in
    balance; if requests pile up, they are not.
    Raises ValueError for a window whose end does not lie after its start, besides the errors of
    `latency_from_intended`.
    Source: J. D. C. Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9(3), 1961.
    """
    raise NotImplementedError


def throughput_latency_curve(capture: str) -> list[dict]:
    """For each run of requests.json: how many requests were served, and how long they took.

    Returns a list of dictionaries, ordered by throughput_per_s (equal ones by run), of
        "run"                its name
        "throughput_per_s"   requests a second, from the earliest sent_ns to the latest end_ns
        "p50_ns", "p99_ns"   percentiles of the latency (from intended_ns), by nearest rank
        "mean_batch"         how many requests a batch held on average. Requests with the same
                             start_ns were in the same batch.

    Raises CaptureError as `latency_from_intended` does, and for a run without requests or one that
    took no time (the message holds its name).
    """
    raise NotImplementedError


def best_batch(capture: str, limit_ns: float, percent: float = 99) -> dict | None:
    """The batch size that serves most requests a second within a limit on its service time.

    Each run of service.json holds the fact "batch", a batch size, and the column "service_ns", how
    long batches of that size took. A size is within the limit if the percentile of its service_ns
    (nearest rank) is at most limit_ns. Its throughput is what a server gives that runs one such
    batch after the other: batch / mean service time.

    Returns {"batch", "throughput_per_s", "percentile_ns"} of the size within the limit with the
    highest throughput, of equal ones the smaller size; None if no size is within the limit.
    Raises ValueError for a limit that is not above 0, and CaptureError (the message holds the run's
    name) for a run whose "batch" is not a whole number above 0, or that has no service_ns, or whose
    times add up to 0.
    """
    raise NotImplementedError


def token_metrics(capture: str, run: str) -> dict:
    """How a run of tokens.json felt to its readers: first token, pace, and tokens a second.

    Its columns: sent_ns, when a request was sent, and token_ns, a list a request: when each of its
    output tokens was there, in order. Returns
        "ttft_ns"         time to first token, one entry a request
        "inter_token_ns"  all times from one token of a request to its next, request after request,
                          in one list
        "tpot_ns"         time per output token, one entry a request: from first to last token, over
                          the number of steps between them; None for a request with one token
        "tokens_per_s"    output tokens of all requests, from the earliest sent_ns to the latest token

    Raises CaptureError for an unknown run (the message lists the runs), for missing columns, for no
    requests, for a request without a token, for tokens that are not in order or come before their
    request was sent, and for a run that took no time.
    """
    raise NotImplementedError


def goodput(
    capture: str, run: str, ttft_limit_ns: float, tpot_limit_ns: float
) -> dict[str, float | int]:
    """How many requests a second of a run of tokens.json kept a promise to their readers.

    A request is good if its time to first token and its time per output token (see `token_metrics`)
    are both within their limits, the limits themselves included. A request with one token has no
    time per output token: only its first token counts. Returns
        "request_count"      all requests
        "good_count"         the good ones
        "attainment_ratio"   good ones over all
        "goodput_per_s"      good ones a second, from the earliest sent_ns to the latest token

    Raises ValueError for a limit that is not above 0, besides the errors of `token_metrics`.
    Source of the term: Y. Zhong et al., "DistServe", OSDI 2024.
    """
    raise NotImplementedError


def request_breakdown(capture: str) -> list[dict[str, int]]:
    """Where the time of each request went, from the NVTX ranges of a Nsight Systems recording.

    capture: a recording with ranges "request <i>" (from arrival to answer), "batch <k>" (the work on
    one batch; they follow one another) and, inside a batch, ranges named as in STAGES. A request
    belongs to the batch in whose range it ends (batch start < request end <= batch end).

    Returns one dictionary a request, in the order of their numbers, of
        "request"    its number
        "total_ns"   the length of its range
        "queue_ns"   from its start to its batch's start; 0 if the batch had begun by then
        "<stage>_ns" for each of STAGES: the part of the ranges of that name inside the batch that
                     lies inside the request's range; 0 where there is none
        "other_ns"   the rest: inside the request, after its batch began, in none of the stages
    so that queue, stages and other add up to the total. A stage's range on the host ends when its
    result is there: the recorded programs wait for the device at its end.

    Raises CaptureError if there is no range of a request, and for a request that ends in no batch
    (the message holds its name).
    """
    raise NotImplementedError


def amdahl_bound(parts_ns: dict[str, float], faster: dict[str, float]) -> float:
    """How many times faster the whole becomes if some of its parts become faster.

    parts_ns: part → time; the parts follow one another and make up the whole. faster: part → how many
    times faster it becomes; math.inf takes it away; below 1 it becomes slower. The rest stays.

    Returns old time / new time; math.inf if nothing is left. Raises ValueError for no parts, for a
    time that is negative, infinite or NaN, for a whole of 0, for a part in `faster` that is not in `parts_ns`
    (named in the message), and for a factor that is not above 0.
    Source: G. M. Amdahl, AFIPS Spring Joint Computer Conference, 1967.
    """
    raise NotImplementedError


def simulate_batcher(
    arrival_ns: Sequence[int], service_ns: dict[int, int], max_batch: int, max_wait_ns: int
) -> dict[str, list[int]]:
    """What a dynamic batcher makes of some requests: an event simulation.

    arrival_ns: when requests arrive, ascending. service_ns: batch size → how long the server works
    on such a batch. A batch whose size is not in the table takes as long as the next larger size
    that is: it is padded.

    One server works on one batch at a time, first come, first served. When it is free it starts a
    batch as soon as max_batch requests wait, or the one that waits longest has waited max_wait_ns,
    whichever comes first. Into the batch go the requests that have arrived by then (at that very
    moment included), longest waiting first, at most max_batch. The last requests wait as well: the
    batcher does not know that no more will come.

    Returns, one entry a request, "start_ns" and "end_ns" of its batch and "batch", the number of
    requests in it (padding not counted). Empty lists for no arrivals.
    Raises ValueError for arrivals that are not ascending, for max_batch below 1 or larger than the
    largest size in the table, for a negative max_wait_ns, and for an empty table or one with a size
    below 1 or a time that is not above 0.
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
    """The setting of a dynamic batcher that keeps a limit on latency with the least work.

    Every pair of max_batches and max_waits_ns is simulated (`simulate_batcher`). A setting keeps the
    limit if the percentile (nearest rank) of end_ns - arrival is at most limit_ns. Of those, the one
    whose server is busy for the shortest time is best: what is left of its time could serve others.
    Equal ones: the lower percentile, then the smaller max_batch, then the smaller max_wait_ns.

    Returns {"max_batch", "max_wait_ns", "percentile_ns", "busy_ns"}, busy_ns being the service times
    of all batches together; None if no setting keeps the limit.
    Raises ValueError for no arrivals, no settings, and a limit that is not above 0, besides the
    errors of `simulate_batcher`.
    """
    raise NotImplementedError


def evidence_verdict(capture: str, run: str, confidence: float = 0.95) -> dict:
    """Is the program after a change faster than before? With the noise of the measurement beside it.

    A run of evidence.json holds the columns before_ns, after_ns and again_ns: in each round the old
    program was measured, the new one, and the old one again. Rounds are what may be compared: clocks
    and neighbours change from round to round. So take, for each round, after / before and, as the
    noise of the measurement, again / before, an A/A comparison. Returns
        "ratio"          median of after / before (percentile 50, "linear"); below 1 is faster
        "low_ratio",
        "high_ratio"     its interval (`percentile_interval`), None where there is none
        "noise_ratio"    how far from 1 the interval of again / before reaches, on the side where it
                         reaches further; None if one of its sides is None
        "verdict"        "win" if high_ratio is below 1 - noise_ratio, "regression" if low_ratio is
                         above 1 + noise_ratio, else "no_win"; "undecided" if any of these three
                         numbers is None: too few rounds to say anything

    Raises CaptureError for an unknown run (the message lists the runs), for a missing column, for no
    rounds and for a time of 0, and ValueError as `percentile_interval` does.
    """
    raise NotImplementedError
