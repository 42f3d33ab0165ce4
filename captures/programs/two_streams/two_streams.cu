// Two streams whose kernels run at the same time, and a third that copies meanwhile.
//
// Each kernel has one block for every second multiprocessor, so two of them fit side by side.
// The work of the three streams does not depend on each other.

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#if __has_include(<cuda_profiler_api.h>)
#include <cuda_profiler_api.h>
#else  // the runtime has both; only the wheels of the toolkit leave their header out
extern "C" cudaError_t CUDARTAPI cudaProfilerStart(void);
extern "C" cudaError_t CUDARTAPI cudaProfilerStop(void);
#endif

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t status = (call);                                                       \
        if (status != cudaSuccess) {                                                       \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                        \
                         cudaGetErrorString(status));                                      \
            std::exit(1);                                                                  \
        }                                                                                  \
    } while (0)

constexpr int kThreads = 1024;
constexpr int kWarmUpSteps = 3;
constexpr int kSteps = 20;
constexpr size_t kCopyBytes = size_t{8} << 20;

// A chain of dependent multiply-adds: the result depends on every round.
__global__ void advance_even(float* state, int rounds) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    float value = state[index];
    for (int round = 0; round < rounds; ++round) value = value * 0.999f + 0.001f;
    state[index] = value;
}

__global__ void advance_odd(float* state, int rounds) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    float value = state[index];
    for (int round = 0; round < rounds; ++round) value = value * 0.998f + 0.002f;
    state[index] = value;
}

int main() {
    int multiprocessors = 0;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    const int blocks = multiprocessors / 2;
    const size_t state_bytes = sizeof(float) * blocks * kThreads;

    float *even = nullptr, *odd = nullptr, *host = nullptr, *target = nullptr;
    CHECK(cudaMalloc(&even, state_bytes));
    CHECK(cudaMalloc(&odd, state_bytes));
    CHECK(cudaMalloc(&target, kCopyBytes));
    CHECK(cudaMallocHost(&host, kCopyBytes));
    CHECK(cudaMemset(even, 0, state_bytes));
    CHECK(cudaMemset(odd, 0, state_bytes));
    for (size_t i = 0; i < kCopyBytes / sizeof(float); ++i) host[i] = static_cast<float>(i % 97);

    cudaStream_t first, second, copies;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));

    auto run = [&](int steps) {
        for (int step = 0; step < steps; ++step) {
            nvtxRangePushA("step");
            advance_even<<<blocks, kThreads, 0, first>>>(even, 40000);
            CHECK(cudaGetLastError());
            advance_odd<<<blocks, kThreads, 0, second>>>(odd, 36000);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpyAsync(target, host, kCopyBytes, cudaMemcpyHostToDevice, copies));
            nvtxRangePop();
        }
        CHECK(cudaDeviceSynchronize());
    };

    run(kWarmUpSteps);
    CHECK(cudaProfilerStart());
    nvtxRangePushA("streams");
    run(kSteps);
    nvtxRangePop();
    CHECK(cudaProfilerStop());

    float end_even = 0.0f, end_odd = 0.0f;
    CHECK(cudaMemcpy(&end_even, even, sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&end_odd, odd, sizeof(float), cudaMemcpyDeviceToHost));
    std::printf("RESULT {\"steps\": %d, \"checksum\": %.4f}\n", kSteps, end_even + end_odd);
    return 0;
}
