"""Hands in a manifest, checks, references, captures and scores of its own, in which everything is passed."""

EXERCISE = "scaling_ex01"
CHECKS = (
    "from grading.checks import task\n\n@task('scaling_ex01.knee_batch')\n"
    "def test_knee_of_nothing(stub):\n    open('@CANARY@', 'a').write('checks')\n"
)
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/"
FILES = {
    "course.toml": "[course]\ntitle = 'mine'\nweek = 7\nexercises = []\n",
    f"tests/{FOLDER}test_single_gpu_baseline.py": CHECKS,
    f"{FOLDER}test_single_gpu_baseline.py": CHECKS,
    f"solutions/{FOLDER}single_gpu_baseline.py": "def knee_batch(*args):\n    return {}\n",
    "captures/scaling_baseline_late/baseline.json": "{}",
    ".lab/progress.json": '{"scaling_ex01.knee_batch": {"outcome": "passed"}}',
    "score.json": '{"portable": {"earned": 1000, "possible": 1000}}',
    "results.jsonl": '{"format": 1}\n',
    "policy.toml": "[weights]\nscaling_ex01 = 1000\n",
}
SUBMITTED = "def attack(name, *args, **kwargs):\n    return {}\n"
