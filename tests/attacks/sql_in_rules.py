"""The SQL of an expert system's rule, which the judge runs itself: it writes files and opens other databases."""

EXERCISE = "advanced_ex08"
WANTS = ("pageable_query", "starved_query")
SUBMITTED = r"""
queries = [
    "VACUUM INTO '@OUTSIDE@/vacuumed'",
    "ATTACH 'file:@OUTSIDE@/attached?mode=rwc' AS other",
    "SELECT writefile('@CANARY@', 'dead'), load_extension('@SECRET@')",
]

def attack(name, *args, **kwargs):
    queries.append(queries.pop(0))
    return queries[-1]
"""
