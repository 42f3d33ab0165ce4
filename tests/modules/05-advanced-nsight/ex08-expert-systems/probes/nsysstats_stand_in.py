"""Load a rule's file without Nsight Systems: a small `nsysstats` of the course's own, and a run of the rule.

It has what a rule needs of the tool's package, as its rules use it: a base class that checks tables, takes
`rows=…`, formats usage and messages, and runs `query` over the export, read-only.
"""

from __future__ import annotations

import sqlite3
import sys
import types
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class ExpertSystemsReport:
    """What the tool knows of a rule."""

    display_name = "NO NAME GIVEN"
    usage = "{SCRIPT} -- NO USAGE GIVEN"
    message_advice = "NO ADVICE"
    message_noresult = "NO RESULT"
    table_checks: dict[str, str] = {}  # noqa: RUF012 -- as in the tool's own package
    query = "SELECT 1"
    ROW_LIMIT = 50
    ran_main = 0

    def __init__(self, export: str, arguments: list[str]) -> None:
        uri = Path(export).resolve().as_uri() + "?mode=ro&immutable=1"
        self.connection = sqlite3.connect(uri, uri=True)
        self.arguments = arguments

    def table_exists(self, table: str) -> bool:
        """Whether the export holds a table."""
        query = "SELECT count(*) FROM sqlite_master WHERE name = ?"
        return bool(self.connection.execute(query, [table]).fetchone()[0])

    def setup(self) -> str | None:
        """Look for the tables, read the arguments; a text says what is wrong."""
        for table, message in self.table_checks.items():
            if not self.table_exists(table):
                return message
        self._row_limit = self.ROW_LIMIT
        for argument in self.arguments:
            name, _, value = argument.partition("=")
            if name != "rows":
                return f"unrecognized argument {argument}"
            self._row_limit = int(value)
        return None

    @classmethod
    def Main(cls) -> None:  # noqa: N802 -- the name is the tool's
        """What a rule's file calls when it is run as a program."""
        ExpertSystemsReport.ran_main += 1


@contextmanager
def _installed() -> Any:
    """`import nsysstats` gives this package."""
    package = types.ModuleType("nsysstats")
    package.__dict__.update(ExpertSystemsReport=ExpertSystemsReport, Report=ExpertSystemsReport)
    before = sys.modules.get("nsysstats")
    sys.modules["nsysstats"] = package
    ExpertSystemsReport.ran_main = 0
    try:
        yield
    finally:
        del sys.modules["nsysstats"]
        if before is not None:
            sys.modules["nsysstats"] = before


def run_rule(
    module: Any, rule: dict[str, Any], export: str, arguments: list[str]
) -> dict[str, Any]:
    """Write the learner's rule, load it as the tool does, and run it on an export.

    "problem": what is wrong with the file, "" if nothing; "skipped": what setup said, or None; "headings",
    "rows"; the texts as the tool shows them; "mains": how often Main ran when imported and as a program.
    """
    text = module.rule_source(rule)
    out: dict[str, Any] = {"problem": "", "text": text}
    if not isinstance(text, str):
        return {**out, "problem": f"it is {type(text).__name__}, not a text", "text": ""}
    try:
        code = compile(text, "rule.py", "exec")
    except SyntaxError as error:
        return {**out, "problem": f"line {error.lineno} is no Python: {error.msg}"}
    with _installed():
        mains, found = [], None
        for name in ("rule", "__main__"):
            space: dict[str, Any] = {"__name__": name}
            before = ExpertSystemsReport.ran_main
            try:
                exec(code, space)  # noqa: S102 -- the learner's file, on the learner's side
            except Exception as error:  # noqa: BLE001 -- it goes into the report
                return {**out, "problem": f"it cannot be imported: {error!r}"}
            mains.append(ExpertSystemsReport.ran_main - before)
            if name == "rule":
                found = space.get(rule["name"])
        out["mains"] = mains
        if not (isinstance(found, type) and issubclass(found, ExpertSystemsReport)):
            return {**out, "problem": f"{rule['name']} is no ExpertSystemsReport"}
        return {**out, **_run(found, export, arguments)}


def _run(rule: type[ExpertSystemsReport], export: str, arguments: list[str]) -> dict[str, Any]:
    texts = {
        "title": rule.display_name,
        "advice": rule.message_advice,
        "nothing": rule.message_noresult,
    }
    try:
        texts["usage"] = rule.usage.format(SCRIPT="rule", ROW_LIMIT=rule.ROW_LIMIT)
    except (LookupError, ValueError) as error:
        return {"problem": f"usage.format(SCRIPT=…, ROW_LIMIT=…) fails: {error!r}"}
    report = rule(export, arguments)
    try:
        skipped = report.setup()
        if skipped is not None:
            try:
                skipped = str(skipped).format(DBFILE="my_run.sqlite")
            except (LookupError, ValueError) as error:
                return {"problem": f".format(DBFILE=…) of {skipped!r} fails: {error!r}"}
            return {**texts, "skipped": skipped, "headings": [], "rows": []}
        cursor = report.connection.execute(report.query)
        headings = [one[0] for one in cursor.description]
        return {**texts, "skipped": None, "headings": headings, "rows": cursor.fetchall()}
    except sqlite3.Error as error:
        return {"problem": f"SQLite says of its query: {error}"}
    finally:
        report.connection.close()
