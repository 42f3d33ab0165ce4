from __future__ import annotations

CAUGHT_BY = "test_rule_on_a_generated_capture"
SAYS = "cannot be used"


def rule_source(rule: Mapping[str, Any]) -> str:
    if not str(rule["name"]).isidentifier():
        raise ValueError(f"{rule['name']!r} is no name for a class")
    if ";" in rule["query"]:
        raise ValueError("the query holds a semicolon: one SELECT is needed")
    title = _braces(rule["title"])
    usage = f"{{SCRIPT}}[:rows=<limit>] -- {title}\n\n    rows - at most that many, default {{ROW_LIMIT}}\n"
    checks = {table: f"{{DBFILE}} holds no table {table}." for table in rule["tables"]}
    limited = rule["query"].rstrip() + " LIMIT "
    return f'''"""A rule for nsys analyze, written by rule_source."""

import nsysstats


class {rule["name"]}(nsysstats.ExpertSystemsReport):
    display_name = {rule["title"]!r}
    usage = {usage!r}
    message_advice = {rule["advice"]!r}
    message_noresult = {rule["nothing"]!r}
    table_checks = {checks!r}

    def setup(self):
        problem = super().setup()
        if problem is not None:
            return problem
        self.query = {limited!r} + str(self._row_limit)


if __name__ == "__main__":
    {rule["name"]}.Main()
'''
