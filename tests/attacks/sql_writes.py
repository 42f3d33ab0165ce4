"""SQL that writes files, opens other databases, or never ends: the judge runs a learner's query itself."""

EXERCISE = "advanced_ex04"
WANTS = ("launches_query", "gaps_query", "index_statements")
MUST_NOT_SAY = ("PLANTED-SECRET",)
SUBMITTED = r"""
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
queries = [
    "VACUUM INTO '@OUTSIDE@/vacuumed'",
    "ATTACH 'file:@OUTSIDE@/attached?mode=rwc' AS other",
    "PRAGMA journal_mode = WAL",
    "CREATE TEMP TABLE room AS SELECT zeroblob(900000000)",
    "SELECT load_extension('@SECRET@')",
    ENDLESS,
]

def attack(name, *args, **kwargs):
    if name == "index_statements":
        return ["CREATE INDEX made ON NVTX_EVENTS (hex(zeroblob(400000000)))"]
    queries.append(queries.pop(0))
    return queries[-1]
"""
