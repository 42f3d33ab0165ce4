// CAUGHT_BY: test_no_sector_twice
// SAYS: neighbouring lanes should name neighbouring addresses
//
// Four elements a thread, one load after the other: each of them reaches into every sector.
#include "memory_bandwidth.cuh"

__global__ void triad_rows(const float* a, const float* b, float* c, float factor, size_t count) {
    const size_t first = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        if (first + k < count) c[first + k] = a[first + k] + factor * b[first + k];
}

void triad(const float* a, const float* b, float* c, float factor, int count) {
    triad_rows<<<bench::blocks_for(bench::blocks_for(count, 4)), bench::kThreads>>>(a, b, c, factor,
                                                                                    size_t(count));
}
