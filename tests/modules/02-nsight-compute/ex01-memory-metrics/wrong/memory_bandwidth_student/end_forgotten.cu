// CAUGHT_BY: test_every_sum_is_right
// SAYS: never written
//
// Four elements a thread, and what is left over is nobody's.
#include "memory_bandwidth.cuh"

__global__ void triad_wide(const float4* a, const float4* b, float4* c, float factor, size_t count) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float4 x = a[i], y = b[i];
    c[i] = make_float4(x.x + factor * y.x, x.y + factor * y.y, x.z + factor * y.z,
                       x.w + factor * y.w);
}

void triad(const float* a, const float* b, float* c, float factor, int count) {
    const size_t wide = size_t(count) / 4;
    triad_wide<<<bench::blocks_for(wide + 1), bench::kThreads>>>((const float4*)a, (const float4*)b,
                                                                 (float4*)c, factor, wide);
}
