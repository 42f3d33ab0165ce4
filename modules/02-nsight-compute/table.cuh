// How the programs of this module run their kernels: each once for the profiler, checked, then timed in
// turns with a copy by the CUDA runtime, which is what this device's memory gives.
//
//   ./program                 a table, then one line: RESULT {json}
//   ./program --once          no timing: each kernel once, between cudaProfilerStart and cudaProfilerStop
//   ./program --mib N         the size of the large arrays, in MiB
//
// `ncu ./program` sees each kernel once as well: the program stops the profiler before it prepares its
// data, starts it for one launch of each kernel, and stops it again.
#pragma once

#include "bench.cuh"

namespace table {

constexpr int kTimings = 9;

struct Options {
    bool once = false;
    size_t mib = 256;
};

inline Options options(int count, char** arguments) {
    CHECK(cudaFree(nullptr));  // makes the context: before that there is nothing to stop
    CHECK(cudaProfilerStop());
    Options out;
    for (int i = 1; i < count; ++i) {
        if (std::strcmp(arguments[i], "--once") == 0) {
            out.once = true;
        } else if (std::strcmp(arguments[i], "--mib") == 0 && i + 1 < count) {
            out.mib = size_t(std::atoll(arguments[++i]));
        } else {
            out.mib = 0;
        }
    }
    if (out.mib < 8 || out.mib > 2048 || (out.mib & (out.mib - 1))) {
        std::fprintf(stderr, "usage: %s [--once] [--mib N]   N: a power of two from 8 to 2048\n",
                     arguments[0]);
        std::exit(2);
    }
    return out;
}

inline int multiprocessors() {
    int count = 0;
    CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
    return count;
}

inline float timed_ms(const std::function<void()>& launch, cudaEvent_t start, cudaEvent_t stop) {
    CHECK(cudaEventRecord(start));
    launch();
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    return ms;
}

// Runs, checks, times and prints; the exit code of the program.
inline int run(const std::vector<bench::Kernel>& kernels, const Options& given) {
    CHECK(cudaDeviceSynchronize());
    for (const bench::Kernel& kernel : kernels) {
        kernel.prepare();
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaProfilerStart());
        kernel.launch();
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaProfilerStop());
        if (size_t wrong = kernel.wrong()) {
            std::fprintf(stderr, "%s: %zu results are wrong\n", kernel.name, wrong);
            return 1;
        }
    }
    if (given.once) return 0;

    const size_t copy_bytes = given.mib << 20;
    char* from = bench::filled<char>(copy_bytes, [] __device__(size_t i) { return char(i * 7); });
    char* to = bench::allocate<char>(copy_bytes);
    std::vector<bench::Kernel> all = kernels;
    all.push_back({"device_copy", 2.0 * copy_bytes, 0, 1,
                   [=] {
                       CHECK(cudaMemcpyAsync(to, from, copy_bytes, cudaMemcpyDeviceToDevice));
                   },
                   [] { return size_t(0); }});
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    std::vector<std::vector<float>> times(all.size());
    for (int turn = -1; turn < kTimings; ++turn) {  // the first one warms up
        for (size_t k = 0; k < all.size(); ++k) {
            all[k].prepare();
            all[k].launch();  // the timed one finds the caches as a repetition leaves them
            all[k].prepare();
            const float ms = timed_ms(all[k].launch, start, stop);
            if (turn >= 0) times[k].push_back(ms);
        }
    }
    const double copy_rate = 2.0 * copy_bytes / bench::median(times.back());
    std::printf("%-20s %12s %12s %10s %12s\n", "kernel", "median us", "GB/s useful", "of copy",
                "GFLOP/s");
    for (size_t k = 0; k < all.size(); ++k) {
        const double ms = bench::median(times[k]), rate = all[k].useful_bytes / ms;
        std::printf("%-20s %12.1f %12.1f %9.1f%% %12.1f\n", all[k].name, ms * 1e3, rate / 1e6,
                    100 * rate / copy_rate, all[k].flops / ms / 1e6);
    }
    std::printf("RESULT {\"mib\": %zu, \"sm_clock_hz\": %.0f, \"kernels\": {", given.mib,
                bench::sm_clock_hz());
    for (size_t k = 0; k < all.size(); ++k) {
        std::printf("%s\"%s\": {\"duration_ns\": %.0f, \"useful_bytes\": %.0f, \"flops\": %.0f, "
                    "\"samples_ns\": [",
                    k ? ", " : "", all[k].name, bench::median(times[k]) * 1e6, all[k].useful_bytes,
                    all[k].flops);
        for (size_t i = 0; i < times[k].size(); ++i)
            std::printf("%s%.0f", i ? ", " : "", times[k][i] * 1e6);
        std::printf("]}");
    }
    std::printf("}}\n");
    return 0;
}

}  // namespace table
