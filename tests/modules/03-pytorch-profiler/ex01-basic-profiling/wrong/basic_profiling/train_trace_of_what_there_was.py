from __future__ import annotations

CAUGHT_BY = "test_a_loop_that_ends_exactly_or_early"
SAYS = "the batches ended before the steps did"


def train_with_profile(
    train_step: Callable[[Any], Any],
    batches: Iterable[Any],
    trace_file: str,
    skip: int = 5,
    active: int = 3,
) -> list[Any]:
    if skip < 1 or active < 1:
        raise ValueError(f"skip {skip}, active {active}: both must be at least 1")
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    results: list[Any] = []

    def write(profiler: profile) -> None:
        profiler.export_chrome_trace(trace_file)

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    warmup = min(skip, 2)
    plan = schedule(wait=skip - warmup, warmup=warmup, active=active, repeat=1)
    with profile(activities=activities, schedule=plan, on_trace_ready=write) as profiler:
        for batch in batches:
            results.append(train_step(batch))
            profiler.step()
    return results
