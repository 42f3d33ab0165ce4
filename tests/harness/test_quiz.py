"""`lab quiz`: what is asked is true, can be answered, and is kept."""

from __future__ import annotations

import itertools
import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from profiling_lab import captures
from profiling_lab.cli import lab
from profiling_lab.course.manifest import load
from profiling_lab.course.quiz import EXAMPLES, TOPICS, UNITS, Asked, judge
from profiling_lab.course.quiz.questions import QUESTIONS
from profiling_lab.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
EACH = [(question, capture) for question in QUESTIONS for capture in question.captures]
IDS = [f"{question.name}-{capture}" for question, capture in EACH]
# Questions whose text says that kernels run one after the other.
IN_TURN = ("filled_by_kernels", "at_best")


@pytest.mark.parametrize(("question", "capture"), EACH, ids=IDS)
def test_has_one_answer(question, capture) -> None:
    asked = question.ask(capture)
    assert asked.text.endswith("?") or asked.text.endswith(")?"), asked.text
    if asked.choices:
        assert len(set(asked.choices)) == len(asked.choices) >= 2
        assert asked.answer in asked.choices
        assert judge(asked, str(asked.answer))
        for letter, choice in zip("abcdefgh", asked.choices, strict=False):
            assert judge(asked, letter) is (choice == asked.answer)
        return
    assert isinstance(asked.answer, (int, float))
    assert asked.unit in UNITS
    assert asked.answer not in (0, 1)
    scale = UNITS[asked.unit]
    for unit, size in scale.items():
        assert judge(asked, f"{asked.answer / size:.9g} {unit}")
    unit = next(iter(scale))
    off = 1 + max(asked.tolerance, 0.01) * 1.5
    for wrong in (asked.answer * off, asked.answer / off, 0, 1):
        assert not judge(asked, f"{wrong / scale[unit]:.9g} {unit}")


@pytest.mark.parametrize(("question", "capture"), EACH, ids=IDS)
def test_is_asked_about_a_recorded_capture(question, capture) -> None:
    assert captures.provenance(capture)["gpu"], "recorded on a GPU"
    asked = question.ask(capture)
    assert capture in asked.text
    assert not _gives_away(asked), "the text may not hold the answer"


def _gives_away(asked: Asked) -> bool:
    if asked.choices:
        return False
    assert isinstance(asked.answer, (int, float))
    numbers = re.findall(r"\d+(?:\.\d+)?", asked.text)
    return any(
        judge(asked, f"{number} {unit}")
        for number in numbers
        for unit in UNITS[asked.unit]
        if f"{number} {unit}".strip() in asked.text and unit
    )


@pytest.mark.parametrize("capture", sorted({c for q, c in EACH if q.name in IN_TURN}))
def test_kernels_run_in_turn_where_the_text_says_so(capture) -> None:
    kernels = captures.open(capture).kernels
    order = kernels.select("start_ns", "end_ns").iter_rows()
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(order))


@pytest.mark.parametrize(("question", "capture"), EACH, ids=IDS)
def test_a_query_that_is_shown_runs(question, capture) -> None:
    look = question.ask(capture).look
    file, found, sql = look.partition(".sqlite: ")
    if not found:
        assert (ROOT / "captures" / capture).is_dir()
        return
    connection = sqlite3.connect(f"file:{ROOT / file}.sqlite?mode=ro", uri=True)
    rows = connection.execute(sql).fetchall()
    connection.close()
    asked = question.ask(capture)
    assert rows
    if isinstance(asked.answer, float) and len(rows) == 1:
        number = next(value for value in rows[0] if isinstance(value, float))
        # The share of a kernel, or the answer itself.
        assert (
            judge(asked, f"{number} {next(iter(UNITS[asked.unit]))}") or question.name == "at_best"
        )


