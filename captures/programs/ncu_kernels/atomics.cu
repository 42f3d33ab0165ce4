// Histograms and sums: who adds to which address, and how often.

#include "bench.cuh"

constexpr size_t kSamples = size_t{1} << 26;
constexpr int kBins = 256;
constexpr int kBlocks = 1056;

// Most of what is counted falls into a few bins, as in the values of a real image.
__host__ __device__ inline unsigned bin_of(size_t i) {
    float u = bench::unit(unsigned(i));
    return unsigned(u * u * u * u * kBins);
}

__global__ void histogram_direct(const unsigned* samples, unsigned* bins) {
    size_t stride = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < kSamples; i += stride)
        atomicAdd(&bins[samples[i]], 1u);
}

// Each warp counts in shared memory first.
__global__ void histogram_private(const unsigned* samples, unsigned* bins) {
    __shared__ unsigned own[bench::kThreads / 32][kBins];
    for (int i = threadIdx.x; i < bench::kThreads / 32 * kBins; i += blockDim.x) (&own[0][0])[i] = 0;
    __syncthreads();
    unsigned* mine = own[threadIdx.x / 32];
    size_t stride = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < kSamples; i += stride)
        atomicAdd(&mine[samples[i]], 1u);
    __syncthreads();
    unsigned sum = 0;
    for (int warp = 0; warp < bench::kThreads / 32; ++warp) sum += own[warp][threadIdx.x];
    atomicAdd(&bins[threadIdx.x], sum);
}

__global__ void total_by_thread(const float* values, float* total) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    atomicAdd(total, values[i]);
}

__global__ void total_by_block(const float4* values, float* total) {
    __shared__ float partial[bench::kThreads / 32];
    size_t stride = size_t(gridDim.x) * blockDim.x;
    float sum = 0;
#pragma unroll 4
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < kSamples / 4; i += stride) {
        float4 value = values[i];
        sum += value.x + value.y + value.z + value.w;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (float value : partial) sum += value;
        atomicAdd(total, sum);
    }
}

int main(int count, char** arguments) {
    constexpr int kThreads = bench::kThreads;
    auto* samples = bench::filled<unsigned>(kSamples, [] __device__(size_t i) { return bin_of(i); });
    // One in every 64 elements is 1: the sum is exact in any order.
    auto* values =
        bench::filled<float>(kSamples, [] __device__(size_t i) { return i % 64 == 0 ? 1.0f : 0.0f; });
    auto* bins = bench::allocate<unsigned>(kBins);
    auto* total = bench::allocate<float>(1);

    std::vector<unsigned> expected(kBins);
    bool counted = false;
    auto bins_are_wrong = [=]() mutable {
        for (size_t i = 0; !counted && i < kSamples; ++i) ++expected[bin_of(i)];
        counted = true;
        std::vector<unsigned> found(kBins);
        CHECK(cudaMemcpy(found.data(), bins, kBins * sizeof(unsigned), cudaMemcpyDeviceToHost));
        size_t sum = 0, wrong = 0;
        for (int bin = 0; bin < kBins; ++bin) {
            sum += found[bin];
            // A fused multiply-add on the device may put a sample on a bin's edge into the next bin.
            wrong += found[bin] + 64 < expected[bin] || found[bin] > expected[bin] + 64;
        }
        return wrong + (sum != kSamples);
    };
    auto total_is_wrong = [=] {
        float found = 0;
        CHECK(cudaMemcpy(&found, total, sizeof found, cudaMemcpyDeviceToHost));
        return size_t(found != float(kSamples / 64));
    };
    auto clear_bins = [=] { CHECK(cudaMemsetAsync(bins, 0, kBins * sizeof(unsigned))); };
    auto clear_total = [=] { CHECK(cudaMemsetAsync(total, 0, sizeof(float))); };
    const double all = kSamples * 4.0;
    std::vector<bench::Kernel> kernels = {
        {"histogram_direct", all + kBins * 4, 0, 1,
         [=] { histogram_direct<<<kBlocks, kThreads>>>(samples, bins); }, bins_are_wrong, clear_bins},
        {"histogram_private", all + kBins * 4, 0, 1,
         [=] { histogram_private<<<kBlocks, kThreads>>>(samples, bins); }, bins_are_wrong, clear_bins},
        {"total_by_thread", all + 4, double(kSamples), 2,
         [=] { total_by_thread<<<kSamples / kThreads, kThreads>>>(values, total); }, total_is_wrong,
         clear_total},
        {"total_by_block", all + 4, double(kSamples), 2,
         [=] { total_by_block<<<kBlocks, kThreads>>>((float4*)values, total); }, total_is_wrong,
         clear_total},
    };
    return bench::run(kernels, count, arguments);
}
