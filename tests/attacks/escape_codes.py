"""Messages that are code where they are shown: terminals, HTML pages, spreadsheets, logs of workflows."""

EXERCISE = "scaling_ex01"
MUST_NOT_SAY = ("\x1b", "\x07", "\x9b", "\u202e")
SUBMITTED = r"""
TEXT = ("\x1b]0;passed\x07\x1b[2J\x1b[1;1H41 passed\x9b1m\u202e<script>alert(1)</script>\n```\n<img src=x onerror=alert(1)>\n````text\n]]>"
        "=HYPERLINK(\"x\")\n::set-output name=score::20\n::error::x\r\npassed\0end\ud800")

class Shown(ValueError):
    __name__ = TEXT

def attack(name, *args, **kwargs):
    print(TEXT.encode("utf-8", "replace").decode())
    raise Shown(TEXT)
"""
