// CAUGHT_BY: test_bytes_under_way
// SAYS: and is gone
//
// Neighbours read neighbours, and every thread lives for one element.
#include "memory_bandwidth.cuh"

__global__ void triad_each(const float* a, const float* b, float* c, float factor, size_t count) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) c[i] = a[i] + factor * b[i];
}

void triad(const float* a, const float* b, float* c, float factor, int count) {
    triad_each<<<bench::blocks_for(count), bench::kThreads>>>(a, b, c, factor, size_t(count));
}
