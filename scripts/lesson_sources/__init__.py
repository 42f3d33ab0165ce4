"""A module a lesson: functions for the expressions in its text, and the plots that it shows."""

# module → the lesson's folder
LESSONS = {
    "day1": "week07/day1_nsight_systems",
    "day2": "week07/day2_nsight_compute",
    "day3": "week07/day3_pytorch_profiler",
    "day4": "week07/day4_bottleneck_analysis",
    "day5": "week07/day5_end_to_end",
}
