from __future__ import annotations

CAUGHT_BY = "test_a_run_over_captures"
SAYS = "check_captures"


def check_captures(names: Sequence[str], fail_on: Collection[str]) -> dict[str, Any]:
    results = [{"capture": name, "finding": verdict(name).to_dict()} for name in names]
    failed = any(result["finding"]["category"] in fail_on for result in results)
    return {"results": results, "exit_code": int(failed) if results else 2}
