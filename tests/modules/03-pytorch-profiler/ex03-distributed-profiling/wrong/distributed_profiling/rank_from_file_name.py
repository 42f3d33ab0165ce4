from __future__ import annotations

CAUGHT_BY = "test_traces_that_are_not_of_one_whole_run"
SAYS = "two traces are of rank 0"


def read_ranks(capture: str) -> dict[int, list[dict[str, Any]]]:
    out: dict[int, list[dict[str, Any]]] = {}
    sizes = set()
    for file in sorted(captures.place(capture).glob("trace_rank*.json*")):
        try:
            trace = json.loads(captures.text(file, file.name), parse_float=Decimal)
            info = trace["distributedInfo"]
            rank, events = int(re.findall(r"\d+", file.name)[0]), trace["traceEvents"]
            sizes.add(info["world_size"])
        except ValueError:
            raise CaptureError(f"{file}: is cut off or not JSON; did its rank die?") from None
        except (LookupError, TypeError):
            raise CaptureError(f"{file}: has no distributedInfo or no traceEvents") from None
        if rank in out:
            raise CaptureError(f"{file}: a second trace of rank {rank}")
        out[rank] = sorted(
            (_operation(event) for event in events if _on_device(event)),
            key=lambda operation: (operation["start_ns"], operation["end_ns"]),
        )
        if not out[rank]:
            raise EmptyCapture(f"{file}: rank {rank} ran nothing on a GPU while it was recorded")
    if not out:
        raise CaptureError(f"{capture}: no trace_rank<number>.json here")
    if len(sizes) > 1:
        raise CaptureError(f"{capture}: traces of different runs: world sizes {sorted(sizes)}")
    missing = sorted(set(range(sizes.pop())) - set(out))
    if missing:
        raise CaptureError(f"{capture}: no trace of rank {', '.join(map(str, missing))}")
    return dict(sorted(out.items()))
