"""The roster, dates of hand-ins, and which row an entry finds."""

from __future__ import annotations

import re
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from grading.gradebook import reporting, roster
from grading.gradebook.opening import opening
from grading.gradebook.policy import Policy
from grading.gradebook.roster import Person, RosterError, join, read_roster
from grading.grader.batches.reports import Reports
from grading.grader.intake.submissions import Submission
from tests.harness.class_tables import COURSE, SCALED, roster_file, table

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


WORKSHEET = """\
Identifier,Full name,Email address,Status,Grade,Maximum grade,Grade can be changed,Last modified (submission),Last modified (grade)
Participant 711,Ada Lovelace,ada@example.edu,Submitted for grading,,100.00,Yes,"Monday, 1 December 2025, 12:00 PM",-
Participant 712,Bob Builder,bob@example.edu,No submission,,100.00,Yes,-,-
Participant 713,Eve Evans,eve@example.edu,Abgegeben,,100.00,Yes,"Montag, 1. Dezember 2025, 12:00",-
"""


def test_moodles_grading_worksheet_says_when_something_was_handed_in(tmp_path):
    (tmp_path / "sheet.csv").write_text(WORKSHEET, encoding="utf-8")
    zone = timezone(timedelta(hours=1))
    people = read_roster(tmp_path / "sheet.csv", zone)
    assert [person.submitted_at for person in people] == [1764586800, None, None]
    assert [person.id for person in people] == [
        "",
        "",
        "",
    ]  # Moodle's own numbers are no ID numbers
    # It names no zone: without a deadline there is none to take, and none is needed.
    assert not any(person.submitted_at for person in read_roster(tmp_path / "sheet.csv"))


def test_dates_of_moodle_are_in_the_zone_of_the_deadline(tmp_path):
    (tmp_path / "sheet.csv").write_text(WORKSHEET, encoding="utf-8")
    policy = tmp_path / "policy.toml"
    policy.write_text("[deadline]\nat = 2025-12-01T11:00:00+02:00\n")
    ada, *_ = Reports(COURSE, policy, tmp_path / "sheet.csv").roster or ()
    assert ada.submitted_at == 1764583200


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
