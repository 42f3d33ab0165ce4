// The given half of the student's kernel: contract, data, ceiling and main().
//
//   void triad(const float* a, const float* b, float* c, float factor, int count);
//
// launches kernels on the default stream so that c[i] = a[i] + factor * b[i] for every i < count. The
// pointers come from cudaMalloc (so they are multiples of 256 bytes) and do not overlap; count is 1 to
// 1,000,000,000. It neither allocates nor waits, and it touches nothing behind the last element.
//
//   ./memory_bandwidth_student             67,108,863 elements: result, time, ratio to a device copy
//   ./memory_bandwidth_student --once      one launch between cudaProfilerStart and cudaProfilerStop
//   --count N                              another number of elements
#pragma once

#include "../../../captures/programs/ncu_kernels/bench.cuh"

void triad(const float* a, const float* b, float* c, float factor, int count);

constexpr int kRepeats = 11;
constexpr float kFactor = 0.5f;

__global__ void fill_values(float* values, size_t count, unsigned first) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) values[i] = bench::unit(unsigned(i) + first);
}

__global__ void count_wrong_sums(const float* c, size_t count, unsigned long long* wrong) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float expected = bench::unit(unsigned(i)) + kFactor * bench::unit(unsigned(i) + 7);
    if (!(fabsf(c[i] - expected) < 1e-6f)) atomicAdd(wrong, 1ull);
}

template <class Work>
double time_ns(Work work, cudaEvent_t start, cudaEvent_t stop) {
    CHECK(cudaEventRecord(start));
    work();
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    return ms * 1e6;
}

inline void print_samples(const char* name, const std::vector<float>& values) {
    std::printf("\"%s\": [", name);
    for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.0f", i ? ", " : "", values[i]);
    std::printf("]");
}

int main(int argc, char** argv) {
    int count = (1 << 26) - 1;
    bool once = false, plan = false;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--once") == 0) once = true;
        if (std::strcmp(argv[i], "--plan") == 0) plan = true;
        if (std::strcmp(argv[i], "--count") == 0 && i + 1 < argc) count = std::atoi(argv[i + 1]);
    }
    if (count < 1) {
        std::fprintf(stderr, "usage: %s [--count N] [--once | --plan]\n", argv[0]);
        return 2;
    }
    const size_t bytes = size_t(count) * sizeof(float);
    float *a = nullptr, *b = nullptr, *c = nullptr;
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMalloc(&c, bytes));
    auto own = [&] {
        triad(a, b, c, kFactor, count);
        CHECK(cudaGetLastError());
    };
    if (plan) {  // the checks without a GPU: what is launched, how
        own();
        CHECK(cudaDeviceSynchronize());
        return 0;
    }

    const unsigned blocks = bench::blocks_for(count);
    fill_values<<<blocks, bench::kThreads>>>(a, count, 0);
    fill_values<<<blocks, bench::kThreads>>>(b, count, 7);
    CHECK(cudaMemset(c, 0xff, bytes));
    CHECK(cudaDeviceSynchronize());
    if (once) {
        CHECK(cudaProfilerStart());
        own();
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaProfilerStop());
        return 0;
    }
    own();
    unsigned long long *wrong = nullptr, found = 0;
    CHECK(cudaMalloc(&wrong, sizeof found));
    CHECK(cudaMemset(wrong, 0, sizeof found));
    count_wrong_sums<<<blocks, bench::kThreads>>>(c, count, wrong);
    CHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));

    // The ceiling: a copy that reads and writes as many bytes in all.
    const size_t copied = 3 * bytes / 2;
    char *from = nullptr, *to = nullptr;
    CHECK(cudaMalloc(&from, copied));
    CHECK(cudaMalloc(&to, copied));
    CHECK(cudaMemset(from, 1, copied));
    auto ceiling = [&] { CHECK(cudaMemcpyAsync(to, from, copied, cudaMemcpyDeviceToDevice)); };
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    std::vector<float> own_ns, copy_ns;
    for (int repeat = -2; repeat < kRepeats; ++repeat) {  // in turns; the first two warm up
        const double one = time_ns(own, start, stop), other = time_ns(ceiling, start, stop);
        if (repeat < 0) continue;
        own_ns.push_back(float(one));
        copy_ns.push_back(float(other));
    }
    const double own_median = bench::median(own_ns), copy_median = bench::median(copy_ns);
    std::printf("triad: %.1f us, device copy of as many bytes: %.1f us, ratio %.3f, %llu wrong\n",
                own_median / 1e3, copy_median / 1e3, copy_median / own_median, found);
    std::printf("RESULT {\"wrong\": %llu, \"bytes\": %zu, ", found, 3 * bytes);
    print_samples("own_ns", own_ns);
    std::printf(", ");
    print_samples("copy_ns", copy_ns);
    std::printf("}\n");
    return found != 0;
}
