"""A kernel that never ends, in a million threads: it is the judge that follows it, step by step."""

EXERCISE = "ncu_ex01"
STUB = "modules/02-nsight-compute/ex01-memory-metrics/memory_bandwidth_student.cu"
WANTS = ("triad",)
CAUSE = "time-out"
SLOW = 1.5
SUBMITTED = r"""
#include "memory_bandwidth.cuh"
__global__ void rounds(float* c) {
    volatile float* at = c;
    for (;;) at[0] = at[0] + 1.0f;
}
void triad(const float*, const float*, float* c, float, int) { rounds<<<4096, 256>>>(c); }
"""
