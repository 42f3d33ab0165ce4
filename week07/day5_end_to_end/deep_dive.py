"""Day 5, the technical deep dive: one question, and evidence that anybody can compute again.

One change of `serving_evidence` belongs to your answer. Its text has four sections:

    diagnosis   Which number is too large? What limits it? Which evidence rules out the next best explanation?
    change      What did you change, and what should therefore *not* change?
    result      Before and after, with noise, and the verdict. Did the things that should not change stay the same?
    limits      What would you measure next, and what might not hold elsewhere?

After each number write its unit (ns, us, ms, s, %, bytes, MB, or none for shares, rates and counts) and, at most three
words later, the label of its evidence: "4.4 ms [E1]". A number is its value, rounded to the decimals that you write, by
at most 5 %. Write 0 for a number that you do not know yet: the check says what it is. Names such as p99 and numbers in words need no label.

**A piece of evidence** says how to get its number:

    "function"    of ex_30 to ex_34, with a capture as its first parameter; also ex_34.read_runs
    "arguments"   by name
    "pick"        keys and places that lead to the number; "*" is every entry of a list
    "percent"     only for a list of numbers: their percentile, by nearest rank

For example, a median of section 8:

    {"function": "ex_34.read_runs", "arguments": {"capture": "serving_sweep_eager", "file": "service.json"},
     "pick": ["batch_8", "service_ns"], "percent": 50}

In a class repository the points come from the grader.
"""

from __future__ import annotations


def deep_dive() -> dict:
    """A performance question, answered with evidence, in the form that the head of this file describes.

    Returns a dictionary of
        "question"    about captures of this week; ends with a question mark
        "evidence"    label ("E1", "E2", …) → a piece of evidence; at least four different ones, from at least
                      two captures. Sections cite every label
        "comparison"  {"before": label, "after": label}, of the same function, pick and percent. "result"
                      cites both, "before" first
        "verdict"     {"run": …, "verdict": …}: what ex_34.evidence_verdict returns for a run of
                      serving_evidence. "result" cites a number of it for this run, and says
                      "win", "no win", "regression" or "undecided"
        "sections"    section → text of at least 80 characters and eight different words each

    Example: the pick ["ratio"] of ex_34.evidence_verdict is cited as "0.29 of [E7] the old time".
    """
    raise NotImplementedError
