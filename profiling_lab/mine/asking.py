"""Ask every function of the course that can speak about a run, and put together what they say.

    >>> from functools import partial
    >>> from profiling_lab.mine import asking
    >>> from profiling_lab.captures import inputs
    >>> [run] = inputs.runs(inputs.read(["overlap_legacy"]))
    >>> verdict = asking.ask_all(run, partial(functions_for, against="solutions"))
    >>> verdict.findings[0].category
    'serialized_streams'

Which function is asked about what is in `QUESTIONS` (`profiling_lab.mine.questions`). Each looks at its own causes and says what
would be saved without the worst of them. What all of them said is put in order by `diagnose_run` of the
exercise `case_files`; until that is written, by `profiling_lab.diagnosis.combining`, which also adds a function's
other causes, each taken away alone, behind its own finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.captures import Kind, inputs
from profiling_lab.diagnosis import combining
from profiling_lab.diagnosis.combining import Said
from profiling_lab.errors import CaptureError, EmptyCapture, LabError
from profiling_lab.findings import Finding, base_name
from profiling_lab.mine import kernels
from profiling_lab.mine.diagnosis import Busy, Diagnosis, diagnose, misfit
from profiling_lab.mine.functions import Functions, FunctionUnavailable
from profiling_lab.mine.kernels_alone import times_alone
from profiling_lab.mine.questions import (
    QUESTIONS,
    RANK_FUNCTIONS,
    Question,
    is_one_job,
    is_whole,
    of_ranks,
    recording,
)

if TYPE_CHECKING:
    from profiling_lab.captures import Part

UNJUDGED = "whether ranks wait for each other cannot be judged"
MOST_RANKS = 6  # that a sentence lists


@dataclass
class Verdict:
    """What was found in one run.

    findings: the main one first; empty where no function gave an answer.
    unanswered: a sentence a function that gave no answer. todo: those of them still to do.
    tasks: the id of the task that teaches a function. further: those that further tasks teach. diagnoses: the details of timelines.
    unjudged: why it could not be judged whether ranks wait for each other, a sentence; "" if it was, or
    there is one rank. It is in the recommendation of the first finding on the run, too.
    by_rank: what the trace of each rank says alone, by "rank:<number>", its collectives as recorded.
    """

    findings: list[Finding] = field(default_factory=list)
    unanswered: dict[str, str] = field(default_factory=dict)
    todo: set[str] = field(default_factory=set)
    tasks: dict[str, str] = field(default_factory=dict)
    further: set[str] = field(default_factory=set)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    unjudged: str = ""
    by_rank: dict[str, Finding] = field(default_factory=dict)

    @property
    def optional(self) -> set[str]:
        """The functions still to do that further tasks teach: nothing on the path needs them."""
        return self.further & self.todo

    def explain_unanswered(self) -> list[str]:
        """A sentence for all functions still to do, and one for each that gave another reason."""
        names = [self.tasks.get(name, name) for name in self.unanswered if name in self.todo]
        out = [f"still to do: {', '.join(names)}"] if names else []
        return out + [text for name, text in self.unanswered.items() if name not in self.todo]


def range_fits(parts: Sequence[Part], nvtx_range: str | None) -> None:
    """Raise LabError if a range is given for a capture that has none."""
    for part in parts:
        if nvtx_range is not None and part.kind != Kind.TIMELINE:
            raise LabError(
                f"--range belongs to timelines; {part.name} is a capture of kind {part.kind}"
            )


def ask_all(
    parts: Sequence[Part],
    functions_for: Callable[[str], Functions],
    nvtx_range: str | None = None,
) -> Verdict:
    """Ask about the captures of one run (see `profiling_lab.captures.inputs.runs`).

    functions_for: the functions of an exercise, by its id. nvtx_range: look at the NVTX ranges of this
    name only, with the functions that can: those of `ex_30`.
    Raises CaptureError for a capture that cannot be read or lacks the range, LabError where the
    functions of a first question are nowhere to be found.
    """
    range_fits(parts, nvtx_range)
    verdict = Verdict()
    said: list[Said] = []
    pages: list[Finding] = []
    for part in parts:
        asked = [question for question in QUESTIONS if question.kind == part.kind]
        if not asked:
            raise LabError(f"{part.name}: a capture of kind {part.kind} has no verdict")
        for number, question in enumerate(asked):
            if number and nvtx_range is not None:
                continue
            functions = _functions(verdict, question, functions_for, first=not number)
            if functions is None:
                continue
            if question.function == "name_bottleneck":
                said += _timeline(verdict, part, functions, nvtx_range)
            elif question.function == "name_trace_bottleneck":
                said += _trace(verdict, question, part, functions)
            elif part.kind == Kind.KERNELS:
                pages += _answers(verdict, question, part, functions)
            else:
                found = _answers(verdict, question, part, functions)
                said += [Said(one) for one in found]
    whole = next((part for part in parts if part.kind != Kind.KERNELS), None)
    ranked = _ranked(verdict, [one.finding for one in said], pages, whole, functions_for)
    verdict.findings = combining.with_others(ranked, said)
    if nvtx_range is None:
        verdict.unjudged = verdict.unjudged or _unjudged(parts, verdict)
    elif any(part.kind == Kind.TIMELINE and any(of_ranks(part)) for part in parts):
        verdict.unjudged = (
            f"{UNJUDGED} in a range: ask without --range, or for a part with --seconds"
        )
    _qualify(verdict)
    return verdict


def busy_devices(
    part: Part, verdict: Verdict, functions_for: Callable[[str], Functions]
) -> list[Busy]:
    """For how long the devices of a run worked, as far as the functions say so."""
    if part.kind == Kind.TIMELINE:
        return [
            Busy(f"device {device}", busy_ns, diagnosis.length_ns)
            for diagnosis in verdict.diagnoses
            for device, busy_ns in (diagnosis.busy_ns or {}).items()
            if busy_ns <= diagnosis.length_ns
        ]
    if part.kind == Kind.TRACE:
        files = {"": captures.file(part.path, captures.MAIN_FILES[Kind.TRACE])}
    elif part.kind == Kind.TRACES:
        files = {f"rank {rank}, ": file for rank, file in captures.rank_traces(part.path).items()}
    else:
        return []
    return [
        device
        for rank, file in files.items()
        for device in _devices_of_trace(rank, str(file), functions_for)
    ]


def _devices_of_trace(
    rank: str, file: str, functions_for: Callable[[str], Functions]
) -> list[Busy]:
    steps = of_trace(functions_for, "step_breakdown", file)
    keys = ("device", "step_ns", "busy_ns")
    if not isinstance(steps, list) or not all(
        isinstance(step, dict)
        and all(type(step.get(key)) is int for key in keys)
        and 0 <= step["busy_ns"] <= step["step_ns"]
        for step in steps
    ):
        return []
    out = []
    for device in sorted({step["device"] for step in steps}):
        own = [step for step in steps if step["device"] == device]
        busy_ns, window_ns = (sum(step[key] for step in own) for key in ("busy_ns", "step_ns"))
        if window_ns:
            out.append(Busy(f"{rank}device {device}", busy_ns, window_ns, len(own)))
    return out


def of_trace(functions_for: Callable[[str], Functions], function: str, file: str) -> Any:
    """What a function of Day 3 says to a trace; None where it gives no answer."""
    try:
        return functions_for("ex_32").call(function, file)
    except (FunctionUnavailable, LabError):
        return None


def _unjudged(parts: Sequence[Part], verdict: Verdict) -> str:
    """Why nothing is said of ranks that wait for each other; "" where there is no such question."""
    for question in (q for q in QUESTIONS if q.function in RANK_FUNCTIONS):
        asked = (part for part in parts if part.kind == question.kind)
        reason = verdict.unanswered.get(question.function)
        if reason and any(any(question.arguments(part)) for part in asked):
            return f"{UNJUDGED}: {reason}"
    for part in parts:
        if part.kind == Kind.TIMELINE and recording(part).collectives["process"].n_unique() == 1:
            return "whom this rank waits for cannot be judged: no other one is in the recording"
        missing, size = (
            inputs.missing_ranks(part) if part.kind in (Kind.TRACE, Kind.TRACES) else ([], 0)
        )
        # A rank that has no collective in its trace waits for nobody there.
        if missing and (part.kind == Kind.TRACES or "nccl" in " ".join(times_alone(part))):
            return f"{UNJUDGED}: there is no trace of {_listed(missing)} of {size}"
    return ""


def _listed(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 0, 2, 3": the first ones and the last of many."""
    if len(ranks) > MOST_RANKS:
        shown = (
            f"{', '.join(map(str, ranks[: MOST_RANKS - 1]))}, … {ranks[-1]} ({len(ranks)} ranks)"
        )
    else:
        shown = ", ".join(map(str, ranks))
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def _qualify(verdict: Verdict) -> None:
    """Say what could not be judged, with the first finding on the run; and what a late rank does."""
    for place, one in enumerate(verdict.findings):
        late = verdict.by_rank.get(one.subject)
        if one.category == "rank_imbalance" and late and late.category != "healthy":
            ratio = late.evidence.get("recoverable_ratio")
            share = "" if ratio is None else f" ({ratio:.0%} of its window)"
            own = f"the trace of {one.subject.replace(':', ' ')} alone is {late.category}{share}"
            verdict.findings[place] = _advise(one, own)
    place = next((i for i, f in enumerate(verdict.findings) if f.subject[:7] != "kernel:"), None)
    if verdict.unjudged and place is not None:
        verdict.findings[place] = _advise(verdict.findings[place], verdict.unjudged)


