"""Gradebooks: everybody in them once, nothing lost, numbers of the results, nothing that computes."""

from __future__ import annotations

import csv
import io
import re
from fractions import Fraction
from pathlib import Path

import pytest

from grading.gradebook import gradebook, reporting, roster
from grading.gradebook.policy import Policy
from grading.gradebook.roster import Person, join, read_roster
from profiling_lab.errors import LabError
from tests.harness.class_tables import COURSE, IDS, SCALED, cell, drawn, table
from tests.harness.test_roster import CANVAS, PEOPLE


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("class")
    reporting.write_all(COURSE, out=out, policy=SCALED, **drawn.whole(COURSE, IDS))
    return out


# -- gradebook.csv ------------------------------------------------------------------------------------


def test_everybody_of_the_roster_has_one_row_in_its_order(out):
    rows = table(out / "gradebook.csv")
    assert [row["Student"] for row in rows] == [person.name for person in drawn.people()]
    assert [row["ID"] for row in rows] == [person.id for person in drawn.people()]
    assert {row["Section"] for row in rows} == {"A", "B"}


def test_points_are_those_of_the_results(out):
    rows = {row["Submission"]: row for row in table(out / "gradebook.csv")}
    earned: dict[str, int] = {}
    for result in drawn.results([COURSE.exercise(name) for name in IDS]):
        if result.student not in rows or result.infrastructure:
            continue
        row = rows[result.student]
        tasks = COURSE.tasks
        points = sum(task.earned for name, task in result.tasks.items() if tasks[name].core)
        earned[result.student] = earned.get(result.student, 0) + points
        assert cell(row, result.exercise) == str(points)
        for name, task in result.tasks.items():
            assert cell(row, name) == ("" if task.live else str(task.earned))
    possible = sum(COURSE.exercise(name).points for name in IDS)
    for student, points in earned.items():
        row = rows[student]
        if row["Left to grade"]:
            continue
        assert row["Total before late rules"] == SCALED.show(Fraction(100 * points, possible))
        days = int(row["Days late"] or 0)
        assert row["Total"] == SCALED.show(Fraction(100 * points, possible) * (10 - days) / 10)
        assert row["Out of"] == "100"
    assert any(row["Days late"] for row in rows.values())


def without_the_unknown() -> dict:
    """The class without the submission that no row of the roster matches."""
    given = drawn.whole(COURSE, IDS)
    given["results"] = [one for one in given["results"] if one.student != drawn.HOSTILE]
    given["submissions"] = [one for one in given["submissions"] if one.student != drawn.HOSTILE]
    return given


def test_who_handed_nothing_in_has_a_zero_and_why(tmp_path):
    reporting.write_all(COURSE, out=tmp_path, policy=SCALED, **without_the_unknown())
    row = table(tmp_path / "gradebook.csv")[drawn.ABSENT]
    assert (row["State"], row["Total"], row["Submission"]) == ("no submission", "0", "")
    assert cell(row, "ex_30.busy_time") == "0" and cell(row, "ex_30.pipeline_improved_live") == ""
    moodle = table(tmp_path / "gradebook_moodle.csv")[drawn.ABSENT]
    assert list(moodle.values())[4:] == ["0", "0 of 100 points: no submission"]


def test_while_a_submission_is_nobodys_who_handed_nothing_in_has_no_zero(out):
    """It may be theirs."""
    for at in (drawn.ABSENT, drawn.UNKNOWN):
        row = table(out / "gradebook.csv")[at]
        assert (row["State"], row["Total"]) == ("no submission", "")
        assert row["Note"].startswith("no submission of this name, and 1 that match nobody. To do:")
        assert table(out / "gradebook_canvas.csv")[at + 1]["Week 7 (123)"] == ""


@pytest.mark.parametrize(
    "file", ["gradebook.csv", "gradebook_canvas.csv", "gradebook_moodle.csv", "class.md"]
)
def test_everybody_has_points_or_a_reason_and_what_to_do(out, file):
    text = (out / file).read_text(encoding="utf-8").replace("\\_", "_")
    people = drawn.people()
    for person in people:
        first = person.name.split()[0]
        (line,) = [
            line
            for line in text.splitlines()
            if line.startswith((person.name, f"| {person.name} |", f"{first},"))
        ]
        lacking = person in (people[drawn.ABSENT], people[drawn.UNKNOWN], people[drawn.BROKEN])
        said = "To do: " if file != "gradebook_moodle.csv" else "no points yet: "
        assert (said in line) == lacking, line
        assert file != "gradebook_moodle.csv" or "To do" not in line, "students read it"
    assert "ex_30: the sandbox did not start" in text


