"""How a tool's answer to a case file becomes a verdict: the tables, and the page TOOLS.md.

An answer is a list of statements. Each names one or several of the course's categories (the tables below
say which: generously, a statement counts for every category that a reader could take it for), or it is
a symptom only ("the GPU is idle"): true of several causes, and naming none.

Main column. The tool's headline is what it puts first. A sick case: right if a headline names what was
planted, wrong if it names something else, silent if there is none. A healthy case: right if there is no
headline, else wrong. Symptoms are no headlines.
Anywhere column. A sick case: right if any statement, symptoms too, fits what was planted. A healthy
case: right unless a statement names one of the categories that the label rules out (`must_not`).

Headlines:
`lab`            the first finding
`nsys_analyze`   the tool does not rank: the rule whose rows take most time, if that is at least 10 % of
                 the window (the floor of the course's own functions)
`nsys_ai`        the first alarm (severity critical before warning; its findings before its patterns)
`hta`            communication without computation beside it, from 10 % of the kernels' time on
`tracelens`      the larger of communication and copies without computation beside them, from 10 % of a
                 rank's timeline on; idle time is a symptom
`nsight_compute` two: what its speed-of-light rule says, and of the rules that estimate a speed-up of
                 the whole kernel the largest, from 10 % on
"""

# Long because the tables that turn answers into verdicts stand beside the page that shows them.

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import tools_public
from benchmarks.tools_cases import RESULTS, ROOT, cases, recordings
from benchmarks.tools_pairs import ENGINE, engine, later_looks

PAGE = ROOT / "benchmarks/TOOLS.md"
VERDICTS = ROOT / "benchmarks/results/tools_comparison.json"
FIRST_RUN = ROOT / "solutions/labs/case_files/first_run.json"
LARGE = ROOT / "benchmarks/results/large_captures.json"
BUSY = ROOT / "benchmarks/results/busy_large_captures.json"
LARGE_TOOLS = {"lab": "`lab diagnose`", "nsys": "nsys analyze", "nsys_ai": "nsys-ai diagnose"}
FLOOR = 0.10
TITLES = {
    "lab": "`lab diagnose`",
    "references": "the references (`--mine`)",
    "nsys_analyze": "nsys analyze",
    "nsys_ai": "nsys-ai",
    "hta": "HTA",
    "nsight_compute": "Nsight Compute",
    "tracelens": "TraceLens",
}

# Causes for which a device waits while its host is busy or blocked.
WAITS = ("host_bound", "launch_bound", "sync_bound", "allocation_bound", "recompilation")
IDLE = (*WAITS, "transfer_bound")
RANKS = ("communication_bound", "rank_imbalance")
CHANGING = ("throttled", "recompilation", "memory_growth", "rank_imbalance")

# Rule of nsys analyze to categories; those in SYMPTOMS name none.
NSYS_RULES = {
    "cuda_memcpy_async": ("transfer_bound", "sync_bound"),
    "cuda_memcpy_sync": ("transfer_bound", "sync_bound"),
    "cuda_memset_sync": ("sync_bound",),
    "cuda_api_sync": ("sync_bound",),
    "gpu_gaps": IDLE,
    "gpu_gaps:gap=1": IDLE,
    "gpu_time_util": IDLE,
}
SYMPTOMS = ("gpu_gaps", "gpu_gaps:gap=1", "gpu_time_util")

# Words in a finding's label, or a pattern's name, of nsys-ai; the first that fits.
NSYS_AI_WORDS: dict[str, tuple[str, ...]] = {
    "Small Kernel Overhead": ("launch_bound",),
    "CPU sync blocks": ("sync_bound",),
    "Excessive Synchronization": ("sync_bound",),
    "Synchronous Memset": ("sync_bound",),
    "Synchronous Memcpy": ("transfer_bound", "sync_bound"),
    "Pageable Memory": ("transfer_bound", "sync_bound"),
    "H2D": ("transfer_bound",),
    "NCCL|Communication|AllReduce": RANKS,
    "Idle|idle|Bubbles|cpu-bound": IDLE,
    "Pipeline Imbalance|Layer Outlier": CHANGING,
    "Hotspot": ("small_grid",),
}
NSYS_AI_SYMPTOMS = ("Idle|idle|Bubbles|cpu-bound", "Pipeline Imbalance|Layer Outlier", "Hotspot")

