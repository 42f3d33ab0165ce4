from __future__ import annotations

CAUGHT_BY = "test_operators_of_drawn_stacks"
SAYS = "expected the operators"


def time_by_operator(capture: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for length, trace in _launched(capture):
        name = ""
        for symbol in trace.native if trace else ():
            if match := re.match(r"at::_ops::(\w+)::(call|redispatch)\(", symbol):
                name = match[1]
                break
        found[name] = found.get(name, 0) + length
    return found
