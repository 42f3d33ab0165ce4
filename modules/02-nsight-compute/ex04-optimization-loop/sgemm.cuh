// The given half of the optimization loop: contract, two first kernels, data, checks and main().
//
// A step is a function
//
//   void step(const float* a, const float* b, float* c, int m, int n, int k);
//
// that launches one kernel on the default stream so that C = A * B, in fp32 on the CUDA cores (no tf32,
// no tensor cores). A has m rows and k columns, B k and n, C m and n, each row after row without
// gaps. m and n are multiples of 256, k of 32; all pointers come from cudaMalloc (multiples of 256
// bytes) and do not overlap. It neither allocates nor waits. What C holds before means nothing. An element
// may differ from the exact one by kRelativeError times the sum of the magnitudes of its products.
//
//   ./optimization_loop_student                every step: time, TFLOP/s, ratio to cuBLAS, in turns
//   --step NAME                                this step alone
//   --once                                     each step once, between cudaProfilerStart and …Stop
//   --m M --n N --k K                          another size (4096 each)
//
// cuBLAS is looked for when the program runs: in $CUBLAS_LIBRARY, where the loader looks, and among the
// wheels of python3. Without it the times stand alone.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
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

struct Step {
    const char* name;
    void (*run)(const float* a, const float* b, float* c, int m, int n, int k);
};
extern const std::vector<Step> kSteps;  // in the order in which they were tried

constexpr double kRelativeError = 1e-5;
constexpr int kRepeats = 7;
constexpr int kSamples = 4096;  // elements of C that are computed again in double

// -- the first two steps --------------------------------------------------------------------------

// A thread an element. Threads of a warp are neighbours in a *column* of C.
__global__ void __launch_bounds__(1024)
    sgemm_naive(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    const int column = blockIdx.y * 32 + threadIdx.y;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[size_t(row) * k + i] * b[size_t(i) * n + column];
    c[size_t(row) * n + column] = sum;
}

// The same, and threads of a warp are neighbours in a *row* of C.
__global__ void __launch_bounds__(1024)
    sgemm_coalesced(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[size_t(row) * k + i] * b[size_t(i) * n + column];
    c[size_t(row) * n + column] = sum;
}

inline void naive(const float* a, const float* b, float* c, int m, int n, int k) {
    sgemm_naive<<<dim3(m / 32, n / 32), dim3(32, 32)>>>(a, b, c, m, n, k);
}

inline void coalesced(const float* a, const float* b, float* c, int m, int n, int k) {
    sgemm_coalesced<<<dim3(n / 32, m / 32), dim3(32, 32)>>>(a, b, c, m, n, k);
}

// -- cuBLAS ---------------------------------------------------------------------------------------

// cublasSgemm of cuBLAS 12 and 13. Its default math mode computes fp32 products in fp32.
struct Cublas {
    using Create = int (*)(void**);
    using Sgemm = int (*)(void*, int, int, int, int, int, const float*, const float*, int, const float*,
                          int, const float*, float*, int);
    void* handle = nullptr;
    Sgemm sgemm = nullptr;

    static void* open() {
        std::vector<std::string> names;
        if (const char* given = std::getenv("CUBLAS_LIBRARY")) names.push_back(given);
        for (const char* name : {"libcublas.so", "libcublas.so.13", "libcublas.so.12"})
            names.push_back(name);
        for (const std::string& name : names)
            if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
        const char* ask =
            "python3 -c \"import glob, sysconfig; print('\\n'.join(sorted(glob.glob("
            "sysconfig.get_path('purelib') + '/nvidia/**/lib/libcublas*.so.*', recursive=True))[::-1]))\""
            " 2>/dev/null";
        FILE* answer = popen(ask, "r");
        if (!answer) return nullptr;
        char line[1024];
        void* library = nullptr;
        while (std::fgets(line, sizeof line, answer)) {  // libcublasLt first: the other one needs it
            line[std::strcspn(line, "\n")] = 0;
            void* found = dlopen(line, RTLD_NOW | RTLD_GLOBAL);
            if (found && dlsym(found, "cublasSgemm_v2")) library = found;
        }
        pclose(answer);
        return library;
    }

    Cublas() {
        void* library = open();
        if (!library) return;
        const Create create = Create(dlsym(library, "cublasCreate_v2"));
        const Sgemm found = Sgemm(dlsym(library, "cublasSgemm_v2"));
        if (create && found && create(&handle) == 0) sgemm = found;
    }

    // It counts rows down columns: seen so, row-major C is the transpose, and C^T = B^T * A^T.
    void run(const float* a, const float* b, float* c, int m, int n, int k) const {
        const float one = 1, zero = 0;
        const int status = sgemm(handle, 0, 0, n, m, k, &one, b, n, a, k, &zero, c, n);
        if (status != 0) {
            std::fprintf(stderr, "cublasSgemm: status %d\n", status);
            std::exit(1);
        }
    }
};

// -- data and checks ------------------------------------------------------------------------------

// -1 to 1, without a pattern: on zeros or small integers a device needs less power and runs faster.
__global__ void fill_random(float* values, size_t count, unsigned seed) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned bits = unsigned(i) * 2654435761u + seed;
    bits = (bits ^ bits >> 16) * 2246822519u;
    bits = (bits ^ bits >> 13) * 3266489917u;
    values[i] = float((bits ^ bits >> 16) >> 8) / float(1 << 23) - 1.0f;
}

