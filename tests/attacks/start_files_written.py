"""Writes files that Python runs when it starts: .pth, sitecustomize, usercustomize, PYTHONSTARTUP."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import os, site, sys

LINE = "import pathlib; pathlib.Path('@CANARY@').write_text('ran')\n"
places = [sys.prefix, sys.base_prefix, *sys.path, os.getcwd(), os.path.expanduser("~"), "@COURSE@", "@OUT@", "@STAGING@", site.getusersitepackages()]
for place in places:
    for name in ("evil.pth", "sitecustomize.py", "usercustomize.py", "conftest.py", ".pythonrc", "__init__.py"):
        try:
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, name), "x") as file:
                file.write(LINE)
        except OSError:
            pass

def knee_batch(rows, share=0.9):
    return {}
"""
