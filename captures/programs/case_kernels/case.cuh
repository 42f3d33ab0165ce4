// What the programs of this folder share: a sick and a fixed kernel of one task, timed in turns.
//
//   ./program --task NAME --variant sick|fixed          RESULT {"sick_ns": […], "fixed_ns": […]}
//   ./program --task NAME --variant sick|fixed --once   one launch between cudaProfilerStart and …Stop
//   ./program --task NAME --variant sick|fixed --watch  a few launches in the same range, timed before

#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

#if __has_include(<cuda_profiler_api.h>)
#include <cuda_profiler_api.h>
#else  // the runtime has both; only the wheels of the toolkit leave their header out
extern "C" cudaError_t CUDARTAPI cudaProfilerStart(void);
extern "C" cudaError_t CUDARTAPI cudaProfilerStop(void);
#endif

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status = (call);                                                 \
        if (status != cudaSuccess) {                                                 \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                  \
                         cudaGetErrorString(status));                                \
            std::exit(1);                                                            \
        }                                                                            \
    } while (0)

constexpr int kRounds = 9, kWatchedLaunches = 6;

// A number in [0, 1) that depends on the index only.
__host__ __device__ inline float unit(unsigned index) {
    unsigned bits = index * 2654435761u;
    bits ^= bits >> 15;
    bits *= 2246822519u;
    bits ^= bits >> 13;
    return (bits >> 8) * (1.0f / 16777216.0f);
}

__global__ void set_units(float* values, size_t count) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) values[i] = unit(unsigned(i));
}

inline float* floats(size_t count) {
    float* values = nullptr;
    CHECK(cudaMalloc(&values, count * sizeof(float)));
    set_units<<<unsigned((count + 255) / 256), 256>>>(values, count);
    CHECK(cudaGetLastError());
    return values;
}

template <class Value>
Value* memory(size_t count) {
    Value* values = nullptr;
    CHECK(cudaMalloc(&values, count * sizeof(Value)));
    CHECK(cudaMemset(values, 0, count * sizeof(Value)));
    return values;
}

using Launch = void (*)();

struct Task {
    const char* name;
    void (*prepare)();  // allocates what both variants use
    Launch sick, fixed;
    const float* (*result)();  // where both leave what they computed, kCompared values of it
};

constexpr int kCompared = 4096;

inline const char* given(int count, char** words, const char* name) {
    for (int i = 1; i + 1 < count; ++i)
        if (!std::strcmp(words[i], name)) return words[i + 1];
    return "";
}

inline bool has(int count, char** words, const char* name) {
    for (int i = 1; i < count; ++i)
        if (!std::strcmp(words[i], name)) return true;
    return false;
}

inline std::vector<float> computed(const Task& task, Launch launch) {
    std::vector<float> values(kCompared);
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(values.data(), task.result(), kCompared * sizeof(float), cudaMemcpyDefault));
    return values;
}

inline float milliseconds(Launch launch) {
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    launch();
    CHECK(cudaEventRecord(start));
    launch();
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    return ms;
}

inline int run(const std::vector<Task>& tasks, int count, char** words) {
    const char* name = given(count, words, "--task");
    const bool sick = !std::strcmp(given(count, words, "--variant"), "sick");
    for (const Task& task : tasks) {
        if (std::strcmp(task.name, name)) continue;
        task.prepare();
        CHECK(cudaDeviceSynchronize());
        Launch chosen = sick ? task.sick : task.fixed;
        std::vector<int> ns[2];
        if (!has(count, words, "--once")) {
            // Sums in another order differ a little: the two must agree to a thousandth.
            std::vector<float> one = computed(task, task.sick), other = computed(task, task.fixed);
            for (int i = 0; i < kCompared; ++i) {
                float least = std::max(1.0f, std::max(std::abs(one[i]), std::abs(other[i])));
                if (!(std::abs(one[i] - other[i]) <= 2e-3f * least)) {
                    std::fprintf(stderr, "%s: result %d is %g and %g\n", name, i, one[i], other[i]);
                    return 1;
                }
            }
            for (int round = 0; round < kRounds; ++round) {
                ns[0].push_back(int(milliseconds(task.sick) * 1e6f));
                ns[1].push_back(int(milliseconds(task.fixed) * 1e6f));
            }
        }
        if (has(count, words, "--once") || has(count, words, "--watch")) {
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaProfilerStart());
            const int launches = has(count, words, "--watch") ? kWatchedLaunches : 1;
            for (int launch = 0; launch < launches; ++launch) chosen();
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaProfilerStop());
        }
        if (ns[0].empty()) return 0;
        std::printf("RESULT {");
        for (int variant = 0; variant < 2; ++variant) {
            std::printf("\"%s_ns\": [", variant ? "fixed" : "sick");
            for (size_t i = 0; i < ns[variant].size(); ++i)
                std::printf("%s%d", i ? ", " : "", ns[variant][i]);
            std::printf("], ");
        }
        std::printf("\"variant\": \"%s\", \"task\": \"%s\"}\n", sick ? "sick" : "fixed", name);
        return 0;
    }
    std::fprintf(stderr, "no task %s\n", name);
    return 2;
}
