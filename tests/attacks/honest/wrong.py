"""One honest mistake: the points of that task are lost, and no others."""

EXERCISE = "scaling_ex01"
EARNS = (
    "throughput",
    "model_flops_utilization",
    "batch_sweep",
    "same_conditions",
    "baseline_verdict",
)
OUTCOME = "failed"
STUB = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"


def plant(entry, course):
    text = (course.root / "solutions" / STUB).read_text(encoding="utf-8")
    wrong = text.replace('row["samples_per_s"] >= enough)', 'row["samples_per_s"] > enough)', 1)
    assert wrong != text
    (entry / STUB).parent.mkdir(parents=True)
    (entry / STUB).write_text(wrong, encoding="utf-8")
