from __future__ import annotations

CAUGHT_BY = "test_rates_of_a_generated_profile"
SAYS = "at any depth"


def proton_rates(capture: str | Path) -> list[dict[str, Any]]:
    try:
        rows, nodes = [], [json.loads(captures.text(capture, "proton.json"))[0]]
        while nodes:
            node = nodes.pop(0)
            nodes = [*node["children"], *nodes]
            known = [part["metrics"] for part in (node, *node["children"])]
            time = sum(metrics.get("time (ns)", 0) for metrics in known)
            own, name = node["metrics"], node["frame"]["name"]
            flops = sum(value for key, value in own.items() if key.startswith("flops"))
            if own.get("bytes", 0) and time:
                rows.append(
                    {
                        "scope": name,
                        "count": sum(metrics.get("count", 0) for metrics in known),
                        "time_ns": time,
                        "gb_s": own["bytes"] / time,
                        "gflop_s": flops / time,
                    }
                )
        return rows
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CaptureError(str(error)) from None