def test_the_list_of_what_needs_a_look_stands_first(out):
    for page in ("class.md", "class.html"):
        text = (out / page).read_text(encoding="utf-8")
        assert text.index("Needs a look") < text.index("Distribution") < text.index("busy_time")
        look = text.split("Needs a look")[1].split("Distribution")[0]
        assert "no row of the roster matches" in look and "To do: rename it" in look
        assert "the sandbox did not start" in look and "To do: run the same command" in look


def test_the_login_is_the_address_where_it_is_one(tmp_path):
    file = tmp_path / "class.csv"
    file.write_text(CANVAS, encoding="utf-8")
    people = read_roster(file)
    reporting.write_all(COURSE, [], tmp_path, roster=people)
    rows = table(tmp_path / "gradebook_moodle.csv")
    assert [row["Email address"] for row in rows] == ["ada@x.edu", "grace@x.edu"]
    assert join(people, ["ada"]).by_entry["ada"].name == "Lovelace, Ada"


@pytest.mark.parametrize(
    ("wanted", "entry"),
    [
        ("hoppergrace_555_1234_week", "hoppergrace_555_1234_week"),
        ("Grace Hopper", "hoppergrace_555_1234_week"),
        ("grace hopper", "hoppergrace_555_1234_week"),
        ("hoppergrace", "hoppergrace_555_1234_week"),
        ("u2", "hoppergrace_555_1234_week"),
        ("ghopper", "hoppergrace_555_1234_week"),
        ("Ada Lovelace", "ada@x.edu"),
        ("lovelaceada", "ada@x.edu"),
    ],
)
def test_a_student_is_found_by_any_of_their_names(wanted, entry):
    assert roster.entry_of(wanted, ENTRIES, PEOPLE) == entry


ENTRIES = ["hoppergrace_555_1234_week", "ada@x.edu", "Zoe Zed"]


def test_a_student_who_is_not_found_is_told_with_the_names_near_it():
    assert roster.entry_of("zoe zed", ENTRIES) == "Zoe Zed"
    for wanted, says in (
        ("Grase Hoper", r"Grase Hoper: no submission of that name \(near it: .*Grace Hopper"),
        ("José Álvarez", "José Álvarez handed nothing in"),
        ("xyz", "xyz: no submission of that name; write an entry"),
    ):
        with pytest.raises(LabError, match=says):
            roster.entry_of(wanted, ENTRIES, PEOPLE)


def test_infrastructure_is_an_empty_cell_and_a_mark(out):
    row = table(out / "gradebook.csv")[drawn.BROKEN]
    assert (row["Total"], row["Left to grade"]) == ("", "ex_30")
    assert row["State"] == "left to grade"
    assert cell(row, "ex_30") == "" and cell(row, "ncu_ex01") != ""
    assert cell(row, "ex_30.busy_time") == ""
    assert int(row["Infrastructure tasks"]) == len(COURSE.exercise("ex_30").tasks) - 1


def test_counts_claims_and_flags_have_their_columns(out):
    rows = table(out / "gradebook.csv")
    graded = [row for row in rows if row["State"] == "graded"]
    asked = sum(not task.live for name in IDS for task in COURSE.exercise(name).tasks)
    for row in graded:
        names = ("Passed", "Failed", "Error", "Blocked", "Todo", "Not run", "Infrastructure")
        assert sum(int(row[f"{name} tasks"]) for name in names) == asked
    assert any(row["Claims"] not in ("", "0") for row in graded)
    assert [row["Submission"] for row in rows if row["Likeness flags"]] == ["s1001", "s1002"]


def test_a_submission_without_a_row_is_kept_apart_with_its_points(out):
    rows = table(out / "unmatched.csv")
    assert len(rows) == 1
    assert rows[0]["Why"] == "no row of the roster matches"
    assert rows[0]["Total"] and rows[0]["Submission"].startswith("'=cmd")
    # Its student has a row all the same, without a submission.
    assert table(out / "gradebook.csv")[drawn.UNKNOWN]["State"] == "no submission"


def test_several_submissions_of_one_student_wait_for_a_person(tmp_path):
    given = drawn.whole(COURSE, IDS)
    again = drawn.whole(COURSE, IDS)["results"]
    double = [result for result in again if result.student == "s1003"]
    for result in double:
        result.student = "Zoë Krüger"
    given["results"] += double
    reporting.write_all(COURSE, out=tmp_path, policy=SCALED, **given)
    row = table(tmp_path / "gradebook.csv")[3]
    assert row["State"] == "several submissions: Zoë Krüger; s1003" and row["Total"] == ""
    assert "To do: keep the one that counts" in row["Note"]
    apart = {row["Submission"]: row for row in table(tmp_path / "unmatched.csv")}
    assert {"Zoë Krüger", "s1003"} < set(apart) and apart["s1003"]["Total"] != ""
    canvas = {row["Student"]: row for row in table(tmp_path / "gradebook_canvas.csv")[1:]}
    assert canvas["Zoë Krüger"]["Week 7 (123)"] == ""


