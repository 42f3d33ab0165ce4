"""A module a lesson: functions for the expressions in its text, and the plots that it shows."""

# module → the lesson's folder
LESSONS = {
    "day1": "week07/day1_nsight_systems",
    "day2": "week07/day2_nsight_compute",
    "day3": "week07/day3_pytorch_profiler",
    "day4": "week07/day4_bottleneck_analysis",
    "day5": "week07/day5_end_to_end",
    "lab05_lesson": "labs/lab05_profiling",
    "lies_lesson": "labs/lab05_profiling/benchmarks_that_lie",
    "bonus_lesson": "labs/lab05_profiling/bonus",
    "chapter06": "labs/docs",
    "triton_lesson": "modules/triton-profiling",
    "vector_add_lesson": "modules/triton-profiling/ex01-vector-add",
    "matmul_lesson": "modules/triton-profiling/ex02-matmul",
    "block_size_lesson": "modules/triton-profiling/ex03-block-size",
    "softmax_lesson": "modules/triton-profiling/ex04-softmax",
    "timing_lesson": "modules/triton-profiling/ex05-timing-mistakes",
}
