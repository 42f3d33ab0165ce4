"""Who is in the class: a roster as Canvas, Moodle, GitHub Classroom or a spreadsheet write it.

An entry of the submissions folder is matched to a row by what is in its name, by stated rules and
without guessing: what matches no row, or several, is listed for a person.
"""

from __future__ import annotations

import csv
import difflib
import io
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path

from grading.grader.intake.owners import identify
from profiling_lab.errors import LabError

LARGEST_BYTES = 16 << 20
# By the field that it fills: headers in lower case. Canvas: "Gradebook export"; Moodle: "Participants"
# and grade export; GitHub Classroom: "Download roster".
HEADERS = {
    "name": ("student", "name", "full name", "student name", "display name"),
    "first": ("first name", "firstname", "given name"),
    "last": ("last name", "lastname", "surname", "family name"),
    "id": ("id number", "idnumber", "student id", "student number", "identifier", "id"),
    "sis_id": ("sis user id",),
    "login": ("sis login id", "login", "login id", "username", "user name"),
    "email": ("email", "email address", "e-mail", "e-mail address", "mail"),
    "section": ("section", "sections", "group", "groups", "class"),
    "team": ("team", "group_name", "group name", "project group"),
    "github": ("github_username", "github username", "github"),
    "submitted_at": ("submitted_at", "submitted at", "handed in", "submission time"),
    "moodle_at": ("last modified (submission)",),
}
# How Moodle's grading worksheet writes a time in English, and numbers who has no ID number.
MOODLE_TIME = "%A, %d %B %Y, %I:%M %p"
MOODLE_NUMBER = "Participant "


class RosterError(LabError):
    """A roster cannot be used; the message names file and line and says what to do."""