# Rule of Nsight Compute, words of its text, categories; the first that fits.
NCU_RULES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("SOLBottleneck", "too small to fill", ("small_grid",)),
    ("SOLBottleneck", "analyzing DRAM|DRAM bottleneck", ("memory_bound",)),
    ("SOLBottleneck", "analyzing L[12]|L[12] bottleneck", ("cache_bound",)),
    ("SOLBottleneck", "Compute Workload Analysis section\\.$", ("compute_bound",)),
    ("SOLBottleneck", "Compute is more heavily", ("compute_bound",)),
    ("SOLBottleneck", "latency issues", ("latency_bound",)),
    ("SOLBottleneck", "well-balanced", ("compute_bound", "memory_bound", "cache_bound")),
    ("LaunchConfiguration", "wave", ("tail_effect",)),
    ("LaunchConfiguration", "multiprocessors", ("small_grid",)),
    ("LaunchConfiguration", "warps", ("divergence",)),
    ("WorkloadImbalance", "", ("tail_effect", "small_grid")),
    ("AchievedOccupancy|TheoreticalOccupancy", "", ("low_occupancy",)),
    ("MemoryCacheAccessPattern", "local (loads|stores)", ("register_spills",)),
    ("MemoryCacheAccessPattern|UncoalescedGlobalAccess", "", ("uncoalesced_access",)),
    ("SharedMemoryConflicts|UncoalescedSharedAccess", "", ("bank_conflicts",)),
    ("ThreadDivergence", "", ("divergence",)),
    ("CPIStall", "MIO", ("bank_conflicts", "atomic_contention", "latency_bound")),
    ("CPIStall", "local and global", ("cache_bound", "atomic_contention", "latency_bound")),
    ("CPIStall", "cycles being stalled", ("latency_bound",)),
    ("IssueSlotUtilization", "", ("latency_bound",)),
    ("HighPipeUtilization", "under-utilized", ("latency_bound", "small_grid", "low_occupancy")),
    ("HighPipeUtilization|FPInstructions", "", ("compute_bound",)),
    (".*", "[Tt]ensor", ("tensor_cores_unused",)),
)


@dataclass(frozen=True)
class Statement:
    """What a tool says, and the categories it counts for."""

    text: str
    categories: tuple[str, ...]
    headline: bool = False


@dataclass(frozen=True)
class Verdict:
    """right, wrong or silent: the headline, and anything it says; names: what the headline named."""

    main: str
    anywhere: str
    names: str = ""


def verdict(case: dict[str, Any], statements: list[Statement]) -> Verdict:
    """The verdict on a case: see the head of this file."""
    # What was planted, and what the engine's definitions call it where they are others (cases.toml).
    planted = {case["expect"], case.get("engine", case["expect"])}
    headlines = [one for one in statements if one.headline]
    named = {name for one in headlines for name in one.categories}
    names = " or ".join(sorted(named))
    if case["expect"] == "healthy":
        said = {name for one in statements for name in one.categories}
        astray = said & set(case["must_not"])
        alarm = any(not planted & set(one.categories) for one in headlines)
        return Verdict("wrong" if alarm else "right", "wrong" if astray else "right", names)
    main = "right" if planted & named else "wrong" if named else "silent"
    fits = any(planted & set(one.categories) for one in statements)
    return Verdict(main, "right" if fits else "wrong" if statements else "silent", names)


# -- a tool's answer as statements ----------------------------------------------------------------


def of_lab(answer: dict[str, Any]) -> list[Statement]:
    """The findings; healthy is none."""
    found = [f["category"] for f in answer.get("findings", []) if f["category"] != "healthy"]
    return [Statement(name, (name,), headline=not number) for number, name in enumerate(found)]


def of_nsys_analyze(answer: dict[str, Any]) -> list[Statement]:
    """The rules that list something."""
    tables = {r: t for r, t in answer.items() if isinstance(t, dict) and t.get("rows_count")}
    least_ns = FLOOR * answer["window_ns"]
    most = max((t["duration_ns"] for rule, t in tables.items() if rule not in SYMPTOMS), default=0)
    return [
        Statement(
            rule,
            NSYS_RULES.get(rule, ()),
            rule not in SYMPTOMS and table["duration_ns"] == most >= least_ns,
        )
        for rule, table in tables.items()
    ]


