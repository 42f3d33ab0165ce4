// CAUGHT_BY: test_every_float_is_read_once
// SAYS: touch
//
// Every thread reads a stretch of its own: neighbours are far apart.
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
    const size_t share = (chunks + stride - 1) / stride;
    const size_t end = (first + 1) * share < chunks ? (first + 1) * share : chunks;
    size_t i = first * share;
    for (; i + kLoads <= end; i += kLoads) {
        float4 values[kLoads];
#pragma unroll
        for (int k = 0; k < kLoads; ++k) values[k] = chunk[i + k];
#pragma unroll
        for (int k = 0; k < kLoads; ++k)
            sum += (values[k].x + values[k].y) + (values[k].z + values[k].w);
    }
    for (; i < end; ++i) {
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
    static int multiprocessors = 0;  // asked once: the question takes longer than the launch
    if (multiprocessors == 0)
        CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    const size_t needed = (count + kThreads * 4 - 1) / (kThreads * 4);
    const size_t resident = size_t(multiprocessors) * kBlocksPerSm;
    CHECK(cudaMemsetAsync(out, 0, sizeof(float)));
    sum_blocks<<<unsigned(std::min(needed, resident)), kThreads>>>(in, count, out);
}
