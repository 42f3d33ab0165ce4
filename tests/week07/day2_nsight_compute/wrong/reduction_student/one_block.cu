// CAUGHT_BY: test_enough_blocks
// SAYS: at most 1 block
//
// One block reads everything.
#include "reduction.cuh"

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 8;
constexpr int kLoads = 4;  // of four floats, under way at once in every thread

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    sum_blocks(const float* __restrict__ in, size_t count, float* out) {
    __shared__ float of_warp[kThreads / 32];
    const size_t first = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t stride = size_t(gridDim.x) * blockDim.x;
    const size_t chunks = count / 4;
    const float4* chunk = reinterpret_cast<const float4*>(in);

    float sum = 0;
    size_t i = first;
    for (; i + (kLoads - 1) * stride < chunks; i += kLoads * stride) {
        float4 values[kLoads];
#pragma unroll
        for (int k = 0; k < kLoads; ++k) values[k] = chunk[i + k * stride];
#pragma unroll
        for (int k = 0; k < kLoads; ++k)
            sum += (values[k].x + values[k].y) + (values[k].z + values[k].w);
    }
    for (; i < chunks; i += stride) {
        const float4 value = chunk[i];
        sum += (value.x + value.y) + (value.z + value.w);
    }
    if (first < count % 4) sum += in[chunks * 4 + first];

#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < kThreads / 32 ? of_warp[threadIdx.x] : 0.0f;
#pragma unroll
        for (int step = kThreads / 64; step > 0; step /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}

void reduce_sum(const float* in, size_t count, float* out, float*) {
    CHECK(cudaMemsetAsync(out, 0, sizeof(float)));
    sum_blocks<<<1, kThreads>>>(in, count, out);
}
