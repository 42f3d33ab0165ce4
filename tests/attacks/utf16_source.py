"""Source in UTF-16 with a mark of its byte order."""

EXERCISE = "scaling_ex01"
SUBMITTED = "def knee_batch(rows, share=0.9):\n    return {}\n".encode("utf-16")
