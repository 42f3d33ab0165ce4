"""The stub as it is handed out: nothing earned, and nothing wrong."""

EXERCISE = "scaling_ex01"
EARNS = ()
OUTCOME = "todo"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    from profiling_lab.course import stubs

    texts = stubs.generate(course, course.exercise(EXERCISE))
    (entry / STUB).parent.mkdir(parents=True)
    (entry / STUB).write_text(texts[course.root / STUB], encoding="utf-8")
