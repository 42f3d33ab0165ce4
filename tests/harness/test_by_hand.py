"""What a person adds: points for texts, overrides, teams, feedback to give back, and whose points changed."""

from __future__ import annotations

import csv
import zipfile
from fractions import Fraction
from pathlib import Path

import pytest

from grading.gradebook import by_hand, look, policy, reporting, roster
from grading.gradebook.by_hand import HandError
from grading.grader.batches import batch, reports
from grading.grader.batches.batch import Options
from grading.grader.intake.owners import returned_name
from grading.grader.intake.refused import TWICE
from grading.grader.intake.submissions import Submission
from grading.runner.results import Check, Key, Result, Task
from profiling_lab.course import manifest
from profiling_lab.errors import LabError
from profiling_lab.mine.functions import load_file

fake = load_file(Path(__file__).with_name("fake_judge.py"), "fake_judge")
COURSE = manifest.load()
EXERCISE = COURSE.exercise("ex_33")
TASK = EXERCISE.tasks[0]
RUBRIC = """
[by_hand.deep_dive_text]
title = "Deep dive: the text"
[by_hand.deep_dive_text.criteria]
evidence = 4
"next step" = 2
[by_hand.deep_dive_text.meaning]
evidence = "every claim names a number"
"""
POLICY = policy.loads(RUBRIC, COURSE)
ENTERED = """\
Submission,Student,deep_dive_text: evidence (of 4),deep_dive_text: next step (of 2),deep_dive_text: comment
ada,,3,1.5,"Good numbers; <b>name</b> the recording."
bob,,,,
"""


def result(entry: str, outcome: str = "failed") -> Result:
    """All of ex_33 with one outcome."""
    tasks = {}
    for task in EXERCISE.tasks:
        said = "not run" if task.live else outcome
        earned = task.points if said == "passed" else 0
        tasks[task.id] = Task(said, task.points, earned, task.live, checks=[Check("test_it", said)])
    return Result(entry, "ex_33", Key("", "", "", 1), tasks)


def write(out: Path, *entries: str, made: policy.Policy = POLICY, people=None, **more):
    return reporting.write_all(
        COURSE, [result(entry) for entry in entries], out, policy=made, roster=people, **more
    )


def rows(out: Path, name: str = "gradebook.csv") -> dict[str, dict[str, str]]:
    with (out / name).open(encoding="utf-8", newline="") as file:
        return {row.get("Student", "") or row["First name"]: row for row in csv.DictReader(file)}


# -- points that a person gives ---------------------------------------------------------------------


def test_points_and_comment_reach_gradebook_and_feedback(tmp_path: Path) -> None:
    (tmp_path / by_hand.SHEET).write_text(ENTERED, encoding="utf-8")
    write(tmp_path, "ada", "bob")
    ada = rows(tmp_path)["ada"]
    full = EXERCISE.points + 6
    assert (ada["Total"], ada["Out of"], ada["deep_dive_text (of 6)"]) == ("4.5", str(full), "4.5")
    for page in ("ada.md", "ada.html"):
        text = (tmp_path / "feedback" / page).read_text(encoding="utf-8")
        assert "Deep dive: the text" in text and "3 of 4" in text and "1.5 of 2" in text
        assert "every claim names a number" in text and "Good numbers;" in text
    assert "<b>name" not in (tmp_path / "feedback/ada.html").read_text(encoding="utf-8")
    assert "4.5 of 6 points, by a person" in (tmp_path / "gradescope/ada.json").read_text()


def test_what_is_not_entered_yet_is_no_zero_and_stands_in_the_list(tmp_path: Path) -> None:
    (tmp_path / by_hand.SHEET).write_text(ENTERED, encoding="utf-8")
    written = write(tmp_path, "ada", "bob")
    bob = rows(tmp_path)["bob"]
    assert (bob["Total"], bob["Left to grade"]) == ("", "deep_dive_text")
    (look,) = written.needs_look
    assert look.who == "bob"
    (tmp_path / by_hand.SHEET).unlink()
    (look,) = write(tmp_path, *map(str, range(9))).needs_look
    assert look.who == "9 students: 0; 1; 2; 3; 4; 5; 6; 7 and 1 more"
    assert "for a person to grade, not entered yet" in look.why
    assert "by_hand.csv" in look.do


