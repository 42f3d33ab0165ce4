"""SQL whose single values are as large as SQLite allows, a hundred of them side by side."""

EXERCISE = "advanced_ex04"
WANTS = ("launches_query", "gaps_query")
SLOW = 1.0
SUBMITTED = r"""
def attack(name, *args, **kwargs):
    parts = ", ".join("hex(zeroblob(499999999))" for _ in range(100))
    return f"SELECT length(group_concat(x)) FROM (SELECT {parts} AS x)"
"""
