"""Evidence whose file lies outside its capture: the judge derives it again, and so opens the file itself."""

EXERCISE = "ex_34"
STUB = "week07/day5_end_to_end/deep_dive.py"
WANTS = ("deep_dive",)
MUST_NOT_SAY = ("schema is", "format 1", "JSON", "PLANTED-SECRET")
SUBMITTED = r"""
up = "../" * 12
files = ["@OUT@/results.jsonl", up + "@OUT@/results.jsonl", "@SECRET@", "/proc/self/environ", "/dev/zero"]
calls = {}

def deep_dive():
    calls["made"] = calls.get("made", -1) + 1
    file = files[calls["made"] % len(files)]
    item = {"pick": ["schema"]}
    evidence = {
        "E1": item | {"function": "ex_34.read_runs",
                      "arguments": {"capture": "serving_sweep_eager", "file": file}},
        "E2": item | {"function": "ex_33.load_document",
                      "arguments": {"capture": "serving_sweep_eager", "name": file}},
    }
    if calls["made"] % 2:
        evidence["E1"], evidence["E2"] = evidence["E2"], evidence["E1"]
    return {
        "question": "?", "evidence": evidence, "comparison": {},
        "change": file, "sections": {"result": "1" * 900},
    }
"""
