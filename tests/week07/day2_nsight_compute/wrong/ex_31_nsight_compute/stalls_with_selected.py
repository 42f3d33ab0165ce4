"""Takes the issued warp for a waiting one."""

from __future__ import annotations

CAUGHT_BY = "test_stalls_of_recorded_kernels"
SAYS = "it waits for nothing"


def rank_stalls(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    warps = {}
    for name, value in kernel["metrics"].items():
        found = re.fullmatch(
            r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio", name
        )
        if found and value is not None:
            warps[found[1]] = value
    total = sum(warps.values())
    if not total:
        return []
    return [
        {"reason": reason, "cycles_per_instruction": count, "share_ratio": count / total}
        for reason, count in sorted(warps.items(), key=lambda item: (-item[1], item[0]))
    ]
