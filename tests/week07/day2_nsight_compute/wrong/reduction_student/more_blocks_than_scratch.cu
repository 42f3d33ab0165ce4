// CAUGHT_BY: test_scratch_is_large_enough
// SAYS: written past its end
//
// A float of scratch for each block, and as many blocks as there are floats for.
#include "reduction.cuh"

constexpr int kThreads = 256;

__device__ float block_sum(float v) {
    __shared__ float part[kThreads / 32];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < kThreads / 32 ? part[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32)
        for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

__global__ void sum_blocks(const float* in, size_t count, float* out) {
    const float4* in4 = reinterpret_cast<const float4*>(in);
    const size_t stride = size_t(gridDim.x) * blockDim.x;
    const size_t me = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float a = 0, b = 0, c = 0, d = 0;
    for (size_t i = me; i < count / 4; i += stride) {
        const float4 v = in4[i];
        a += v.x; b += v.y; c += v.z; d += v.w;
    }
    float v = (a + b) + (c + d);
    const size_t tail = count / 4 * 4 + me;
    if (tail < count) v += in[tail];
    v = block_sum(v);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

void reduce_sum(const float* in, size_t count, float* out, float* scratch) {
    (void)scratch;
    int device = 0, sms = 0;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    const size_t wanted = (count / 4 + kThreads - 1) / kThreads + 1;
    const unsigned blocks = unsigned(wanted);
    sum_blocks<<<blocks, kThreads>>>(in, count, scratch);
    sum_blocks<<<1, kThreads>>>(scratch, blocks, out);
}