def of_nsys_ai(answer: dict[str, Any]) -> list[Statement]:
    """Alarms, and what it says of an idle device whatever the severity."""
    told = [(f["severity"], f["label"]) for f in answer.get("findings", [])]
    told += [(p["severity"], p["pattern"]) for p in answer["patterns"]]
    out = []
    for severity in ("critical", "warning", "info"):
        for text in dict.fromkeys(text for s, text in told if s == severity):
            words = next((w for w in NSYS_AI_WORDS if re.search(w, text)), None)
            symptom = words in NSYS_AI_SYMPTOMS
            if words is None or (severity == "info" and not symptom):
                continue
            first = not symptom and not any(one.headline for one in out)
            out.append(Statement(text, NSYS_AI_WORDS[words], first))
    return out


def of_hta(answer: dict[str, Any]) -> list[Statement]:
    """Shares of the time that its breakdowns show to be lost."""
    out = []
    breakdown = answer["temporal_breakdown"]
    ranks = breakdown if isinstance(breakdown, list) else []
    if any(row["idle_time_pctg"] >= 100 * FLOOR for row in ranks) or (
        not ranks and _waits_for_host(answer)
    ):
        out.append(Statement("idle time", WAITS))
    types = answer["kernel_types"]
    alone = sum(r["percentage"] for r in types if r["kernel_type"] == "COMMUNICATION")
    if alone >= 100 * FLOOR:
        shares = [row["non_compute_time_pctg"] for row in ranks]
        apart = max(shares) - min(shares) >= 100 * FLOOR
        category = "rank_imbalance" if apart else "communication_bound"
        out.append(Statement("communication alone", (category,), headline=True))
    return out


def of_tracelens(answer: dict[str, Any]) -> list[Statement]:
    """Shares of the time that its timeline of the GPU shows to be lost."""
    ranks = answer.get("gpu_timeline_pct", [])
    shares = {
        kind: [row.get(kind, 0.0) for row in ranks]
        for kind in ("idle_time", "exposed_comm_time", "exposed_memcpy_time")
    }
    lost = {kind: max(pct, default=0.0) for kind, pct in shares.items()}
    out = []
    if lost["idle_time"] >= 100 * FLOOR:
        out.append(Statement("idle time", IDLE))
    comm, copies = lost["exposed_comm_time"], lost["exposed_memcpy_time"]
    if comm >= 100 * FLOOR:
        apart = comm - min(shares["exposed_comm_time"]) >= 100 * FLOOR
        category = "rank_imbalance" if apart else "communication_bound"
        out.append(Statement("exposed communication", (category,), headline=comm >= copies))
    if copies >= 100 * FLOOR:
        out.append(Statement("exposed copies", ("transfer_bound",), headline=copies > comm))
    return out


def _waits_for_host(answer: dict[str, Any]) -> bool:
    """Whether its breakdown of idle time alone shows that the device waits for the host."""
    waited = sum(
        row["idle_time"]
        for row in answer["idle_time_breakdown"]
        if row["idle_category"] == "host_wait"
    )
    worked = sum(row["sum"] for row in answer["kernel_types"])
    return waited >= FLOOR * (waited + worked)


def of_nsight_compute(answer: dict[str, Any]) -> list[Statement]:
    """What its rules say of the kernel."""
    rules = [rule for rule in answer["rules"] if rule["type"] in ("OPT", "INF", "WRN")]
    global_pct = [
        float(rule["speedup_pct"] or 0)
        if rule["speedup_type"] == "global" and _ncu_categories(rule)
        else 0.0
        for rule in rules
    ]
    most = max(global_pct, default=0)
    out = []
    for rule, pct in zip(rules, global_pct, strict=True):
        if categories := _ncu_categories(rule):
            is_largest = pct == most >= 100 * FLOOR
            first = rule["rule"] == "SOLBottleneck" or is_largest
            out.append(Statement(f"{rule['rule']} {rule['speedup_pct']}", categories, first))
    return out


def _ncu_categories(rule: dict[str, str]) -> tuple[str, ...]:
    for name, words, categories in NCU_RULES:
        if re.fullmatch(name, rule["rule"]) and re.search(words, rule["text"].strip()):
            return categories
    return ()


STATEMENTS: dict[str, Callable[[dict[str, Any]], list[Statement]]] = {
    "lab": of_lab,
    "references": of_lab,
    "nsys_analyze": of_nsys_analyze,
    "nsys_ai": of_nsys_ai,
    "hta": of_hta,
    "nsight_compute": of_nsight_compute,
}


PAIR_STATEMENTS: dict[str, Callable[[dict[str, Any]], list[Statement]]] = {
    "lab": of_lab,
    "nsys_analyze": of_nsys_analyze,
    "nsys_ai": of_nsys_ai,
    "hta": of_hta,
    "tracelens": of_tracelens,
}


