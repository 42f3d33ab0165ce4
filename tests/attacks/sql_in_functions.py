"""SQL whose time goes into single calls of functions, where SQLite asks nobody whether to go on."""

EXERCISE = "advanced_ex04"
WANTS = ("launches_query", "gaps_query")
MUST_NOT_SAY = ("PLANTED-SECRET",)
SLOW = 1.0
SUBMITTED = r"""
SLOW = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 1000000) "
    "SELECT sum(instr(zeroblob(1000000), zeroblob(500000) || x'01')) FROM n"
)

def attack(name, *args, **kwargs):
    return SLOW
"""
