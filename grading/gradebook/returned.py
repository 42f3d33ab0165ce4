"""Feedback ready to be given back: a folder a student, and archives that Canvas and Moodle take for a whole class.

    returned/NAME/feedback.html     by the roster's name
    returned_canvas.zip             Canvas: *Upload Submissions*, names as it downloads them
    returned_moodle.zip             Moodle: *Upload multiple feedback files in a zip*, folders as it downloads them

The archives are there when the submissions' names are those of Canvas or Moodle, which hold the numbers they need.
Canvas: `infer_comment_context_from_filename` (instructure/canvas-lms). Moodle: assignfeedback_file, importziplib.php.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from grading.gradebook.gradebook import Row
from grading.gradebook.roster import Unmatched
from grading.grader.intake.owners import returned_name
from profiling_lab.atomic_files import replaced

FOLDER, FILE = "returned", "feedback.html"
ARCHIVES = {"canvas": "returned_canvas.zip", "moodle": "returned_moodle.zip"}
NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same results give the same bytes


def write(
    out: Path, rows: Sequence[tuple[str, Row]], apart: Sequence[tuple[Row, Unmatched]]
) -> list[Path]:
    """Write folders and archives from the pages in `feedback/`; returns the files.

    rows: each with its folder's name; a team's page goes to each of the team.
    """
    written: list[Path] = []
    shutil.rmtree(out / FOLDER, ignore_errors=True)
    archived: dict[str, dict[str, bytes]] = {system: {} for system in ARCHIVES}
    # The number in an entry's name says whose it is, also without the class list.
    for name, row in [*rows, *(("", row) for row, _ in apart)]:
        page = (out / "feedback" / f"{row.feedback}.html").read_bytes()
        system, place = returned_name(row.entry, FILE)
        if system:
            archived[system][place] = page
        if name:
            target = out / FOLDER / name / FILE
            target.parent.mkdir(parents=True)
            target.write_bytes(page)
            written.append(target)
    for system, pages in archived.items():
        target = out / ARCHIVES[system]
        if not pages:
            target.unlink(missing_ok=True)
            continue
        with (
            replaced(target) as draft,
            zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for place, page in sorted(pages.items()):
                archive.writestr(zipfile.ZipInfo(place, NO_TIME), page)
        written.append(target)
    return written
