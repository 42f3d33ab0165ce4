"""SQL that opens other files, loads libraries, changes settings and writes the database out."""

EXERCISE = "advanced_ex04"
WANTS = ("launches_query", "gaps_query")
MUST_NOT_SAY = ("PLANTED-SECRET",)
SUBMITTED = r"""
def attack(name, *args, **kwargs):
    return (
        "ATTACH '@OUTSIDE@/new.db' AS new; CREATE TABLE new.t AS SELECT 1; PRAGMA writable_schema = 1; "
        "SELECT load_extension('@SECRET@'); SELECT readfile('@SECRET@'); VACUUM INTO '@OUTSIDE@/copy.db'"
    )
"""
