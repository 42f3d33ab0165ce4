"""Single statements of SQL that open, copy or write what is not theirs."""

EXERCISE = "advanced_ex04"
WANTS = ("launches_query", "gaps_query")
SUBMITTED = r"""
def launches_query(*args, **kwargs):
    return "ATTACH DATABASE 'file:@OUTSIDE@/new.db?mode=rwc' AS other"

def gaps_query(*args, **kwargs):
    return "VACUUM INTO '@OUTSIDE@/copy.db'"
"""
