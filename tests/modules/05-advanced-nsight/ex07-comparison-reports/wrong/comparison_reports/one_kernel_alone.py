from __future__ import annotations

CAUGHT_BY = "test_gate_of_drawn_programs"
SAYS = "the finding is"


def _category(before: str, after: str, step: str, pieces: list[dict[str, Any]]) -> str:
    grew: Counter[str] = Counter()
    for row in pieces:
        kind = row["piece"] if row["piece"] in ("copies", "idle") else "kernels"
        grew[kind] = max(grew[kind], row["change_ns"])
    most = max(("copies", "idle", "kernels"), key=lambda piece: grew[piece])
    if most != "idle":
        return "transfer_bound" if most == "copies" else "slower_kernels"
    for category, pattern in CALLS.items():
        old, new = _calls_a_step(before, step, pattern), _calls_a_step(after, step, pattern)
        if new - old > MORE_COUNT:
            return category
    return "host_bound"
