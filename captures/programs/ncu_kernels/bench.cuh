// What the programs of this folder share: a list of kernels, each run, checked and timed.
//
//   ./program          runs every kernel, checks what it computed, prints one line: RESULT {json}
//   ./program --once   launches every kernel once, between cudaProfilerStart and cudaProfilerStop
//
// Durations are medians over rounds in which all kernels take turns; in a round a kernel runs twice
// and the second run is timed between two events, so its caches are as warm as its data allows.

#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <functional>
#include <string>
#include <vector>

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

namespace bench {

constexpr int kRounds = 11;
constexpr int kThreads = 256;

// A number in [0, 1) that depends on the index only: data that is not constant, and known everywhere.
__host__ __device__ inline float unit(unsigned index) {
    unsigned bits = index * 2654435761u;
    bits ^= bits >> 15;
    bits *= 2246822519u;
    bits ^= bits >> 13;
    return (bits >> 8) * (1.0f / 16777216.0f);
}

template <class Value, class Function>
__global__ void set_values(Value* values, size_t count, Function value_at) {
    size_t index = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index < count) values[index] = value_at(index);
}

template <class Function>
__global__ void count_wrong(size_t count, unsigned long long* wrong, Function is_wrong) {
    size_t index = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index < count && is_wrong(index)) atomicAdd(wrong, 1ull);
}

// Cycles and nanoseconds of one busy SM: the clock at which it ran.
__global__ void measure_clock(long long cycles, long long* out) {
    long long start_ns = 0, end_ns = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start_ns));
    long long start = clock64();
    while (clock64() - start < cycles) {
    }
    long long end = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end_ns));
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        out[0] = end - start;
        out[1] = end_ns - start_ns;
    }
}

inline unsigned blocks_for(size_t count, int threads = kThreads) {
    return unsigned((count + threads - 1) / threads);
}

template <class Value>
Value* allocate(size_t count) {
    Value* values = nullptr;
    CHECK(cudaMalloc(&values, count * sizeof(Value)));
    return values;
}

template <class Value, class Function>
Value* filled(size_t count, Function value_at) {
    Value* values = allocate<Value>(count);
    set_values<<<blocks_for(count), kThreads>>>(values, count, value_at);
    CHECK(cudaGetLastError());
    return values;
}

// A check: how many of `count` results are wrong, by a function of the index on the device.
template <class Function>
std::function<size_t()> checked(size_t count, Function is_wrong) {
    return [=]() {
        static unsigned long long* wrong = allocate<unsigned long long>(1);
        CHECK(cudaMemset(wrong, 0, sizeof *wrong));
        count_wrong<<<blocks_for(count), kThreads>>>(count, wrong, is_wrong);
        unsigned long long found = 0;
        CHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
        return size_t(found);
    };
}

// useful_bytes: the least that the answer needs from and to memory: each input read once, each output
// written once. flops: a multiply-add counts as two. launch_count: launches in one step of the program.
struct Kernel {
    const char* name;
    double useful_bytes;
    double flops;
    int launch_count;
    std::function<void()> launch;
    std::function<size_t()> wrong;
    std::function<void()> prepare = [] {};
};

inline double median(std::vector<float> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

inline double sm_clock_hz() {
    long long* out = allocate<long long>(2);
    long long host[2];
    measure_clock<<<132, 256>>>(20'000'000, out);
    CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(out));
    return double(host[0]) / double(host[1]) * 1e9;
}

inline int run(const std::vector<Kernel>& kernels, int count, char** arguments) {
    const bool once = count > 1 && std::strcmp(arguments[1], "--once") == 0;
    CHECK(cudaDeviceSynchronize());
    if (once) {
        CHECK(cudaProfilerStart());
        for (const Kernel& kernel : kernels) {
            kernel.prepare();
            kernel.launch();
            CHECK(cudaDeviceSynchronize());
        }
        CHECK(cudaProfilerStop());
        return 0;
    }

    for (const Kernel& kernel : kernels) {  // one step of the program, then the answers
        for (int launch = 0; launch < kernel.launch_count; ++launch) {
            kernel.prepare();
            kernel.launch();
        }
        CHECK(cudaGetLastError());
        if (size_t wrong = kernel.wrong()) {
            std::fprintf(stderr, "%s: %zu results are wrong\n", kernel.name, wrong);
            return 1;
        }
    }

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    std::vector<std::vector<float>> times(kernels.size());
    for (int round = 0; round < kRounds; ++round) {
        for (size_t k = 0; k < kernels.size(); ++k) {
            kernels[k].prepare();
            kernels[k].launch();
            kernels[k].prepare();
            CHECK(cudaEventRecord(start));
            kernels[k].launch();
            CHECK(cudaEventRecord(stop));
            CHECK(cudaEventSynchronize(stop));
            float ms = 0;
            CHECK(cudaEventElapsedTime(&ms, start, stop));
            times[k].push_back(ms);
        }
    }

    std::printf("RESULT {\"sm_clock_hz\": %.0f, \"kernels\": {", sm_clock_hz());
    for (size_t k = 0; k < kernels.size(); ++k) {
        const Kernel& kernel = kernels[k];
        std::printf("%s\"%s\": {\"duration_ns\": %.0f, \"useful_bytes\": %.0f, \"flops\": %.0f, "
                    "\"launch_count\": %d}",
                    k ? ", " : "", kernel.name, median(times[k]) * 1e6, kernel.useful_bytes,
                    kernel.flops, kernel.launch_count);
    }
    std::printf("}}\n");
    return 0;
}

}  // namespace bench
