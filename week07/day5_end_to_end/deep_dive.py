"""Day 5, the technical deep dive: one question, and evidence that anybody can compute again.

Choose a question about this week's captures that you could be asked in a review. Answer it with numbers from your own
functions, in five sections:

    situation   What does the program do, and which number is too large?
    diagnosis   What limits it? Which evidence rules out the next best explanation?
    change      What did you change, and what should therefore *not* change?
    result      Before and after, with noise. Did the things that should not change stay the same?
    limits      What would you measure next, and what might not hold elsewhere?

Write the label of its evidence after each number, with at most three words in between: "4.4 ms [E1]". Round the number
as you like (but not to zero), keep its sign, and use the unit of the evidence. A number without a label is refused, also in
dates and versions. Names such as p99 and H200 are allowed, and so are numbers in words.

**A piece of evidence** is a dictionary of

    "function"    a function of ex_30 to ex_34 whose first parameter is a capture
    "arguments"   its arguments by name; "capture" is the name of a capture of the course
    "pick"        which part of its result: a list of keys and places, in order. "*" means
                  every entry of a list, [] the whole result
    "percent"     only if the pick is a list of numbers: the value is this percentile of them,
                  by nearest rank
    "value"       the number, with an error of at most half a per cent. If you write 0, the check says what it is
    "unit"        one of UNITS. If the result's name ends in a unit (_ns, _ratio, _per_s, _count,
                  _bytes), the unit must be of the same kind

For example, the median time of a batch of eight on the server of section 9:

    {"function": "ex_34.read_runs",
     "arguments": {"capture": "serving_sweep_eager", "file": "service.json"},
     "pick": ["batch_8", "service_ns"], "percent": 50, "value": 4.44, "unit": "ms"}

and the median of a part of all requests in section 3: {"function": "ex_34.request_breakdown", "arguments": {"capture":
"pipeline_slow"}, "pick": ["*", "forward_ns"], "percent": 50, "value": 1.47, "unit": "ms"}.

A class repository computes with the given functions and your own; there the points come from the grader.
"""

from __future__ import annotations

# What a number of the evidence may be given in, and how much one of it is in the unit that a function
# returns: times are in ns there, shares are ratios.
UNITS = {
    "ns": 1.0,
    "us": 1e3,
    "ms": 1e6,
    "s": 1e9,
    "ratio": 1.0,
    "pct": 0.01,
    "per_s": 1.0,
    "count": 1.0,
    "bytes": 1.0,
    "mb": 1e6,
}

# The parts of the text, in order.
SECTIONS = ("situation", "diagnosis", "change", "result", "limits")


def deep_dive() -> dict:
    """A performance question, answered with evidence, in the form that the head of this file describes.

    Returns a dictionary of
        "question"    one sentence that ends with a question mark
        "system"      {"gpu": its name, "driver": its version} as in the provenance.json of every capture that you use
        "evidence"    label ("E1", "E2", …) → a piece of evidence; at least six different numbers, from at
                      least two captures. Sections cite every label
        "comparison"  {"before": label, "after": label}: two numbers of the same function, pick, percent
                      and unit, for two captures or runs. "result" cites both,
                      "before" first
        "verdict"     {"capture": …, "run": …, "verdict": …}: what ex_34.evidence_verdict returns for a run
                      of an evidence.json. "result" cites a number of it for this run
        "sections"    SECTIONS → text of at least 150 characters and twelve different words each

    Example: {"function": "ex_30.utilization", "arguments": {"capture": "decode_eager"}, "pick": [0],
    "value": 10.74, "unit": "pct"} is cited as "busy for 10.7 % [E7]".
    """
    raise NotImplementedError
