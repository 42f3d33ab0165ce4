"""Source in UTF-16 and in encodings that a coding cookie names: it reads as one thing and runs as another."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
# As UTF-8 the first line is a comment; by its cookie "+AAo-" is a line break.
SUBMITTED = (
    b"# -*- coding: utf-7 -*-\n# +AAo-import os+AAo-os._exit(0)+AAo-\n"
    b"def knee_batch(rows, share=0.9):\n    raise NotImplementedError\n"
)
