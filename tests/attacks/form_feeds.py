"""Form feeds, carriage returns and vertical tabs, so that readers disagree on where a line ends."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = (
    b"\x0cdef knee_batch(rows, share=0.9):\r    '''todo\x0b'''\r\n\x0c    raise NotImplementedError\r"
    b"knee_batch = lambda *args: {}  # \xe2\x80\xa8def x():\xc2\x85    pass\n"
)
