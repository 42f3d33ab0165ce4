"""Whose an entry is, as its name says: Canvas's and Moodle's patterns are known, all else is the name."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from grading.grader.intake.refused import archive_stem


@dataclass(frozen=True)
class Identity:
    """What an entry's name says of whose it is.

    name: the student's part of it. number: the class system's own number of the user (the "ID" of
    Canvas' gradebook, Moodle's "Identifier" without "Participant"), "" if the name holds none.
    late: whether the class system marked it late. kind: what Moodle says that it is, "file" or
    "onlinetext"; "" otherwise.
    """

    name: str
    number: str = ""
    late: bool = False
    kind: str = ""


# Canvas (instructure/canvas-lms, lib/content_zipper.rb): name_LATE_user_attachment_file, "LATE_" only
# where it was. Moodle's folders: "Full Name_participant_assignsubmission_file_"; without folders, the
# file's name follows.
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?:(?P<late>LATE)_)?(?P<number>\d+)_\d+_.+", re.DOTALL)
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+)(?:_.*)?", re.DOTALL
)


def identify(entry: str) -> Identity:
    """Whose an entry is, as its name says: Moodle's and Canvas' patterns are known, all else is the name."""
    # The end of the name is the student's own file name, which may look like the other system's beginning.
    if found := _CANVAS.fullmatch(entry):
        return Identity(found["name"], found["number"], late=found["late"] is not None)
    if found := _MOODLE.fullmatch(entry):
        return Identity(found["name"], found["number"], kind=found["kind"])
    return Identity(archive_stem(entry))


def same_owner(one: Identity, other: Identity) -> bool:
    """Whether a class system's numbers say that two entries are of one student."""
    return bool(one.number) and (one.number, one.kind) == (other.number, other.kind)


def returned_name(entry: str, file: str) -> tuple[str, str]:
    """Which class system an entry came from ("canvas", "moodle" or ""), and how it wants `file` named to give it back."""
    said = identify(entry)
    if not said.number:
        return "", ""
    if said.kind:
        return "moodle", f"{said.name}_{said.number}_assignsubmission_{said.kind}_/{file}"
    found = _CANVAS.fullmatch(entry)
    assert found is not None  # what has a number is of one of the two
    late = "LATE_" if said.late else ""
    attachment = entry[found.end("number") + 1 :].partition("_")[0]
    return "canvas", f"{said.name}_{late}{said.number}_{attachment}_{file}"


def canonical(name: str) -> str:
    """A student's name for comparing entries with a roster: put both through it.

    Takes off what a class system or an archive adds; composes characters (NFKC), ignores case, and
    makes one space of several. "Ada  LOVELACE.zip" and "ada lovelace" are equal, "Lovelace, Ada" is not.
    """
    name = unicodedata.normalize("NFKC", identify(name).name).casefold()
    return " ".join(name.split())