__global__ void count_wrong(const float* a, const float* b, const float* c, int m, int n, int k,
                            unsigned* wrong) {
    const unsigned sample = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t place = size_t(sample) * 2654435761u % (size_t(m) * n);
    const size_t row = place / n, column = place % n;
    double sum = 0, magnitude = 0;
    for (int i = 0; i < k; ++i) {
        const double product = double(a[row * k + i]) * double(b[size_t(i) * n + column]);
        sum += product;
        magnitude += fabs(product);
    }
    if (!(fabs(c[place] - sum) <= kRelativeError * magnitude)) atomicAdd(wrong, 1u);
}

// -- main -----------------------------------------------------------------------------------------

inline const char* text_option(int argc, char** argv, const char* name, const char* fallback) {
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
    }
    return fallback;
}

inline bool flag(int argc, char** argv, const char* name) {
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], name) == 0) return true;
    }
    return false;
}

// The call in front keeps the device busy while the host issues the one that is timed: what a library's
// call costs the host is not in the time.
template <class Work>
double time_ns(Work work) {
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    work();
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
    return values.empty() ? 0 : values[values.size() / 2];
}

inline std::string list(const std::vector<double>& values) {
    std::string out = "[";
    for (size_t i = 0; i < values.size(); ++i)
        out += (i ? ", " : "") + std::to_string((long long)(values[i] + 0.5));
    return out + "]";
}

int main(int argc, char** argv) {
    const int m = std::atoi(text_option(argc, argv, "--m", "4096"));
    const int n = std::atoi(text_option(argc, argv, "--n", "4096"));
    const int k = std::atoi(text_option(argc, argv, "--k", "4096"));
    const char* wanted = text_option(argc, argv, "--step", "");
    std::vector<Step> steps;
    for (const Step& step : kSteps)
        if (!*wanted || std::strcmp(step.name, wanted) == 0) steps.push_back(step);
    if (m < 256 || n < 256 || k < 32 || m % 256 || n % 256 || k % 32 || steps.empty()) {
        std::fprintf(stderr, "usage: %s [--step NAME] [--m M] [--n N] [--k K] [--once | --plan]\n", argv[0]);
        std::fprintf(stderr, "m and n are multiples of 256, k of 32; the steps here are:");
        for (const Step& step : kSteps) std::fprintf(stderr, " %s", step.name);
        std::fprintf(stderr, "\n");
        return 2;
    }
    const size_t sizes[3] = {size_t(m) * k, size_t(k) * n, size_t(m) * n};
    float* matrices[3];
    for (int i = 0; i < 3; ++i) CHECK(cudaMalloc(&matrices[i], sizes[i] * sizeof(float)));
    float *a = matrices[0], *b = matrices[1], *c = matrices[2];

    if (flag(argc, argv, "--plan")) {  // the checks without a GPU: what is launched, how
        for (const Step& step : steps) step.run(a, b, c, m, n, k);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        return 0;
    }
    fill_random<<<unsigned((sizes[0] + 255) / 256), 256>>>(a, sizes[0], 1);
    fill_random<<<unsigned((sizes[1] + 255) / 256), 256>>>(b, sizes[1], 2);
    CHECK(cudaDeviceSynchronize());
    if (flag(argc, argv, "--once")) {
        CHECK(cudaProfilerStart());
        for (const Step& step : steps) {
            step.run(a, b, c, m, n, k);
            CHECK(cudaGetLastError());
        }
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaProfilerStop());
        return 0;
    }

    unsigned *wrong = nullptr, found = 0;
    CHECK(cudaMalloc(&wrong, sizeof found));
    const Cublas cublas;
    std::vector<unsigned> wrongs;
    std::vector<std::vector<double>> own(steps.size());
    std::vector<double> library;
    for (const Step& step : steps) {
        CHECK(cudaMemset(c, 0xff, sizes[2] * sizeof(float)));
        CHECK(cudaMemset(wrong, 0, sizeof found));
        step.run(a, b, c, m, n, k);
        CHECK(cudaGetLastError());
        count_wrong<<<kSamples / 256, 256>>>(a, b, c, m, n, k, wrong);
        CHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
        wrongs.push_back(found);
    }
    for (int repeat = -1; repeat < kRepeats; ++repeat) {  // in turns: a change of clocks meets all
        for (size_t i = 0; i < steps.size(); ++i) {
            const double ns = time_ns([&] { steps[i].run(a, b, c, m, n, k); });
            if (repeat >= 0) own[i].push_back(ns);
        }
        if (!cublas.sgemm) continue;
        const double ns = time_ns([&] { cublas.run(a, b, c, m, n, k); });
        if (repeat >= 0) library.push_back(ns);
    }
    const double flop = 2.0 * m * n * k, best = median(library);
    std::string out;
    for (size_t i = 0; i < steps.size(); ++i) {
        const double ns = median(own[i]);
        std::printf("%-16s %10.1f us %6.1f TFLOP/s", steps[i].name, ns / 1e3, flop / ns / 1e3);
        if (best > 0) std::printf(", %5.1f %% of cuBLAS", 100 * best / ns);
        std::printf(", %u of %d samples wrong\n", wrongs[i], kSamples);
        out += std::string(i ? ", " : "") + "\"" + steps[i].name + "\": {\"own_ns\": " + list(own[i]) +
               ", \"wrong\": " + std::to_string(wrongs[i]) + "}";
    }
    if (best > 0) std::printf("%-16s %10.1f us %6.1f TFLOP/s\n", "cuBLAS", best / 1e3, flop / best / 1e3);
    std::printf("RESULT {\"m\": %d, \"n\": %d, \"k\": %d, \"cublas_ns\": %s, \"steps\": {%s}}\n", m, n, k,
                list(library).c_str(), out.c_str());
    return 0;
}