class HandedInNothing(LabError):
    """A student of the roster is meant who has no submission. line: of the roster."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Person:
    """A row of the roster; what the file does not tell is "".

    id: the number that the university gives. canvas_id: Canvas's own. submitted_at: seconds since 1970 of the
    hand-in, None where the roster does not say. team: whose one hand-in counts for all in it. line: where the row stands.
    """

    name: str
    id: str = ""
    email: str = ""
    section: str = ""
    team: str = ""
    login: str = ""
    sis_id: str = ""
    canvas_id: str = ""
    github: str = ""
    first: str = ""
    last: str = ""
    submitted_at: float | None = None
    line: int = 0

    @property
    def address(self) -> str:
        """The e-mail address; a login that is one stands in where the class list has no column of its own."""
        return self.email or (self.login if "@" in self.login else "")

    @property
    def names(self) -> tuple[str, ...]:
        """All by which a policy or a message may name this person."""
        every = (self.id, self.sis_id, self.login, self.email, self.github, self.name)
        return tuple(dict.fromkeys(name for name in every if name))


@dataclass(frozen=True)
class Unmatched:
    """An entry without its row: why, and the names that come nearest."""

    entry: str
    why: str
    nearest: tuple[str, ...] = ()


@dataclass
class Joined:
    """Entries and rows brought together. by_entry: rows; entries: of each row, by its line."""

    by_entry: dict[str, Person] = field(default_factory=dict)
    entries: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    unmatched: list[Unmatched] = field(default_factory=list)


def read_roster(path: Path, zone: tzinfo | None = None) -> tuple[Person, ...]:
    """The rows of a roster. Raises RosterError if it cannot be used.

    zone: of the times in Moodle's grading worksheet, which name none; without it they are not known.
    """
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise RosterError(f"{path}: larger than {LARGEST_BYTES >> 20} MiB; is it a roster?")
        raw = path.read_bytes()
    except OSError as error:
        raise RosterError(f"{path}: the roster cannot be read ({error.strerror})") from None
    wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise RosterError(
            f"{path}: not UTF-8; export it again, or save it as 'CSV UTF-8' in the spreadsheet"
        ) from None
    return _rows(text, str(path), zone)


def _rows(text: str, source: str, zone: tzinfo | None) -> tuple[Person, ...]:
    text = text.replace("\0", "")
    head = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    people: list[Person] = []
    columns: dict[str, int] = {}
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if not columns:
                columns = _columns(row, source)
            elif person := _person(row, columns, reader.line_num, source, zone):
                people.append(person)
    except csv.Error as error:
        raise RosterError(f"{source}, line {reader.line_num}: not CSV ({error})") from None
    if not people:
        raise RosterError(f"{source}: no students in it; a header and a row for each are needed")
    _refuse_doubles(people, source)
    return tuple(people)


def _columns(header: Sequence[str], source: str) -> dict[str, int]:
    words = [cell.strip().casefold() for cell in header]
    out: dict[str, int] = {}
    for name, known in HEADERS.items():
        for word in known:
            if word in words:
                out[name] = words.index(word)
                break
    if "sis user id" in words or "sis login id" in words:
        # In an export of Canvas the column ID holds Canvas's own numbers.
        if "id" in words:
            out["canvas_id"] = words.index("id")
        out.pop("id", None)
    if not {"name", "last", "id", "email", "login", "github"} & out.keys():
        raise RosterError(
            f"{source}, line 1: no column tells who a student is; one of Name (or First name and "
            f"Last name), ID, Email is needed, found: {', '.join(header)[:200]}"
        )
    return out


def _person(
    row: Sequence[str], columns: dict[str, int], line: int, source: str, zone: tzinfo | None
) -> Person | None:
    values = {
        name: " ".join(row[at].split()) if at < len(row) else "" for name, at in columns.items()
    }
    handed_in = _time(values.pop("submitted_at", ""), line, source)
    if handed_in is None:
        handed_in = _moodle_time(values.pop("moodle_at", ""), zone)
    values.pop("moodle_at", "")
    if values.get("id", "").startswith(MOODLE_NUMBER):
        values["id"] = ""
    name = values.get("name", "")
    if name.startswith("Points Possible") or name == "Student, Test":
        return None  # Canvas's own rows
    if not name:
        parts = (values.get("first", ""), values.get("last", ""))
        values["name"] = (
            " ".join(part for part in parts if part)
            or values.get("email", "")
            or values.get("id", "")
            or values.get("github", "")
            or values.get("login", "")
        )
    if not values["name"]:
        return None
    return Person(line=line, submitted_at=handed_in, **values)


def _time(text: str, line: int, source: str) -> float | None:
    """Seconds since 1970 of a time such as 2026-12-04 23:59+01:00; None for none."""
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise RosterError(
            f"{source}, line {line}: submitted_at is {text!r}; write a time with its zone, say "
            "2026-12-04T23:59:00+01:00, or leave the cell empty"
        )
    return when.timestamp()


def _moodle_time(text: str, zone: tzinfo | None) -> float | None:
    """Seconds since 1970 of a time in Moodle's grading worksheet; None for "-" and for another language's."""
    if zone is None:
        return None
    try:
        return datetime.strptime(text, MOODLE_TIME).replace(tzinfo=zone).timestamp()
    except ValueError:
        return None


def _refuse_doubles(people: Sequence[Person], source: str) -> None:
    for what in ("id", "sis_id", "canvas_id", "login", "email"):
        seen: dict[str, int] = {}
        for person in people:
            value = getattr(person, what).casefold()
            if value and value in seen:
                raise RosterError(
                    f"{source}, line {person.line}: {what.replace('_', ' ')} {value!r} is in "
                    f"line {seen[value]} already; remove one of the two rows"
                )
            seen[value] = person.line


# -- bringing together --------------------------------------------------------------------------------


def join(people: Sequence[Person], entries: Iterable[str]) -> Joined:
    """Match entries to rows; the first rule that finds any row decides.

    In order: the entry is an id, login, e-mail or GitHub name; it is a download of Canvas (number, then
    name) or of Moodle (name); it is a name, in either order; it ends in "-" and a GitHub name; it is what
    stands before the @ of an e-mail; it is a team's name. Case, accents, spaces and punctuation do not matter in names.
    """
    keys = _Keys(people)
    out = Joined()
    for entry in entries:
        found = keys.find(entry)
        if len(found) == 1 or (found and found[0].team and len({p.team for p in found}) == 1):
            out.by_entry[entry] = found[0]
            out.entries[found[0].line].append(entry)
        elif found:
            names = tuple(f"{person.name} (line {person.line})" for person in found[:5])
            out.unmatched.append(Unmatched(entry, "several rows of the roster match", names))
        else:
            out.unmatched.append(Unmatched(entry, "no row of the roster matches", keys.near(entry)))
    return out


def names_of(person: Person, people: Sequence[Person]) -> str:
    """A person's name, or those of the whole team, whose one hand-in it is."""
    team = [one.name for one in people if person.team and one.team == person.team]
    return "; ".join(team or [person.name])