def _advise(finding: Finding, more: str) -> Finding:
    advice = "" if finding.recommendation == "none" else f"{finding.recommendation}; "
    return replace(finding, recommendation=advice + more)


def _ranked(
    verdict: Verdict,
    said: list[Finding],
    pages: list[Finding],
    whole: Part | None,
    functions_for: Callable[[str], Functions],
) -> list[Finding]:
    """The findings in order, by `diagnose_run`, or without it as the head of this module says."""
    if not said and not pages:
        return []
    window_ns = next((w for one in said if (w := one.evidence.get("window_ns"))), None)
    alone_ns: dict[str, int] = {}
    if pages and whole is not None and window_ns is not None:
        by_name = times_alone(whole)
        names = [one.subject.partition(":")[2] for one in pages]
        alone_ns = {name: by_name[base_name(name)] for name in names if base_name(name) in by_name}
    try:
        functions = functions_for("case_files")
        if functions.tasks or functions.defines("diagnose_run"):
            verdict.tasks |= functions.tasks
            answer = functions.call(
                "diagnose_run", said, pages, alone_ns, window_ns if whole is not None else None
            )
            wrong = "" if isinstance(answer, list) and answer else "not a list of findings"
            wrong = wrong or next(filter(None, map(misfit, answer)), "")
            if not wrong:
                return answer
            verdict.unanswered["diagnose_run"] = f"diagnose_run returned {answer!r:.60}, {wrong}"
    except FunctionUnavailable as error:
        # One finding alone needs no order, and kernels alone are ordered by what they save.
        if (said and len(said) + len(pages) > 1) or not error.todo:
            verdict.unanswered["diagnose_run"] = str(error)
            verdict.todo |= {"diagnose_run"} if error.todo else set()
    except LabError:
        pass  # a tree of some exercises only
    return combining.in_order(said, pages)


