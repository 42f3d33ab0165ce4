from __future__ import annotations

CAUGHT_BY = "test_one_rank_of_several"
SAYS = "from overwriting the trace of another"


def profile_rank(step: Callable[[], object], folder: str, warmup: int = 2, active: int = 3) -> str:
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, schedule

    if warmup < 0 or active < 1:
        raise ValueError(f"warmup must be at least 0 and active at least 1: {warmup=}, {active=}")
    if not dist.is_initialized():
        raise RuntimeError("no process group: call torch.distributed.init_process_group first")
    file = Path(folder) / "trace.json"
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    dist.barrier()
    with profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=warmup, active=active, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(file)),
    ) as profiler:
        for _ in range(warmup + active):
            step()
            profiler.step()
    return str(file)
