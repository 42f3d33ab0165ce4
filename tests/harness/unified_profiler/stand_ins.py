"""nsys and a script that misbehaves: stand-ins note their arguments and run what follows."""

from __future__ import annotations

import sys

PYTHON = sys.executable
# Written into its own folder: the arguments, and the report that the real one would write.
FAKE_NSYS = """\
#!{python}
import json, os, subprocess, sys
arguments = sys.argv[1:]
output = next(a.partition("=")[2] for a in arguments if a.startswith("--output="))
cut = next(i for i, a in enumerate(arguments) if i and not a.startswith("-"))
open(output + ".nsys-rep", "w").write(json.dumps(arguments))
sys.exit(subprocess.run(arguments[cut:]).returncode)
"""
SCRIPT = """\
import os, signal, subprocess, sys, time
if "interrupted" in sys.argv:
    signal.signal(signal.SIGINT, signal.default_int_handler)
print("arguments", *sys.argv[1:], flush=True)
print("on stderr", file=sys.stderr)
if "leave" in sys.argv:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                             start_new_session=True)
    print("left", child.pid, flush=True)
if "hang" in sys.argv:
    time.sleep(600)
if "kill" in sys.argv:
    os.kill(os.getpid(), 9)
sys.exit(int(sys.argv[-1]))
"""


def program(here, name, text):
    """Put a stand-in on PATH."""
    file = here / "bin" / name
    file.write_text(text.replace("{python}", PYTHON))
    file.chmod(0o755)
    return str(file)
