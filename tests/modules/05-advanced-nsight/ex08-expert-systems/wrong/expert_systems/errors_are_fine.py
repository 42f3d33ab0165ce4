from __future__ import annotations

CAUGHT_BY = "test_a_run_over_captures"
SAYS = "2 where a capture could not be"


def check_captures(names: Sequence[str], fail_on: Collection[str]) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    for name in names:
        try:
            results.append({"capture": name, "finding": verdict(name).to_dict()})
        except LabError as error:
            results.append({"capture": name, "error": str(error)})
    failed = any(r["finding"]["category"] in fail_on for r in results if "finding" in r)
    broken = not results or any("error" in result for result in results)
    return {"results": results, "exit_code": int(failed)}
