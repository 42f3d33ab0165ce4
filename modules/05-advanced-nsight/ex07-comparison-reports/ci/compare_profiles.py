"""Compare two exports of Nsight Systems and fail on a regression: what a CI job calls.

    python3 compare_profiles.py BEFORE.sqlite AFTER.sqlite --step step --budget 5 --report comment.md

Exit code: 0 where no regression was shown, 1 for a regression, 2 where there is no verdict: for captures that
cannot be compared, and if the functions are not written yet or crash. The comparison is `gate` and `report` of `comparison_reports.py`, one folder up.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from profiling_lab.errors import LabError


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    out.add_argument("before", metavar="BEFORE", help="an export of before: SQLite, or a name")
    out.add_argument("after", metavar="AFTER", help="an export of after")
    out.add_argument("--step", required=True, help="the NVTX range of one step")
    out.add_argument("--budget", type=float, default=5.0, metavar="PCT", help="default: 5")
    out.add_argument(
        "--equal",
        nargs=2,
        action="append",
        default=[],
        metavar="RUN",
        help="two runs without a change between them; may be given several times",
    )
    out.add_argument("--report", type=Path, metavar="FILE", help="append the Markdown to this file")
    out.add_argument("--json", type=Path, metavar="FILE", help="write the finding to this file")
    return out


def _yours() -> tuple[Callable[..., Any], Callable[..., str]]:
    file = Path(__file__).resolve().parent.parent / "comparison_reports.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise LabError(f"{file}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.gate, module.report


def main(
    argv: Sequence[str] | None = None,
    gate: Callable[..., Any] | None = None,
    report: Callable[..., str] | None = None,
) -> int:
    """Run the comparison; gate and report default to those one folder up."""
    options = parser().parse_args(argv)
    try:
        if gate is None or report is None:
            gate, report = _yours()
        equal = [tuple(pair) for pair in options.equal]
        result = gate(options.before, options.after, options.step, options.budget / 100, equal)
        text = report(result, options.before, options.after)
        code, finding = int(result["exit_code"]), [result["finding"].to_dict()]
    except (LabError, ValueError) as error:
        print(f"compare_profiles: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001 - Python's own exit code for it, 1, is a regression's
        traceback.print_exc()
        print(f"compare_profiles: no verdict, {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(text, end="")
    if options.report:
        with options.report.open("a", encoding="utf-8") as file:
            file.write(text)
    if options.json:
        options.json.write_text(json.dumps(finding, indent=2) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
