// CAUGHT_BY: test_another_factor
// SAYS: The factor is an argument of triad
//
// Half of b, because the program happens to ask for half.
#include "memory_bandwidth.cuh"

__global__ void triad_wide(const float* a, const float* b, float* c, float factor, size_t count) {
    const size_t first = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
    if (first + 4 <= count) {
        const float4 x = *(const float4*)(a + first), y = *(const float4*)(b + first);
        *(float4*)(c + first) = make_float4(x.x + 0.5f * y.x, x.y + 0.5f * y.y, x.z + 0.5f * y.z,
                                            x.w + 0.5f * y.w);
    } else {
        for (size_t i = first; i < count; ++i) c[i] = a[i] + 0.5f * b[i];
    }
}

void triad(const float* a, const float* b, float* c, float factor, int count) {
    const unsigned blocks = bench::blocks_for(bench::blocks_for(count, 4));
    triad_wide<<<blocks, bench::kThreads>>>(a, b, c, factor, size_t(count));
}
