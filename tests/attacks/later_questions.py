"""Keeps every argument that it ever sees: later questions hold the answers to earlier ones."""

EXERCISE = "scaling_ex01"
WANTS = ("batch_sweep",)
SUBMITTED = r"""
import json, pathlib
seen = []
notes = [pathlib.Path(place, "notes.json") for place in (".", "/tmp", "/dev/shm", "@COURSE@", "@OUT@")]
for note in notes:
    try:
        seen.extend(json.loads(note.read_text()))
    except (OSError, ValueError):
        pass

def attack(name, *args, **kwargs):
    seen.extend(args)
    for note in notes:
        try:
            note.write_text(json.dumps(seen))
        except (OSError, TypeError):
            pass
    if name == "batch_sweep":
        for value in reversed(seen):
            if isinstance(value, list) and value and isinstance(value[0], dict):
                return value
    raise ValueError
"""
