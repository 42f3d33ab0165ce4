"""Day 5, the technical deep dive: one question, and evidence that anybody can compute again.

The text has three sections:

    diagnosis   Which number is too large, and what limits it?
    result      What did you change? Before and after, and the verdict on one change of `serving_evidence`
    limits      What might not hold elsewhere? What would you measure next?

**A number** has its unit and, at most three words later, the label of its evidence: "4.4 ms [E1]".

    unit        ns, us, ms, s, %, bytes or MB; none for shares, rates and counts
    rounding    by at most 5 %
    unknown     write 0, and the check says what to write
    derived     not "71 % shorter", but the ratio that it comes from
    others      in words, sizes too: "a batch of eight"; names (p99) may have digits

**A piece of evidence** says how to get its number:

    "function"    of ex_30 to ex_34, with a capture as its first parameter; also ex_34.read_runs
    "arguments"   by name
    "pick"        keys and places that lead to the number; "*" is every entry of a list
    "percent"     only for a list of numbers: their percentile, by nearest rank

For example, "The eager server takes 4.4 ms [E1] for a batch of eight" (the median of section 7):

    "E1": {
        "function": "ex_34.read_runs",
        "arguments": {"capture": "serving_sweep_eager", "file": "service.json"},
        "pick": ["batch_8", "service_ns"],
        "percent": 50,
    }

In a class repository the points come from the grader.
"""

from __future__ import annotations


def deep_dive() -> dict:
    """A performance question, answered with evidence, in the form that the head of this file describes.

    Returns a dictionary of
        "question"    about captures of this week; ends with a question mark
        "evidence"    label ("E1", "E2", …) → a piece of evidence; at least three different ones, from at least
                      two captures. Sections cite every label
        "comparison"  {"before": label, "after": label}, of the same function, pick and percent. "result"
                      cites both, "before" first
        "change"      a run of serving_evidence. "result" cites a number of its ex_34.evidence_verdict, says
                      "verdict: win" (or no win, regression, undecided), and names no other verdict
        "sections"    section → text of at least 80 characters and eight different words

    Example: the pick ["ratio"] of ex_34.evidence_verdict is cited as "0.29 of [E3] the old time".
    """
    raise NotImplementedError
