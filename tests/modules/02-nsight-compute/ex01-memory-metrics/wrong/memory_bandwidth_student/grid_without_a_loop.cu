// CAUGHT_BY: test_grid_that_does_not_grow
// SAYS: a thread must go on to elements further behind
//
// As many blocks as the device holds, whatever the number of elements, and no loop.
#include "memory_bandwidth.cuh"

__global__ void triad_wide(const float* a, const float* b, float* c, float factor, size_t count) {
    const size_t first = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
    if (first + 4 <= count) {
        const float4 x = *(const float4*)(a + first), y = *(const float4*)(b + first);
        *(float4*)(c + first) = make_float4(x.x + factor * y.x, x.y + factor * y.y,
                                            x.z + factor * y.z, x.w + factor * y.w);
    } else {
        for (size_t i = first; i < count; ++i) c[i] = a[i] + factor * b[i];
    }
}

void triad(const float* a, const float* b, float* c, float factor, int count) {
    triad_wide<<<2 * 132, bench::kThreads>>>(a, b, c, factor, size_t(count));
}