# -- the page -------------------------------------------------------------------------------------


def judge_all() -> dict[str, Any]:
    """Every tool's version, and its verdict on each case that it answered."""
    known = cases()
    present = recordings(known)
    out = {}
    for tool, statements in STATEMENTS.items():
        file = RESULTS / f"{tool}.json"
        if not file.is_file():
            continue
        told = json.loads(file.read_text(encoding="utf-8"))
        answers = {name: told["answers"][name] for name in known if name in told["answers"]}
        out[tool] = {
            "version": told["version"],
            "verdicts": {
                name: vars(verdict(known[name], statements(answer)))
                for name, answer in answers.items()
            },
            "of_earlier_recordings": [
                name for name in answers if told.get("of", {}).get(name) != present[name]
            ],
        }
    return out


def write() -> None:
    """TOOLS.md and the verdicts as JSON."""
    judged = judge_all()
    VERDICTS.write_text(json.dumps(judged, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text("\n".join(page(judged)) + "\n", encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {', '.join(judged)}")


def page(judged: dict[str, Any]) -> Iterator[str]:
    """The lines of the page."""
    known = cases()
    healthy = sum(case["expect"] == "healthy" for case in known.values())
    yield f"""# Tools compared on the case files

{len(known)} [case files](../labs/case_files/README.md), {len(known) - healthy} with one planted cause and {healthy} healthy ones, given to the tools that people use.
Written by `benchmarks/tools_comparison.py judge` from the answers in [results/tools_comparison/](results/tools_comparison);
[tools_verdicts.py](tools_verdicts.py) says, with its tables, how an answer becomes a verdict.

**Read it with care.** The cases and their labels are the course's own, and most of its rules were written with these
cases at hand (how `lab diagnose` did on those that were labelled and recorded afterwards:
[SCORES.md](../solutions/labs/case_files/SCORES.md)). The other tools do not claim to name one cause: they list what
deserves a look, and leave the rest to who reads them. So each has two columns. *main* takes what a tool puts first;
*anywhere* asks only whether the planted cause is somewhere in what it says, symptoms such as "the GPU is idle"
included, and of a healthy case whether it says nothing that leads astray. Where a statement could be taken for
several causes, it counts for each. The thresholds of nsys-ai are its defaults; no language model was asked. nsys
analyze ran with its default rules, and gaps from 1 ms on besides (its default of 500 ms is longer than most recordings
here). Nsight Compute's rules need its own report: its programs were recorded once more, as the case's provenance says.

| tool | version | cases | main: right | wrong | silent | healthy, no false alarm | main: right of later cases * | anywhere: right |
|---|---|--:|--:|--:|--:|--:|--:|--:|"""
    for tool, told in judged.items():
        verdicts = told["verdicts"]
        count = Counter(v["main"] for v in verdicts.values())
        well = [v for name, v in verdicts.items() if known[name]["expect"] == "healthy"]
        calm = f"{sum(v['main'] == 'right' for v in well)} of {len(well)}" if well else ""
        blind = [v for name, v in verdicts.items() if known[name].get("blind")]
        later = sum(v["main"] == "right" for v in blind)
        anywhere = sum(v["anywhere"] == "right" for v in verdicts.values())
        version = told["version"].removeprefix("NVIDIA Nsight Systems version ")
        yield (
            f"| {TITLES[tool]} | {version} | {len(verdicts)} | {count['right']} | {count['wrong']} "
            f"| {count['silent']} | {calm} | {later} of {len(blind)} | {anywhere} |"
        )
    yield ""
    yield f"""\\* Labelled before they were recorded, and recorded after the course's rules were settled. Here the present
answers are counted; the first run of `lab diagnose` over them, before anything was changed, was right in {_first_run()}
(SCORES.md).

Right, wrong or silent by the main column; (+) where the planted cause, or its symptom, stands elsewhere in the answer."""
    yield ""
    yield "| case | planted | " + " | ".join(TITLES[tool] for tool in judged) + " |"
    yield "|---|---|" + "---|" * len(judged)
    for name, case in known.items():
        cells = [_cell(name, told) for told in judged.values()]
        star = " *" if case.get("blind") else ""
        yield f"| {name}{star} | {case['expect']} | " + " | ".join(cells) + " |"
    if any(told["of_earlier_recordings"] for told in judged.values()):
        yield ""
        yield "† of an earlier recording of the same program."
    yield from _pairs_page()
    yield from tools_public.page()
    yield from _large_captures()


def judge_pairs() -> dict[str, Any]:
    """Every tool's version, and its verdict on each recording of the pairs that it answered."""
    known = later_looks()
    out = {}
    for tool, statements in PAIR_STATEMENTS.items():
        if tool == "lab":
            version, answers = engine()
        else:
            told = json.loads((RESULTS / f"pairs_{tool}.json").read_text(encoding="utf-8"))
            version, answers = told["version"], told["answers"]
        out[tool] = {
            "version": version,
            "verdicts": {
                name: vars(verdict(known[name], statements(answers[name])))
                for name in known
                if name in answers and not answers[name].get("exit_code")
            },
            "of_earlier_recordings": [],
        }
    return out


def _pairs_page() -> Iterator[str]:
    """The tools on recordings of the third to sixth looks at pairs."""
    known, judged = later_looks(), judge_pairs()
    healthy = {name for name, pair in known.items() if pair["label"] == "healthy"}
    yield f"""
## On programs that were labelled before they were recorded

The third to sixth looks of [PAIRS.md](PAIRS.md): {len(known) - len(healthy)} programs with a planted fault and {len(healthy)} healthy ones. The tools got the same recordings,
by [tools_pairs.py](tools_pairs.py); each those that it can read. The rules are the same, and those for TraceLens were written before any answer
was read. A label `input_bound` counts as `host_bound`, too, as in the case files.

**Read it with care**, here too: the labels are the course's own, the categories are those of the engine, and so are the measures that it was
written for. The engine's answers are its last run, changed since it first saw these recordings ({_first_look()} of its first run name the
label first). TraceLens is {judged["tracelens"]["version"]} of its repository, its timeline of the GPU alone: its
tables of operators, roofline and collectives were not judged. nsys-ai
finds no table of kernels in {_no_kernels()} recordings of JAX, and stops. Healthy programs count by the first statement alone.

| tool | version | faulty | first: right | wrong | silent | anywhere: right | healthy | left in peace |
|---|---|--:|--:|--:|--:|--:|--:|--:|"""
    for tool, told in judged.items():
        verdicts = told["verdicts"]
        sick = [v for name, v in verdicts.items() if name not in healthy]
        well = [v for name, v in verdicts.items() if name in healthy]
        count = Counter(v["main"] for v in sick)
        anywhere = sum(v["anywhere"] == "right" for v in sick)
        calm = sum(v["main"] == "right" for v in well)
        version = told["version"].removeprefix("NVIDIA Nsight Systems version ")
        yield (
            f"| {TITLES[tool]} | {version} | {len(sick)} | {count['right']} | {count['wrong']} "
            f"| {count['silent']} | {anywhere} | {len(well)} | {calm} |"
        )
    others = [tool for tool in judged if tool != "lab"]
    yield ""
    yield "On the recordings that another tool read, `lab diagnose` has the first statement right in:"
    yield ""
    mine = judged["lab"]["verdicts"]
    for tool in others:
        read = judged[tool]["verdicts"]
        sick = [name for name in read if name not in healthy]
        well = [name for name in read if name in healthy]
        yield (
            f"- those of {TITLES[tool]}: {sum(mine[n]['main'] == 'right' for n in sick)} of {len(sick)} faulty, "
            f"{sum(mine[n]['main'] == 'right' for n in well)} of {len(well)} healthy"
        )
    yield ""
    yield "What `lab diagnose` misses, and what is known of it (PAIRS.md):"
    yield ""
    yield from _misses(known, mine)
    yield ""
    yield "| program | label | " + " | ".join(TITLES[tool] for tool in judged) + " |"
    yield "|---|---|" + "---|" * len(judged)
    for name, pair in known.items():
        cells = [_cell(name, told) for told in judged.values()]
        if name in healthy:  # No label rules out what else is said of these.
            cells = [cell.removesuffix(" (+)") for cell in cells]
        yield f"| {name} | {pair['label']} | " + " | ".join(cells) + " |"


# Why a statement of the engine is not the label, as far as it is known.
KNOWN_OF_MISSES = {
    "predictions_read_regnet": "the fault saves little; single runs differ by more",
    "activations_logged_vit": "the recorder makes launching cost more than waiting",
    "parts_sent_mlp": "in its recording 96 % of the time is kernels",
    "longer_texts_rank1": "the fix takes the longer half away; the engine says what sharing it would save",
    "steady_ddp_roberta": "a tenth is lost, and no cause reaches a tenth",
    "losses_read_roberta": "the label is wrong: waiting costs nothing",
    "captions_cleaned_t5": "recorded beside programs that were being built",
}
KNOWN_OF_MISSES |= {
    "mask_checked_bert": KNOWN_OF_MISSES["predictions_read_regnet"],
    "logits_gathered_gpt2": KNOWN_OF_MISSES["predictions_read_regnet"],
    "error_read_torchmetrics": KNOWN_OF_MISSES["predictions_read_regnet"],
    "residual_checked_torch": KNOWN_OF_MISSES["predictions_read_regnet"],
    "steady_densenet": KNOWN_OF_MISSES["captions_cleaned_t5"],
}


def _misses(known: dict[str, dict[str, Any]], verdicts: dict[str, Any]) -> Iterator[str]:
    """The programs whose first statement is not right, with what is known of each."""
    names = [name for name in known if verdicts[name]["main"] != "right"]
    why = {
        name: KNOWN_OF_MISSES.get(
            name,
            "the label is among the findings, behind the first"
            if verdicts[name]["anywhere"] == "right"
            else "not looked into",
        )
        for name in names
    }
    for reason in dict.fromkeys(why.values()):
        yield f"- {', '.join(f'`{name}`' for name in names if why[name] == reason)}: {reason}."


def _no_kernels() -> int:
    """How many recordings nsys-ai stopped at."""
    told = json.loads((RESULTS / "pairs_nsys_ai.json").read_text(encoding="utf-8"))["answers"]
    return sum(bool(answer.get("exit_code")) for answer in told.values())


def _first_look() -> str:
    """How many labels the engine's first run over the pairs has as main finding."""
    told = json.loads(ENGINE.read_text(encoding="utf-8"))["pairs"]
    right = sum(
        told[name]["first"]["main"] == pair["label"] for name, pair in later_looks().items()
    )
    return f"{right} of {len(later_looks())}"


def _first_run() -> str:
    """How many of the later cases the first run had right."""
    first = json.loads(FIRST_RUN.read_text(encoding="utf-8")).values()
    return f"{sum(one['found'] == one['expect'] for one in first)} of {len(first)}"


def _large_captures() -> Iterator[str]:
    """Time and memory on large captures, from what large_captures.py measured."""
    rows = []
    for file in sorted(LARGE.parent.glob(f"{LARGE.stem}*.json")):
        told = json.loads(file.read_text(encoding="utf-8"))
        machine = f"{told['machine']['cores_count']} cores, {told['machine']['cpu']}"
        for capture in told["captures"]:
            for key, title in LARGE_TOOLS.items():
                if run := capture.get(key):
                    ended = f"ended after {told['limit_s']:.0f} s" if run["passed_limit"] else ""
                    failed = f"exit code {run['exit_code']}" if run["exit_code"] else ""
                    figures = (
                        f"{run['wall_s']:.0f} s | {run['cpu_s']:.0f} s "
                        f"| {run['peak_rss_bytes'] / 1e9:.1f} GB | {ended or failed}"
                    )
                    rows.append((capture["events_count"], title, machine, figures))
    if not rows:
        return
    busy = json.loads(BUSY.read_text(encoding="utf-8"))
    again = ", ".join(
        f"{one['cpu_s']} s of processor and {one['peak_rss_bytes'] / 1e9:.2g} GB for {one['events_count']:,} events"
        for one in busy["captures"]
    )
    yield f"""
## Time and memory

One capture of kernels and the calls that launched them (`large_captures.py`), each tool once, in a fresh process. The engine was measured again on
{busy["date"]}, on {busy["cores_count"]} cores that did other work, too (load {busy["load"]}): {again}.

| events | tool | machine | wall | CPU | peak memory | |
|--:|---|---|--:|--:|--:|---|"""
    for events, title, machine, figures in sorted(rows):
        yield f"| {events:,} | {title} | {machine} | {figures} |"


def _cell(name: str, tool: dict[str, Any]) -> str:
    told = tool["verdicts"].get(name)
    if told is None:
        return ""
    plus = " (+)" if told["main"] != "right" and told["anywhere"] == "right" else ""
    names = f": {told['names']}" if told["main"] == "wrong" and told["names"] else ""
    mark = " †" if name in tool["of_earlier_recordings"] else ""
    return f"{told['main']}{names}{plus}{mark}"
