// Independent kernels on several streams, in variants that differ in one thing each.
//
//   --variant legacy      blocking streams; after each kernel a small one on the legacy default stream
//   --variant per_thread  the same, the small one on the per-thread default stream
//   --variant streams     non-blocking streams, the small one on the same stream as its kernel
//   --variant equal       a stream with a long queue, another with a short kernel now and then
//   --variant priority    the same, the short kernels' stream has the greatest priority
//   --streams N  --rounds N  --steps N
//   --percent N           of the blocks that the device holds at once, that one kernel has

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
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

using Clock = std::chrono::steady_clock;

constexpr int kThreads = 1024;
constexpr int kWarmUpSteps = 3;
constexpr int kUrgentEveryUs = 230;

// A chain of dependent multiply-adds: the result depends on every round.
__device__ float chain(float value, int rounds) {
    for (int round = 0; round < rounds; ++round) value = value * 0.999f + 0.001f;
    return value;
}

__global__ void advance(float* state, int rounds) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    state[index] = chain(state[index], rounds);
}

__global__ void urgent(float* state, int rounds) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    state[index] = chain(state[index], rounds);
}

// Counts the kernels; needs nothing of them, so no order is asked for.
__global__ void tally(float* sum) {
    if (threadIdx.x == 0) *sum += 1.0f;
}

struct Options {
    const char* variant = "streams";
    int streams = 4, rounds = 12000, steps = 12, percent = 12;
};

struct Work {
    Options options;
    int resident = 0;  // blocks of kThreads that the device holds at once
    std::vector<cudaStream_t> streams;
    std::vector<float*> states, sums;
    bool is(const char* name) const { return std::strcmp(options.variant, name) == 0; }
};

Work create(const Options& options) {
    Work work;
    work.options = options;
    int multiprocessors = 0, threads = 0, least = 0, greatest = 0;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    work.resident = multiprocessors * (threads / kThreads);
    const bool blocking = work.is("legacy") || work.is("per_thread");
    for (int i = 0; i < options.streams; ++i) {
        const int priority = work.is("priority") && i == 1 ? greatest : 0;
        cudaStream_t stream = nullptr;
        CHECK(cudaStreamCreateWithPriority(
            &stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking, priority));
        work.streams.push_back(stream);
        const size_t bytes = sizeof(float) * kThreads * (work.resident * options.percent / 100 + 1);
        float *state = nullptr, *sum = nullptr;
        CHECK(cudaMalloc(&state, bytes));
        CHECK(cudaMalloc(&sum, sizeof(float)));
        CHECK(cudaMemset(state, 0, bytes));
        CHECK(cudaMemset(sum, 0, sizeof(float)));
        work.states.push_back(state);
        work.sums.push_back(sum);
    }
    CHECK(cudaDeviceSynchronize());
    return work;
}

// Every step: one kernel on each stream, and a small one after it.
void run_side_by_side(Work& work, int steps) {
    const int blocks = work.resident * work.options.percent / 100;
    for (int step = 0; step < steps; ++step) {
        nvtxRangePushA("step");
        for (size_t i = 0; i < work.streams.size(); ++i) {
            const cudaStream_t stream = work.streams[i];
            advance<<<blocks, kThreads, 0, stream>>>(work.states[i], work.options.rounds);
            CHECK(cudaGetLastError());
            const cudaStream_t other = work.is("legacy")       ? cudaStreamLegacy
                                       : work.is("per_thread") ? cudaStreamPerThread
                                                               : stream;
            tally<<<1, 32, 0, other>>>(work.sums[i]);
            CHECK(cudaGetLastError());
        }
        nvtxRangePop();
    }
    CHECK(cudaDeviceSynchronize());
}

// A queue of kernels on stream 0; meanwhile short ones on stream 1, at even times.
void run_with_queue(Work& work, int steps) {
    const int blocks = work.resident * work.options.percent / 100;
    for (int step = 0; step < steps; ++step) {
        advance<<<blocks, kThreads, 0, work.streams[0]>>>(work.states[0], work.options.rounds);
        CHECK(cudaGetLastError());
    }
    const auto begin = Clock::now();
    for (int i = 1; i <= steps; ++i) {
        while (Clock::now() - begin < std::chrono::microseconds(kUrgentEveryUs * i)) {
        }
        nvtxRangePushA("urgent");
        urgent<<<work.resident / 16, kThreads, 0, work.streams[1]>>>(work.states[1], 400);
        CHECK(cudaGetLastError());
        nvtxRangePop();
    }
    CHECK(cudaDeviceSynchronize());
}

double run(Work& work, int steps) {  // milliseconds
    const auto begin = Clock::now();
    if (work.is("equal") || work.is("priority")) {
        run_with_queue(work, steps);
    } else {
        run_side_by_side(work, steps);
    }
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

int main(int argc, char** argv) {
    Options options;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!std::strcmp(name, "--variant")) options.variant = value;
        if (!std::strcmp(name, "--streams")) options.streams = std::atoi(value);
        if (!std::strcmp(name, "--rounds")) options.rounds = std::atoi(value);
        if (!std::strcmp(name, "--steps")) options.steps = std::atoi(value);
        if (!std::strcmp(name, "--percent")) options.percent = std::atoi(value);
    }
    Work work = create(options);
    run(work, kWarmUpSteps);
    std::vector<double> untraced;
    for (int i = 0; i < 5; ++i) untraced.push_back(run(work, options.steps));

    CHECK(cudaProfilerStart());
    nvtxRangePushA("overlap");
    const double traced = run(work, options.steps);
    nvtxRangePop();
    CHECK(cudaProfilerStop());

    float sum = 0.0f;
    for (float* each : work.sums) {
        float value = 0.0f;
        CHECK(cudaMemcpy(&value, each, sizeof(float), cudaMemcpyDeviceToHost));
        sum += value;
    }
    std::printf("RESULT {\"variant\": \"%s\", \"streams\": %d, \"steps\": %d, \"resident_blocks\": %d, ",
                options.variant, options.streams, options.steps, work.resident);
    std::printf("\"untraced_ms\": [");
    for (size_t i = 0; i < untraced.size(); ++i) {
        std::printf("%s%.4f", i ? ", " : "", untraced[i]);
    }
    std::printf("], \"traced_ms\": %.4f, \"checksum\": %.4f}\n", traced, sum);
    return 0;
}
