// What the programs of the two tasks share: options, errors, and timing in turns with a ceiling.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#if __has_include(<cuda_profiler_api.h>)
#include <cuda_profiler_api.h>
#else  // the runtime has both; only the wheels of the toolkit leave their header out
extern "C" cudaError_t CUDARTAPI cudaProfilerStart(void);
extern "C" cudaError_t CUDARTAPI cudaProfilerStop(void);
#endif

// Stops the program with file, line and CUDA's own words when a runtime call fails.
#define CHECK(call)                                                                             \
    do {                                                                                        \
        const cudaError_t check_status = (call);                                                \
        if (check_status != cudaSuccess) {                                                      \
            std::fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call,             \
                         cudaGetErrorName(check_status), cudaGetErrorString(check_status));     \
            std::exit(1);                                                                       \
        }                                                                                       \
    } while (0)

constexpr int kRepeats = 5;

inline long long option(int argc, char** argv, const char* name, long long fallback) {
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::strcmp(argv[i], name) == 0) return std::atoll(argv[i + 1]);
    }
    return fallback;
}

inline bool flag(int argc, char** argv, const char* name) {
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], name) == 0) return true;
    }
    return false;
}

template <class Work>
double time_ns(Work work) {
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start));
    work();
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    return milliseconds * 1e6;
}

inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

inline void print_list(const char* name, const std::vector<double>& values) {
    std::printf("\"%s\": [", name);
    for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.0f", i ? ", " : "", values[i]);
    std::printf("]");
}

// Times both in turns, so that a change of clocks meets both, and prints the one line of the result.
template <class Own, class Ceiling>
void compare(const char* name, Own own, const char* ceiling_name, Ceiling ceiling, size_t wrong,
             double bytes) {
    std::vector<double> own_ns, ceiling_ns;
    for (int repeat = -2; repeat < kRepeats; ++repeat) {  // the first two warm up
        const double one = time_ns(own), other = time_ns(ceiling);
        if (repeat < 0) continue;
        own_ns.push_back(one);
        ceiling_ns.push_back(other);
    }
    const double own_median = median(own_ns), ceiling_median = median(ceiling_ns);
    std::printf("%s: %.1f us, %s: %.1f us, ratio %.3f, %.0f GB/s, %zu wrong\n", name,
                own_median / 1e3, ceiling_name, ceiling_median / 1e3, ceiling_median / own_median,
                bytes / own_median, wrong);
    std::printf("RESULT {\"wrong\": %zu, \"bytes\": %.0f, ", wrong, bytes);
    print_list("own_ns", own_ns);
    std::printf(", ");
    print_list("ceiling_ns", ceiling_ns);
    std::printf("}\n");
}