def test_without_a_roster_every_submission_has_a_row(tmp_path):
    given = drawn.whole(COURSE, IDS) | {"roster": None}
    reporting.write_all(COURSE, out=tmp_path, **given)
    assert len(table(tmp_path / "gradebook.csv")) == 29
    assert not (tmp_path / "unmatched.csv").exists()


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "＝1+1", "＠x"])
def test_no_cell_is_a_formula(start):
    assert gradebook.harmless(start)[0] not in "=+-@\t\r＝＋－＠"
    person = Person(start, id=start, email=start, section=start)
    row = gradebook.Row(start, person, start)
    sheet = reporting.Sheet((COURSE.exercise("ex_30"),), Policy())
    for text in (
        gradebook.gradebook_csv([row], sheet),
        gradebook.canvas_csv(COURSE, [row], sheet),
        gradebook.moodle_csv(COURSE, [row], sheet),
        gradebook.unmatched_csv([(row, gradebook.Unmatched(start, start, (start,)))], sheet),
    ):
        for line in csv.reader(io.StringIO(text)):
            assert not [cell for cell in line if cell.startswith(gradebook.FORMULA)]


def test_no_cell_holds_a_line_break(out):
    for file in out.glob("*.csv"):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(list(csv.reader(lines)))


# -- Canvas and Moodle --------------------------------------------------------------------------------


def test_canvas_takes_the_file(out):
    """By the rules of Canvas' importer (lib/gradebook_importer.rb)."""
    rows = list(csv.reader((out / "gradebook_canvas.csv").open(encoding="utf-8", newline="")))
    header, possible, *students = rows
    assert len(header) > 3 and "Student" in header[0] and "ID" in header[1]
    assert re.search(r"SIS\s+User\s+ID", header[2]) and re.search(r"SIS\s+Login\s+ID", header[3])
    assert "Section" in header[4]
    assert header[5:] == ["Day 1 (124)", "Week 7 (123)", "Final Grade note"]
    assert re.search("Final Grade", header[-1]), "Canvas leaves such a column out"
    assert "Points Possible" in possible[0] and possible[5:] == [
        *(str(COURSE.exercise("ex_30").points), "100", "")
    ]
    assert {len(row) for row in rows} == {len(header)}
    assert len(students) == 30
    for row in students:
        assert row[2].startswith("s1")
        assert "To do: " in row[7] if row[6] == "" else 0 <= float(row[6]) <= 100
        assert row[1] == "", "an unknown number under ID would be another student's"


def test_canvas_gets_points_after_late_rules(out):
    plain = {row["ID"]: row for row in table(out / "gradebook.csv")}
    rows = table(out / "gradebook_canvas.csv")[1:]
    late = 0
    for row in rows:
        one = plain[row["SIS User ID"]]
        days = int(one["Days late"] or 0)
        late += days > 0
        assert row["Week 7 (123)"] == one["Total"]
        if not one["Total"]:
            continue
        after = Fraction(cell(one, "ex_30")) * (10 - days) / 10
        assert row["Day 1 (124)"] == SCALED.show(after)
    assert late


def test_moodle_takes_the_file(out):
    rows = list(csv.reader((out / "gradebook_moodle.csv").open(encoding="utf-8", newline="")))
    header, *students = rows
    assert header[:4] == ["First name", "Last name", "ID number", "Email address"]
    assert header[5] == f"{header[4]} (feedback)"
    assert len(students) == 30
    for row in students:
        assert "@" in row[3]
        assert row[5].startswith("no points yet: ") if row[4] == "" else 0 <= float(row[4]) <= 100


def test_moodle_grades_are_on_the_items_scale(tmp_path):
    reporting.write_all(COURSE, out=tmp_path, **drawn.whole(COURSE, IDS))
    plain = {row["ID"]: row for row in table(tmp_path / "gradebook.csv")}
    full = sum(COURSE.exercise(name).points for name in IDS)
    for row in table(tmp_path / "gradebook_moodle.csv"):
        if not row[COURSE.title]:
            assert plain[row["ID number"]]["Total"] == ""
            continue
        points = Fraction(plain[row["ID number"]]["Total"])
        assert row[COURSE.title] == Policy().show(points * 100 / full)
