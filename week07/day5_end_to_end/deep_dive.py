"""Day 5, the technical deep dive: one question, and evidence that anybody can compute again.

Choose a question about this week's captures. One of the four changes of `serving_evidence` must belong to it: its
verdict is part of your answer. The numbers come from your own functions, and the text has four sections:

    diagnosis   Which number is too large? What limits it? Which evidence rules out the next best explanation?
    change      What did you change, and what should therefore *not* change?
    result      Before and after, with noise, and the verdict. Did the things that should not change stay the same?
    limits      What would you measure next, and what might not hold elsewhere?

Write the label of its evidence after each number, with at most three words in between: "4.4 ms [E1]". Round to any
number of decimals (not to tens, not to zero), keep the sign, and use the unit of the evidence. Names such as p99 are
allowed, and so are numbers in words.

**A piece of evidence** is a dictionary of

    "function"    a function of ex_30 to ex_34 whose first parameter is a capture; those of ex_34 suffice
    "arguments"   its arguments by name; "capture" is the name of a capture of the course
    "pick"        which part of its result: a list of keys and places, in order. "*" means
                  every entry of a list, [] the whole result
    "percent"     only if the pick is a list of numbers: the value is this percentile of them,
                  by nearest rank
    "value"       the number, with an error of at most half a per cent. If you write 0, the check says what it is
    "unit"        one of UNITS, of the kind that the result's name ends in (_ns, _ratio, _per_s, _count, _bytes)

Two examples, a median of section 8 and one of section 3:

    {"function": "ex_34.read_runs",
     "arguments": {"capture": "serving_sweep_eager", "file": "service.json"},
     "pick": ["batch_8", "service_ns"], "percent": 50, "value": 4.44, "unit": "ms"}
    {"function": "ex_34.request_breakdown", "arguments": {"capture": "pipeline_slow"},
     "pick": ["*", "forward_ns"], "percent": 50, "value": 1.47, "unit": "ms"}

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
SECTIONS = ("diagnosis", "change", "result", "limits")


def deep_dive() -> dict:
    """A performance question, answered with evidence, in the form that the head of this file describes.

    Returns a dictionary of
        "question"    one sentence that ends with a question mark
        "system"      {"gpu": its name, "driver": its version}: the names at the top level of the provenance.json of
                      every capture that you use
        "evidence"    label ("E1", "E2", …) → a piece of evidence; at least four different numbers, from at
                      least two captures. Sections cite every label
        "comparison"  {"before": label, "after": label}: two numbers of the same function, pick, percent
                      and unit, for two captures or runs. "result" cites both,
                      "before" first
        "verdict"     {"capture": …, "run": …, "verdict": …}: what ex_34.evidence_verdict returns for a run
                      of serving_evidence. "result" cites a number of it for this run, and says
                      "win", "no win", "regression" or "undecided"
        "sections"    SECTIONS → text of at least 80 characters and eight different words each

    Example: the pick ["ratio"] of ex_34.evidence_verdict, value 0.288, is cited as "0.29 of [E7] the old time".
    """
    raise NotImplementedError