def test_the_student_reads_whose_turn_it_is(tmp_path: Path) -> None:
    write(tmp_path, "ada")
    for name in ("feedback/ada.md", "feedback/ada.html", "gradescope/ada.json"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "A person has yet to grade: Deep dive: the text." in text
        assert "grading side broke" not in text


def test_who_handed_in_twice_is_no_one_to_ask_again(tmp_path: Path) -> None:
    twice = Submission("cleo", tmp_path, "", error=f"{TWICE}: a.zip, b.zip")
    made = reporting.write_all(COURSE, [result("cleo", "error")], tmp_path, submissions=[twice])
    (found,) = made.needs_look
    assert (found.why, found.do) == (f"could not be accepted: {twice.error}", look.CHOOSE)
    for name in ("feedback/cleo.md", "feedback/cleo.html", "gradescope/cleo.json"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Tell your instructor which of them counts." in text and "Pack your work" not in text


def test_what_could_not_be_taken_is_a_zero_with_its_reason(tmp_path: Path) -> None:
    refused = Submission("cleo", tmp_path, "", error="it is no archive")
    made = reporting.write_all(
        COURSE, [result("cleo", "error")], tmp_path, roster=PEOPLE[2:], submissions=[refused]
    )
    (look,) = made.needs_look
    assert look.why == "could not be accepted: it is no archive" and "ask for it again" in look.do
    for file in ("gradebook_canvas.csv", "gradebook_moodle.csv"):
        *_, points, note = list(rows(tmp_path, file).values())[-1].values()
        assert points == "0" and "it is no archive" in note


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("ada,,3,", "ada,,5,"), "line 2: deep_dive_text: evidence is 5; allowed: 0 to 4"),
        (("ada,,3,", "ada,,-1,"), "allowed: 0 to 4"),
        (("ada,,3,", "ada,,three,"), "'three', not a number"),
        (("Submission", "Entry"), "line 1: the column Submission is missing"),
    ],
)
def test_a_faulty_table_is_refused_with_its_line(tmp_path: Path, change, says: str) -> None:
    (tmp_path / by_hand.SHEET).write_text(ENTERED.replace(*change), encoding="utf-8")
    with pytest.raises(HandError, match=says):
        write(tmp_path, "ada", "bob")


def test_a_new_table_keeps_what_was_entered(tmp_path: Path) -> None:
    (tmp_path / by_hand.SHEET).write_text(ENTERED, encoding="utf-8")
    more = policy.loads(RUBRIC.replace("evidence = 4\n", "evidence = 5\n"), COURSE)
    text = by_hand.sheet(tmp_path, more, {"ada": "Ada", "cleo": "Cleo"})
    (tmp_path / by_hand.SHEET).write_text(text, encoding="utf-8")
    read = by_hand.read(tmp_path, more, COURSE, ["ada", "cleo"])
    assert (
        read.marks["ada"][0].earned
        == by_hand.HandMark(
            more.by_hand[0], {"evidence": Fraction(3), "next step": Fraction("1.5")}
        ).earned
    )
    assert read.marks["cleo"][0].earned is None and "bob" not in text


def test_what_was_entered_stays_with_a_student_whose_entry_has_another_name(tmp_path: Path) -> None:
    """Canvas numbers what is handed in again anew; an entry that no row matched is renamed."""
    canvas = (
        roster.Person("Pires, Cleo", id="3", canvas_id="77", line=2),
        roster.Person("Doe, Zoe", email="zoe@x.edu", line=3),
        roster.Person("Lee, Kim", canvas_id="5", line=4),
        roster.Person("Lee, Kim", canvas_id="6", line=5),
    )
    table = "\n".join(
        [ENTERED.partition("\n")[0]]
        + [
            "pirescleo_77_1_week,,3,1,New number.",
            "zoe doe,,4,2,Renamed.",
            "leekim_6_3_a,,1,0,His own.",
        ]
    )
    (tmp_path / by_hand.SHEET).write_text(table, encoding="utf-8")
    entries = ["pirescleo_LATE_77_8_week-1", "zoe@x.edu", "leekim_5_4_b"]
    for _ in range(2):
        read = by_hand.read(tmp_path, POLICY, COURSE, entries, canvas)
        assert {entry: mark.comment for entry, (mark,) in read.marks.items() if mark.comment} == {
            entries[0]: "New number.",
            entries[1]: "Renamed.",
        }
        assert read.nobodys == ("leekim_6_3_a",), "of another student with the same name"
        text = by_hand.sheet(tmp_path, POLICY, dict.fromkeys(entries, ""), canvas)
        assert text.endswith("leekim_6_3_a,,1,0,His own.\n")
        (tmp_path / by_hand.SHEET).write_text(text, encoding="utf-8")


