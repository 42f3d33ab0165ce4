from __future__ import annotations

CAUGHT_BY = "test_operators_of_drawn_stacks"
SAYS = "and '' where there is none"


def time_by_operator(capture: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for length, trace in _launched(capture):
        names = [
            match[1]
            for symbol in (trace.native if trace else ())
            if (match := re.match(r"at::_ops::(\w+)::(call|redispatch)\(", symbol))
        ]
        if names:
            found[names[-1]] = found.get(names[-1], 0) + length
    return found