def test_every_topic_is_an_interview_question_of_the_week() -> None:
    page = (ROOT / "week07" / "README.md").read_text(encoding="utf-8")
    section = page.partition("## Common interview questions")[2].partition("\n## ")[0]
    asked = re.findall(r"^\d\. (.+(?:\n   .+)*)", section, re.MULTILINE)
    assert len(asked) == len(TOPICS)
    assert {question.topic for question in QUESTIONS} == set(TOPICS)
    assert all(sum(q.topic == topic for q in QUESTIONS) >= 3 for topic in TOPICS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_cites_a_section_of_a_lesson(question) -> None:
    file, _, title = question.lesson.partition("#")
    titles = re.findall(
        r"^#+ (?:\d+\. )?(.+)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
    )
    assert not title or title in titles


def test_asks_nothing_that_a_task_asks_for() -> None:
    tasks = {task.name for task in load(ROOT).tasks.values()}
    assert not tasks & {question.name for question in QUESTIONS}


@pytest.mark.parametrize(
    ("unit", "given", "right"),
    [
        ("pct", "62", True),
        ("pct", "62.1 %", True),
        ("pct", "62percent", True),
        ("pct", "0.62", False),
        ("pct", "70 %", False),
    ],
)
def test_reads_numbers_as_people_write_them(unit, given, right) -> None:
    assert judge(Asked("?", 62.0, "", "", unit=unit), given) is right


@pytest.mark.parametrize("unit", list(UNITS))
def test_its_own_example_can_be_read(unit) -> None:
    judge(Asked("?", 1.0, "", "", unit=unit), EXAMPLES[unit])


@pytest.mark.parametrize(
    ("unit", "given"), [("ns", "12"), ("ns", "12 GB"), ("bytes_per_s", "5 GB"), ("pct", "")]
)
def test_a_number_without_its_unit_is_asked_for_again(unit, given) -> None:
    with pytest.raises(LabError, match="answer with a number"):
        judge(Asked("?", 12.0, "", "", unit=unit), given)


@pytest.mark.parametrize("given", ["d", "", "maybe"])
def test_a_choice_that_is_none_is_asked_for_again(given) -> None:
    with pytest.raises(LabError, match="answer with a letter, a, b"):
        judge(Asked("?", "yes", "", "", choices=("yes", "no")), given)


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course to keep answers in, with the recordings of this one."""
    (tmp_path / "course.toml").write_text('[course]\ntitle = "A course"\n', encoding="utf-8")
    monkeypatch.setenv("LAB_CAPTURES", str(ROOT / "captures"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(lab, ["quiz", *words], prog_name="lab")


def right_answer(name: str, number: int) -> str:
    question = next(question for question in QUESTIONS if question.name == name)
    asked = question.ask(question.captures[number % len(question.captures)])
    return f"{asked.answer} {next(iter(UNITS[asked.unit]))}" if asked.unit else str(asked.answer)


@pytest.mark.usefixtures("course")
def test_a_right_answer_is_kept() -> None:
    result = run("filled_by_kernels", "--answer", right_answer("filled_by_kernels", 0))
    assert result.exit_code == 0
    assert "Right." in result.output
    assert "week07/day1_nsight_systems/README.md, “Was it busy?”" in result.output
    assert "SELECT" in result.output
    assert re.search(r"filled_by_kernels +right", run("--list").output)
    assert "1 of 18 answered right" in run("--list").output
    assert "0 of 18" in run("--again", "--list").output


@pytest.mark.usefixtures("course")
def test_a_wrong_answer_is_asked_again_about_another_capture() -> None:
    first = run("filled_by_kernels", "--answer", "99 %")
    assert "No." in first.output and first.exit_code == 1
    assert "training_item" in first.output
    assert re.search(r"filled_by_kernels +wrong", run("--list").output)
    second = run("filled_by_kernels", "--answer", right_answer("filled_by_kernels", 1))
    assert "alloc_every_step" in second.output
    assert "Right." in second.output


@pytest.mark.usefixtures("course")
def test_without_a_terminal_it_asks_the_next_one_and_says_how_to_answer() -> None:
    output = run().output
    assert "lab quiz filled_by_kernels --answer" in output
    assert output.count("How do you profile GPU code?") == 1
    output = run("--topic", "serving").output
    assert "lab quiz price_of_a_batch --answer" in output


@pytest.mark.usefixtures("course")
def test_what_cannot_be_answered_says_why() -> None:
    for words, says in (
        (("filled_by_kernel",), "did you mean filled_by_kernels"),
        (("--topic", "cooking"), "one of begin, tools"),
        (("ridge", "--answer", "many"), "answer with a number"),
        (("--answer", "3"), "--answer needs the NAME"),
    ):
        result = run(*words)
        assert result.exit_code == 2
        assert says in result.output


def test_a_damaged_note_of_answers_is_an_empty_one(course: Path) -> None:
    (course / ".lab").mkdir()
    (course / ".lab" / "quiz.json").write_text('{"ridge": 3', encoding="utf-8")
    assert "0 of 18 answered right" in run("--list").output