def test_points_of_no_submission_are_said_and_kept(tmp_path: Path) -> None:
    """As when a spreadsheet spoils a name; Excel spoils none in a table with a byte order mark."""
    spoiled = "Zoë Brown".encode().decode("cp1252")
    table = ENTERED.replace("ada,", f"{spoiled},")
    (tmp_path / by_hand.SHEET).write_text(table, encoding="utf-8")
    looks = write(tmp_path, "Zoë Brown").needs_look
    assert (looks[0].who, looks[0].do) == (spoiled, look.CORRECT)
    text = by_hand.sheet(tmp_path, POLICY, {"Zoë Brown": "Zoë"})
    assert text.startswith("\ufeffSubmission,") and f"\n{spoiled},,3,1.5," in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[by_hand.x]\n", "needs names with points"),
        ("[by_hand.total.criteria]\na = 1\n", "of no other task"),
        ("[by_hand.x.criteria]\na = -1\n", "0 or more"),
        ("[by_hand.x.criteria]\na = 1\n[by_hand.x.meaning]\nb = 'c'\n", "no such key"),
    ],
)
def test_a_faulty_rubric_is_refused(text: str, says: str) -> None:
    with pytest.raises(policy.PolicyError, match=says):
        policy.loads(text, COURSE)


# -- overrides --------------------------------------------------------------------------------------

PEOPLE = (
    roster.Person("Ada Lovelace", id="1", email="ada@x.edu", team="Red", line=2),
    roster.Person("Bob Builder", id="2", email="bob@x.edu", team="Red", line=3),
    roster.Person("Cleo Pires", id="3", email="cleo@x.edu", line=4),
)


def override(out: Path, *lines: str) -> None:
    (out / by_hand.OVERRIDES).write_text(
        "\n".join(["Student,Task,Points,Reason", *lines]) + "\n", encoding="utf-8"
    )


def test_an_override_counts_with_its_reason_and_survives_a_regrade(tmp_path: Path) -> None:
    full = TASK.points
    override(tmp_path, f"Cleo Pires,{TASK.id},{full},The check was wrong", "1,total,7,Oral exam")
    for _ in range(2):
        write(tmp_path, "ada", "cleo", people=PEOPLE, made=policy.Policy())
        table = rows(tmp_path)
        assert table["Cleo Pires"]["Total"] == str(full)
        assert table["Cleo Pires"]["Overridden"] == TASK.id
        assert table["Ada Lovelace"]["Total"] == "7"
        text = (tmp_path / "feedback/Cleo_Pires.html").read_text(encoding="utf-8")
        assert f"Set by the instructor: {full} points for {TASK.id}: The check was wrong" in text
    override(tmp_path)
    write(tmp_path, "ada", "cleo", people=PEOPLE, made=policy.Policy())
    assert rows(tmp_path)["Cleo Pires"]["Total"] == "0"


def test_who_handed_in_nothing_can_have_a_total(tmp_path: Path) -> None:
    override(tmp_path, "bob@x.edu,total,12,Oral exam")
    people = (*PEOPLE[1:2], PEOPLE[2])
    write(tmp_path, "cleo", people=people, made=policy.Policy())
    row = rows(tmp_path)["Bob Builder"]
    assert (row["Total"], row["Overridden"]) == ("12", "total")
    assert row["Note"] == "set by the instructor: Oral exam"
    assert "12 of" in list(rows(tmp_path, "gradebook_moodle.csv")["Bob"].values())[5]
    override(tmp_path, f"bob@x.edu,{TASK.id},1,Oral exam")
    with pytest.raises(HandError, match="handed nothing in; override the total"):
        write(tmp_path, "cleo", people=people, made=policy.Policy())


def test_an_override_gives_points_where_the_machine_failed(tmp_path: Path) -> None:
    broken = result("cleo")
    broken.infrastructure = "no sandbox"
    asked = [task for task in EXERCISE.tasks if not task.live]
    override(tmp_path, *(f"cleo,{task.id},1,read by hand" for task in asked))
    written = reporting.write_all(COURSE, [broken], tmp_path)
    assert rows(tmp_path)["cleo"]["Total"] == str(sum(task.core for task in asked))
    assert written.needs_look == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"zoe,{TASK.id},1,why", "line 2: zoe: no submission of that name"),
        ("cleo,ex_33.nothing,1,why", "'ex_33.nothing' is no task"),
        (f"cleo,{TASK.id},1,", "needs points and a reason"),
        (f"cleo,{TASK.id},,why", "needs points and a reason"),
        (f"cleo,{TASK.id},{TASK.points + 1},why", "allowed: 0 to"),
    ],
)
def test_a_faulty_override_is_refused_with_its_line(tmp_path: Path, line: str, says: str) -> None:
    override(tmp_path, line)
    with pytest.raises(HandError, match=says):
        write(tmp_path, "cleo")


# -- teams, and what is given back --------------------------------------------------------------------


