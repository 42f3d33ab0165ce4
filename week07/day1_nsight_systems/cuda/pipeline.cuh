// The given half of the inference pipeline: options, data, kernels and main().
//
// A batch goes host -> device -> normalise -> infer -> postprocess -> host. A .cu file that
// includes this header defines how: it owns every buffer, stream and event, and issues each step.
//
//   Pipeline* create_pipeline(int elements, int iterations);   buffers, streams, events; not timed
//   void run_pipeline(Pipeline& pipeline, int batches);         batches 0 … batches-1; timed
//   void destroy_pipeline(Pipeline* pipeline);                  releases all of it; not timed
//
// Contract of run_pipeline, for every batch i (batches may be fewer than the buffers there are):
//   1. load_batch(i, p, elements) writes the input to host memory p;
//   2. its `elements` floats are copied from p to the device, pass through the three kernels in
//      order, and the `elements` floats of the result are copied back to host memory q;
//   3. consume_batch(i, q, elements) reads the result, once, when it has arrived.
// The copies start where load_batch wrote and end where consume_batch reads: no host-side copy.
// Nothing is in flight when run_pipeline returns.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
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

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define LAB_NVTX 1
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

// An NVTX range that lasts as long as the scope it stands in.
class Range {
  public:
#ifdef LAB_NVTX
    explicit Range(const char* name) { nvtxRangePushA(name); }
    ~Range() { nvtxRangePop(); }
#else
    explicit Range(const char*) {}
#endif
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
};

// ---------------------------------------------------------------------------------------- kernels
// All three are element by element and loop over the grid, so any grid computes all `elements`.

constexpr int kThreads = 256;

inline int blocks_for(int elements) {
    const int blocks = (elements + kThreads - 1) / kThreads;
    return blocks < 1 ? 1 : blocks;
}

__global__ void normalise(const float* input, float* output, int elements) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += gridDim.x * blockDim.x) {
        output[i] = (input[i] - 0.5f) * 3.4641016f;  // uniform on [0, 1): mean 0, variance 1
    }
}

// Stands for the model: `iterations` dependent multiply-adds an element, so that its time is set by
// arithmetic and can be tuned to the time of a copy.
__global__ void infer(const float* input, float* output, int elements, int iterations) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += gridDim.x * blockDim.x) {
        const float x = input[i];
        float state = x;
#pragma unroll 16
        for (int k = 0; k < iterations; ++k) state = fmaf(state, 0.75f, x);
        output[i] = state;
    }
}

__global__ void postprocess(const float* input, float* output, int elements) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += gridDim.x * blockDim.x) {
        output[i] = 1.0f / (1.0f + expf(-input[i]));
    }
}

// ------------------------------------------------------------------------------------------- data

#if defined(__GNUC__)
// A checker may define this to see which host memory is touched; a normal build leaves it empty.
extern "C" void lab_host_access(const char* what, int batch, const void* memory, size_t bytes,
                                int is_write) __attribute__((weak));
#define LAB_HOST_ACCESS(what, batch, memory, bytes, is_write) \
    do {                                                      \
        if (lab_host_access) lab_host_access(what, batch, memory, bytes, is_write); \
    } while (0)
#else
#define LAB_HOST_ACCESS(what, batch, memory, bytes, is_write) ((void)0)
#endif

// Of every 4096 floats one is written and checked. A decoder would write them all, on other cores;
// one thread that did would be slower than PCIe and hide what this program is about.
constexpr int kSampleStride = 4096;

inline uint64_t mix(uint64_t x) {  // splitmix64's finaliser
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

inline uint64_t& checksum() {
    static uint64_t value = 0;
    return value;
}

// Writes batch `batch` to host memory.
inline void load_batch(int batch, float* destination, int elements) {
    Range range("load_batch");
    LAB_HOST_ACCESS("load_batch", batch, destination, sizeof(float) * elements, 1);
    for (int i = 0; i < elements; i += kSampleStride) {
        const uint64_t bits = mix((static_cast<uint64_t>(batch) << 32) | static_cast<uint32_t>(i));
        destination[i] = static_cast<float>(bits >> 40) * 0x1p-24f;
    }
}

// Reads the result of batch `batch` from host memory and adds it to the checksum, which does not
// depend on the order in which the batches come.
inline void consume_batch(int batch, const float* source, int elements) {
    Range range("consume_batch");
    LAB_HOST_ACCESS("consume_batch", batch, source, sizeof(float) * elements, 0);
    for (int i = 0; i < elements; i += kSampleStride) {
        uint32_t bits;
        std::memcpy(&bits, source + i, sizeof(bits));
        const uint64_t place = (static_cast<uint64_t>(batch) << 32) | static_cast<uint32_t>(i);
        checksum() += mix(mix(place) ^ bits);
    }
}

// ------------------------------------------------------------------------------------------- main

struct Pipeline;
Pipeline* create_pipeline(int elements, int iterations);
void run_pipeline(Pipeline& pipeline, int batches);
void destroy_pipeline(Pipeline* pipeline);

inline int option(int argc, char** argv, const char* name, int fallback) {
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::strcmp(argv[i], name) == 0) return std::atoi(argv[i + 1]);
    }
    return fallback;
}

int main(int argc, char** argv) {
    const int batches = option(argc, argv, "--batches", 32);
    const int elements = option(argc, argv, "--elements", 1 << 23);       // 32 MiB a batch
    const int iterations = option(argc, argv, "--iterations", 2048);      // of the infer kernel
    const int warmup_batches = option(argc, argv, "--warmup-batches", 8);
    if (batches < 1 || elements < 1 || iterations < 1 || warmup_batches < 0) {
        std::fprintf(stderr,
                     "usage: %s [--batches N] [--elements N] [--iterations N] "
                     "[--warmup-batches N]\n",
                     argv[0]);
        return 2;
    }

    Pipeline* pipeline = create_pipeline(elements, iterations);
    {
        Range range("warm-up");  // first launches load the module; clocks rise
        run_pipeline(*pipeline, warmup_batches);
        CHECK(cudaDeviceSynchronize());
    }
    checksum() = 0;

    CHECK(cudaProfilerStart());
    double milliseconds = 0.0;
    {
        Range range("pipeline");
        const auto begin = std::chrono::steady_clock::now();
        run_pipeline(*pipeline, batches);
        CHECK(cudaDeviceSynchronize());
        const auto end = std::chrono::steady_clock::now();
        milliseconds = std::chrono::duration<double, std::milli>(end - begin).count();
    }
    CHECK(cudaProfilerStop());

    destroy_pipeline(pipeline);
    std::printf("batches %d\nelements %d\nms_per_batch %.4f\nchecksum %016llx\n", batches, elements,
                milliseconds / batches, static_cast<unsigned long long>(checksum()));
    return 0;
}
