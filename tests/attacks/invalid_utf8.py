"""Source that is no UTF-8, in a comment and in a name."""

EXERCISE = "scaling_ex01"
SUBMITTED = b"# \xff\xfe\xfd\ndef knee_b\xe4tch(rows):\n    return {}\n"