@pytest.mark.parametrize("entry", ["red", "ada", "bob@x.edu"])
def test_one_hand_in_counts_for_a_team(tmp_path: Path, entry: str) -> None:
    found = [result(entry, "passed"), result("cleo")]
    reporting.write_all(COURSE, found, tmp_path, roster=PEOPLE)
    table = rows(tmp_path)
    assert table["Ada Lovelace"]["Total"] == table["Bob Builder"]["Total"] != "0"
    assert table["Bob Builder"]["ID"] == "2" and table["Cleo Pires"]["Total"] == "0"
    for name, told in (
        ("Ada_Lovelace", "Ada Lovelace; Bob Builder"),
        ("Bob_Builder", "Ada Lovelace; Bob Builder"),
        ("Cleo_Pires", "Cleo Pires"),
    ):
        page = (tmp_path / "returned" / name / "feedback.html").read_text(encoding="utf-8")
        assert f"<h1>{told}</h1>" in page, "nobody gets a page with another's name alone"


def test_two_hand_ins_of_a_team_wait_for_a_person(tmp_path: Path) -> None:
    write(tmp_path, "ada", "bob", people=PEOPLE, made=policy.Policy())
    for name in ("Ada Lovelace", "Bob Builder"):
        row = rows(tmp_path)[name]
        assert row["State"] == "several submissions: ada; bob" and row["Total"] == ""


CANVAS, MOODLE = "pirescleo_LATE_77_1234_week.zip", "Cleo Pires_12_assignsubmission_file_"


def test_archives_are_named_as_canvas_and_moodle_want_them(tmp_path: Path) -> None:
    assert returned_name("cleo", "f.html") == ("", "")
    for entry, file, place in (
        (CANVAS, "returned_canvas.zip", "pirescleo_LATE_77_1234_feedback.html"),
        (MOODLE, "returned_moodle.zip", f"{MOODLE}/feedback.html"),
    ):
        write(tmp_path, entry, people=PEOPLE, made=policy.Policy())
        with zipfile.ZipFile(tmp_path / file) as archive:
            assert archive.namelist() == [place]
            assert b"Cleo Pires" in archive.read(place)
        write(tmp_path, "cleo", people=PEOPLE, made=policy.Policy())
        assert not (tmp_path / file).exists(), "left of an earlier run"


def test_pages_bear_the_rosters_names(tmp_path: Path) -> None:
    write(tmp_path, MOODLE, "zoe", people=PEOPLE, made=policy.Policy())
    assert {p.name for p in (tmp_path / "feedback").glob("*.md")} == {"Cleo_Pires.md", "zoe.md"}


# -- whose points changed ---------------------------------------------------------------------------


def graded(source: Path, out: Path, **options) -> reports.Summary:
    asked = Options(source, out, exercises=("ex_33",), seed=7, **options)
    return batch.grade(COURSE, asked, engine_of=fake.fake_engine)


def test_a_regrade_says_whose_points_changed_and_why(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(batch, "likeness", lambda plan, summary: [])
    source, out = tmp_path / "in", tmp_path / "out"
    fake.write_class(source, COURSE, ["ada", "bob"], ["ex_33"])
    assert graded(source, out).points_changed == []
    assert graded(source, out).points_changed == [], "nothing is new"
    stub = source / "ada" / EXERCISE.stub
    stub.write_text("# by ada, again\n", encoding="utf-8")
    changed = graded(source, out).points_changed
    (line,) = changed
    assert line.startswith("ada: total ") and line.endswith("(handed in anew)")
    count = len((out / "changes.csv").read_text(encoding="utf-8").splitlines()) - 1
    assert f"{count - 4} more tasks" in line
    override(out, "bob,total,50,oral exam")
    (line,) = batch.report(COURSE, out).points_changed
    assert line.startswith("bob: total ") and line.endswith("→ 50 (override: oral exam)")
    made = tmp_path / "policy.toml"
    made.write_text("[score]\ntotal = 1000\n", encoding="utf-8")
    (line,) = batch.report(COURSE, out, policy=made).points_changed
    assert line.startswith("ada: total ") and line.endswith("(the policy changed)")
    with (out / "changes.csv").open(encoding="utf-8", newline="") as file:
        kept = list(csv.DictReader(file))
    assert [row["Why"] for row in kept][-2:] == ["override: oral exam", "the policy changed"]
    assert len(kept) == count + 2
    made.write_text(RUBRIC, encoding="utf-8")
    table = batch.write_sheet(COURSE, out, made)
    text = table.read_text(encoding="utf-8").replace("ada,ada,,,", "ada,ada,4,2,Clear.")
    table.write_text(text, encoding="utf-8")
    changed = batch.report(COURSE, out, policy=made).points_changed
    assert "deep_dive_text none → 6 (entered by a person)" in changed[0]
    with pytest.raises(LabError, match="nothing for a person to grade"):
        batch.write_sheet(COURSE, out)


def test_a_faulty_table_is_said_before_anything_is_judged(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    fake.write_class(source, COURSE, ["ada"], ["ex_33"])
    out.mkdir()
    override(out, "zoe,total,1,why")
    with pytest.raises(LabError, match="zoe: no submission of that name"):
        graded(source, out)
    assert not (out / "results.jsonl").read_bytes()