def entry_of(wanted: str, entries: Sequence[str], people: Sequence[Person] = ()) -> str:
    """The entry that a person means by its name, its student's, or anything the class list says of one.

    Raises LabError, naming what comes close, if it is none or more than one.
    """
    if wanted in entries:
        return wanted
    names = {entry: identify(entry).name for entry in entries}
    plain = plain_name(wanted)
    found = {
        entry for entry, name in names.items() if plain in (plain_name(name), plain_name(entry))
    }
    persons = _Keys(people).find(wanted)
    joined = join(people, entries)
    for person in persons:
        found.update(joined.entries.get(person.line, ()))
    if len(found) == 1:
        return found.pop()
    if found:
        raise LabError(f"{wanted}: may be {'; '.join(sorted(found))}; name the entry")
    if persons:
        raise HandedInNothing(f"{wanted}: {persons[0].name} handed nothing in", persons[0].line)
    known = {plain_name(one): one for one in (*entries, *names.values())}
    known |= {plain_name(name): name for person in people for name in person.names}
    close = difflib.get_close_matches(plain, list(known), n=3, cutoff=0.5)
    near = "; ".join(dict.fromkeys(known[one] for one in close))
    raise LabError(
        f"{wanted}: no submission of that name{f' (near it: {near})' if near else ''}; write an entry's "
        "name, a student's, or what the class list has of one"
    )


class _Keys:
    def __init__(self, people: Sequence[Person]) -> None:
        self.exact: dict[str, list[Person]] = defaultdict(list)
        self.canvas: dict[str, list[Person]] = defaultdict(list)
        self.named: dict[str, list[Person]] = defaultdict(list)
        self.github: dict[str, list[Person]] = defaultdict(list)
        self.local: dict[str, list[Person]] = defaultdict(list)
        self.teams: dict[str, list[Person]] = defaultdict(list)
        self.shown: dict[str, str] = {}
        for person in people:
            exact = {person.id, person.sis_id, person.login, person.email, person.github}
            for value in {value.casefold() for value in exact if value}:
                self.exact[value].append(person)
            if person.canvas_id:
                self.canvas[person.canvas_id].append(person)
            if person.github:
                self.github[person.github.casefold()].append(person)
            if "@" in person.address:
                self.local[person.address.split("@")[0].casefold()].append(person)
            if team := plain_name(person.team):
                self.teams[team].append(person)
            for value in _name_keys(person):
                self.named[value].append(person)
                self.shown[value] = person.name

    def find(self, entry: str) -> list[Person]:
        bare = entry.strip().casefold()
        ways = [self.exact.get(bare)]
        said = identify(entry)
        if said.number and not said.kind:  # Moodle's number is of the assignment, not of the user
            ways.append(self.canvas.get(said.number))
        ways += [self.named.get(plain_name(said.name)), self.named.get(plain_name(entry))]
        ways.append(
            [
                person
                for name, people in self.github.items()
                if bare.endswith("-" + name)
                for person in people
            ]
        )
        ways += [self.local.get(bare), self.teams.get(plain_name(said.name))]
        return next((found for found in ways if found), [])

    def near(self, entry: str) -> tuple[str, ...]:
        wanted = plain_name(identify(entry).name)[:100]
        close = difflib.get_close_matches(wanted, list(self.shown), n=6, cutoff=0.5)
        words = {plain_name(word) for word in entry.replace("_", " ").split()} - {""}
        shares = [
            name
            for name in dict.fromkeys(self.shown.values())
            if words & {plain_name(word) for word in name.split()}
        ]
        return tuple(dict.fromkeys([*shares, *(self.shown[key] for key in close)]))[:3]


def _name_keys(person: Person) -> set[str]:
    names = {person.name}
    if "," in person.name:
        last, _, first = person.name.partition(",")
        names.add(f"{first} {last}")
    if person.first and person.last:
        names |= {f"{person.first} {person.last}", f"{person.last} {person.first}"}
    words = person.name.split()
    if len(words) == 2:
        names.add(f"{words[1]} {words[0]}")
    return {key for name in names if (key := plain_name(name))}


def plain_name(text: str) -> str:
    """A name without case, accents, spaces and punctuation."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if char.isalnum()).casefold()
