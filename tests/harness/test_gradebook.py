"""Gradebooks: everybody in them once, nothing lost, numbers of the results, nothing that computes."""

from __future__ import annotations

import csv
import io
import re
from fractions import Fraction
from pathlib import Path

import pytest

from grading.gradebook import gradebook, policy, reporting, roster
from grading.gradebook.opening import opening
from grading.gradebook.policy import Policy
from grading.gradebook.roster import Person, RosterError, join, read_roster
from grading.grader.intake.submissions import Submission
from profiling_lab.course import manifest
from profiling_lab.errors import LabError
from profiling_lab.mine.functions import load_file

drawn = load_file(Path(__file__).with_name("drawn_class.py"), "drawn_class")
COURSE = manifest.load()
IDS = ("ex_30", "ncu_ex01")
SCALED = policy.loads(
    """
[score]
total = 100
[deadline]
at = 2025-11-30T12:00:00+01:00
per_day_pct = 10
[canvas]
total = "Week 7 (123)"
[canvas.exercises]
ex_30 = "Day 1 (124)"
""",
    COURSE,
)


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("class")
    reporting.write_all(COURSE, out=out, policy=SCALED, **drawn.whole(COURSE, IDS))
    return out


def table(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"), newline="")))


def cell(row: dict[str, str], start: str) -> str:
    return next(value for name, value in row.items() if name.startswith(start + " (of"))


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
        ("xyz", "xyz: no submission of that name; --student takes"),
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


# -- the roster ---------------------------------------------------------------------------------------


def roster_file(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "roster.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Day 1 (1)
    Points Possible,,,,,10
"Lovelace, Ada",77,u1,ada@x.edu,"A, and B",
"Student, Test",99,,abc,A,
"Hopper, Grace",78,u2,grace@x.edu,A,
"""


def test_a_roster_of_canvas(tmp_path):
    ada, grace = read_roster(roster_file(tmp_path, CANVAS))
    assert (ada.name, ada.canvas_id, ada.sis_id, ada.login, ada.id) == (
        *("Lovelace, Ada", "77", "u1", "ada@x.edu", ""),
    )
    assert grace.line == 5


@pytest.mark.parametrize(
    "text",
    [
        "First name,Last name,ID number,Email address,Groups\nAda,Lovelace,u1,ada@x.edu,A\n",
        "name;id;email;section\nAda Lovelace;u1;ada@x.edu;A\n",
        "Name\tStudent ID\tE-mail\tSection\r\n\r\nAda Lovelace\tu1\tada@x.edu\tA\r\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_rosters_of_other_systems(tmp_path, text, encoding):
    (ada,) = read_roster(roster_file(tmp_path, text.encode(encoding)))
    assert (ada.name, ada.id, ada.email, ada.section) == ("Ada Lovelace", "u1", "ada@x.edu", "A")


def test_a_roster_of_github_classroom(tmp_path):
    text = 'identifier,github_username,github_id,name\n"u1","ada-l","123",""\n'
    (ada,) = read_roster(roster_file(tmp_path, text))
    assert (ada.name, ada.github) == ("u1", "ada-l")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no students in it"),
        ("name,id\n", "no students in it"),
        ("colour,size\nred,3\n", "line 1: no column tells who a student is"),
        ("name,id\nA,1\nB,2\nC,1\n", "line 4: id '1' is in line 2 already"),
        ("name,email\nA,a@x\nB,A@X\n", "line 3: email 'a@x' is in line 2 already"),
        (b"name,id\n\xff,1\n", "not UTF-8"),
        ('name,id\n"A,1\n' + "x" * 200_000, "not CSV"),
    ],
)
def test_a_bad_roster_is_refused_with_its_line(tmp_path, text, says):
    with pytest.raises(RosterError, match=re.escape(says)):
        read_roster(roster_file(tmp_path, text))


def test_a_roster_that_is_not_there():
    with pytest.raises(RosterError, match="cannot be read"):
        read_roster(Path("/nowhere/roster.csv"))


PEOPLE = (
    Person("Lovelace, Ada", sis_id="u1", canvas_id="77", email="ada@x.edu", line=2),
    Person("Grace Hopper", id="u2", email="grace@x.edu", github="ghopper", line=3),
    Person("José Álvarez", id="u3", email="grace@y.edu", first="José", last="Álvarez", line=4),
)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ("u1", 2),
        ("U2", 3),
        ("ADA@x.edu", 2),
        ("ada", 2),
        ("Ada Lovelace", 2),
        ("lovelaceada_77_1234_week.zip", 2),
        ("lovelaceada_LATE_77_1234_week", 2),
        ("hoppergrace_555_1234_week", 3),
        ("Grace Hopper_9812_assignsubmission_file_", 3),
        ("Jose\u0301 A\u0301lvarez", 4),
        ("Álvarez José", 4),
        ("profiling-week-ghopper", 3),
        ("grace", None),
        ("nobody", None),
        ("", None),
    ],
)
def test_an_entry_finds_its_row_by_stated_rules(entry, line):
    joined = join(PEOPLE, [entry])
    found = joined.by_entry.get(entry)
    assert (found.line if found else None) == line
    assert bool(joined.unmatched) == (line is None)


def test_what_matches_no_row_names_the_nearest():
    (why,) = join(PEOPLE, ["Grase Hoper_12_assignsubmission_file_"]).unmatched
    assert why.nearest == ("Grace Hopper",)
    (why,) = join(PEOPLE, ["jose final version 2"]).unmatched
    assert why.nearest == ("José Álvarez",)
    (several,) = join(PEOPLE, ["grace"]).unmatched
    assert several.why == "several rows of the roster match" and len(several.nearest) == 2


def test_a_row_that_two_entries_match_keeps_both():
    assert join(PEOPLE, ["u1", "Ada Lovelace"]).entries[2] == ["u1", "Ada Lovelace"]
    assert roster.plain_name("Łukasz  O'Brien-ß") == "łukaszobrienss"


# -- dates ------------------------------------------------------------------------------------------


def handed_in(entry: str, at: float | None = None) -> Submission:
    return Submission(entry, Path("nowhere"), "", {}, submitted_at=at)


LISTED = "Name,submitted_at\nAda Lovelace,2025-12-01T12:00:00+01:00\nBob Builder,\nEve Evans,\n"


def test_the_class_list_says_when_something_was_handed_in(tmp_path):
    (tmp_path / "class.csv").write_text(LISTED)
    ada, bob, _ = read_roster(tmp_path / "class.csv")
    commit = 1764500000.0
    assert reporting.handed_in_at(handed_in("Ada Lovelace", commit), ada) == 1764586800
    assert reporting.handed_in_at(handed_in("Bob Builder", commit), bob) == commit
    assert reporting.handed_in_at(handed_in("Bob Builder"), bob) is None


@pytest.mark.parametrize("time", ["yesterday", "2025-12-01T12:00:00"])
def test_a_time_without_its_zone_is_refused_with_its_line(tmp_path, time):
    (tmp_path / "class.csv").write_text(f"Name,submitted_at\nAda,{time}\n")
    with pytest.raises(RosterError, match="line 2: submitted_at is .*with its zone"):
        read_roster(tmp_path / "class.csv")


def test_what_canvas_marks_late_without_a_date_costs_nothing_and_is_said(tmp_path):
    entry = "lovelaceada_LATE_12_34_work.zip"
    reporting.write_all(
        COURSE, [], tmp_path, policy=SCALED, roster=None, submissions=[handed_in(entry)]
    )
    assert table(tmp_path / "gradebook.csv")[0]["Days late"] == ""
    (page,) = (tmp_path / "feedback").glob("*.md")
    assert "Canvas marks it late; how late is not known" in page.read_text(encoding="utf-8")


def test_a_run_begins_with_what_it_has_understood(tmp_path):
    (tmp_path / "class.csv").write_text(LISTED)
    people = read_roster(tmp_path / "class.csv")
    entries = [
        handed_in("Ada Lovelace"),
        handed_in("Bob Builder", 1764500000.0),
        handed_in("Zoe"),
        handed_in("evanseve_LATE_12_34_work.zip"),
    ]
    lines = opening(entries, people, SCALED)
    assert lines[0] == "class list: 3 students; 3 of 4 submissions match one; no match: Zoe"
    fewer = opening(entries[:2], people, SCALED)
    assert (
        fewer[0]
        == "class list: 3 students; 2 of 2 submissions match one; nothing handed in: Eve Evans"
    )
    assert "dates: 1 from the class list, 1 from the last commit; 2 not known" in lines[1]
    assert lines[1].endswith("marked LATE by Canvas without a date: evanseve_LATE_12_34_work.zip")
    assert lines[2] == "policy: 100 points in all; due 2025-11-30 12:00:00+01:00"
    without = opening(entries, None, Policy())
    assert without[0].startswith("class list: none given")
    assert without[1] == "dates: not used, the policy has no deadline"
