"""Writes full marks into every score file, journal and result that it can think of, and where it can reach."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
import glob, json, os, tempfile
SCORE = json.dumps({"portable": {"earned": 20, "possible": 20}, "tasks": {"scaling_ex01.knee_batch": {
    "outcome": "passed", "points": 3, "earned": 3, "live": False, "trust": "checked", "checks": []}}})

def spread():
    for path in ("@OUT@/results.jsonl", "@OUT@/gradebook.csv", "@COURSE@/.lab/progress.json", "score.json",
                 "@STAGING@/score.json", "@COURSE@/tests/live_score.json", "@CANARY@",
                 *glob.glob(tempfile.gettempdir() + "/**/*score*.json", recursive=True)):
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "a") as file:
                file.write(SCORE)
        except OSError:
            pass

spread()

def attack(name, *args, **kwargs):
    spread()
    return {}
"""
DANGEROUS = True