def _functions(
    verdict: Verdict,
    question: Question,
    functions_for: Callable[[str], Functions],
    *,
    first: bool,
) -> Functions | None:
    """The functions that a question needs; None, with a sentence why, where there are none."""
    try:
        functions = functions_for(question.exercise)
    except LabError as error:
        if first:
            raise
        verdict.unanswered[question.function] = str(error)
        return None
    # A single file may well define the functions of one exercise only.
    if not first and not functions.tasks and not functions.defines(question.function):
        return None
    verdict.tasks |= functions.tasks
    verdict.further |= functions.further
    return functions


def _answers(
    verdict: Verdict, question: Question, part: Part, functions: Functions
) -> list[Finding]:
    """What a function says to each of its calls; what it could not say is kept as a sentence."""
    out = []
    for arguments in question.arguments(part):
        try:
            answer = functions.call(question.function, *arguments)
            if question.kind == Kind.KERNELS:
                answer = kernels.finding_of(functions, arguments[0], answer)
            found = answer if isinstance(answer, list) else [answer]
            if wrong := next(filter(None, map(misfit, found)), ""):
                check = functions.tasks.get(question.function, question.function)
                said = f"{question.function} returned {answer!r:.60}, {wrong}; lab check {check}"
                raise FunctionUnavailable(said)
            if not found:
                raise EmptyCapture(f"{part.name}: {question.function} found nothing (no kernel?)")
            out += found
        except FunctionUnavailable as error:
            verdict.unanswered[question.function] = str(error)
            if error.todo:
                verdict.todo.add(question.function)
        except CaptureError as error:
            if question.function in RANK_FUNCTIONS and is_one_job(part):
                # People know it by the name that they gave, not by that of a copy made for this.
                said = str(error).replace(str(part.path), part.name)
                verdict.unjudged = f"{UNJUDGED}: {said}"
            elif question is next(q for q in QUESTIONS if q.kind == part.kind):
                raise
            else:
                verdict.unanswered[question.function] = str(error)
    return out


def _timeline(
    verdict: Verdict, part: Part, functions: Functions, nvtx_range: str | None
) -> list[Said]:
    diagnosis = diagnose(recording(part), functions, name=part.name, nvtx_range=nvtx_range)
    verdict.diagnoses.append(diagnosis)
    verdict.unanswered |= diagnosis.unanswered
    verdict.todo |= diagnosis.todo
    if diagnosis.finding is None:
        return []
    return [combining.of_one(diagnosis.finding, diagnosis.recoverable_ns or {})]


def _trace(verdict: Verdict, question: Question, part: Part, functions: Functions) -> list[Said]:
    """What is found in a trace, or in the traces of all ranks of a job."""
    found = _answers(verdict, question, part, functions)
    calls = list(question.arguments(part))
    if len(found) < len(calls):
        return []
    alone = part.kind == Kind.TRACES and (bool(verdict.unjudged) or not is_whole(part))
    if part.kind == Kind.TRACES:
        # Every rank's trace may call its device 0.
        ranks = [f"rank:{rank}" for rank in captures.rank_traces(part.path)]
        verdict.by_rank = dict(zip(ranks, found, strict=True))
        if alone:
            found = [replace(one, subject=rank) for rank, one in verdict.by_rank.items()]
    if grows := combining.worst_growth(found):
        return [Said(one) for one in grows]
    saved = []
    for arguments in calls:
        try:
            answer = functions.call("recoverable_time", *arguments)
        except FunctionUnavailable:
            answer = None
        saved.append(answer if isinstance(answer, dict) else {})
    if part.kind == Kind.TRACES and not alone:
        return combining.of_all_ranks(found, saved)
    return [combining.of_one(one, own) for one, own in zip(found, saved, strict=True)]
