// Copies between host and device, in variants that differ in one thing each.
//
//   --variant sizes       one copy at a time, of many sizes: pageable and pinned, each direction
//   --variant directions  pinned copies one way, the other way, and both ways at once
//   --variant pageable    batches in, through a kernel, and out: pageable memory, one stream
//   --variant serial      the same from pinned memory, one stream
//   --variant overlapped  the same from pinned memory, each batch on the next of four streams
//   --batches N  --kib N (of a batch or copy)  --rounds N (of the kernel)
//   --first-kib N  --factor N (sizes: from N KiB to 64 MiB, each so many times the one before)

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <dlfcn.h>
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

constexpr int kThreads = 256;
constexpr int kSlots = 4;
constexpr int kRepeats = 5;
constexpr size_t kLargest = size_t{64} << 20;

struct Options {
    const char* variant = "serial";
    int batches = 12, kib = 8192, rounds = 2000, first_kib = 4, factor = 4;
    bool is(const char* name) const { return std::strcmp(variant, name) == 0; }
    size_t bytes() const { return size_t{1024} * kib; }
};

// A chain of dependent multiply-adds an element.
__global__ void work(float* data, int elements, int rounds) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += gridDim.x * blockDim.x) {
        float value = data[i];
        for (int round = 0; round < rounds; ++round) value = value * 0.75f + 0.125f;
        data[i] = value;
    }
}

float* host_memory(size_t bytes, bool pinned) {
    float* memory = nullptr;
    if (pinned) {
        CHECK(cudaMallocHost(&memory, bytes));
    } else {
        memory = static_cast<float*>(std::malloc(bytes));
    }
    uint32_t state = 12345;  // touched, and no two pages alike
    for (size_t i = 0; i < bytes / sizeof(float); ++i) {
        state = state * 1664525u + 1013904223u;
        memory[i] = static_cast<float>(state >> 8) * 0x1p-24f;
    }
    return memory;
}

float* device_memory(size_t bytes) {
    float* memory = nullptr;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    return memory;
}

cudaStream_t new_stream() {
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

struct Sizes {
    float* host[2];  // pageable, pinned
    float* device;
    cudaStream_t stream;

    explicit Sizes(const Options&)
        : host{host_memory(kLargest, false), host_memory(kLargest, true)},
          device(device_memory(kLargest)),
          stream(new_stream()) {}

    void run(const Options& options) {
        for (int pinned = 0; pinned < 2; ++pinned) {
            for (int in = 0; in < 2; ++in) {
                nvtxRangePushA(in ? (pinned ? "pinned in" : "pageable in")
                                  : (pinned ? "pinned out" : "pageable out"));
                size_t bytes = size_t{1024} * options.first_kib;
                for (; bytes <= kLargest; bytes *= options.factor) {
                    for (int repeat = 0; repeat < kRepeats; ++repeat) {
                        void* to = in ? device : host[pinned];
                        const void* from = in ? host[pinned] : device;
                        CHECK(cudaMemcpyAsync(
                            to, from, bytes, in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                            stream));
                        CHECK(cudaStreamSynchronize(stream));
                    }
                }
                nvtxRangePop();
            }
        }
    }
};

struct Directions {
    float *from, *to, *device_in, *device_out;
    cudaStream_t in, out;

    explicit Directions(const Options& options)
        : from(host_memory(options.bytes(), true)),
          to(host_memory(options.bytes(), true)),
          device_in(device_memory(options.bytes())),
          device_out(device_memory(options.bytes())),
          in(new_stream()),
          out(new_stream()) {}

    void run(const Options& options) {
        const char* names[] = {"in alone", "out alone", "both"};
        for (int mode = 0; mode < 3; ++mode) {
            nvtxRangePushA(names[mode]);
            for (int i = 0; i < options.batches; ++i) {
                if (mode != 1) {
                    CHECK(cudaMemcpyAsync(device_in, from, options.bytes(),
                                          cudaMemcpyHostToDevice, in));
                }
                if (mode != 0) {
                    CHECK(cudaMemcpyAsync(to, device_out, options.bytes(),
                                          cudaMemcpyDeviceToHost, out));
                }
            }
            CHECK(cudaDeviceSynchronize());
            nvtxRangePop();
        }
    }
};

struct Batches {
    struct Slot {
        float *input, *output, *device;
        cudaStream_t stream;
        cudaEvent_t done;
    };
    std::vector<Slot> slots;
    float sum = 0.0f;

    explicit Batches(const Options& options) {
        const bool pinned = !options.is("pageable");
        for (int i = 0; i < kSlots; ++i) {
            const bool shared = i > 0 && !options.is("overlapped");
            Slot slot{host_memory(options.bytes(), pinned), host_memory(options.bytes(), pinned),
                      device_memory(options.bytes()), shared ? slots[0].stream : new_stream(),
                      nullptr};
            CHECK(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming));
            slots.push_back(slot);
        }
    }

    void run(const Options& options) {
        const int elements = static_cast<int>(options.bytes() / sizeof(float));
        const int count = static_cast<int>(slots.size());
        for (int i = 0; i < options.batches + count; ++i) {
            Slot& slot = slots[i % count];
            if (i >= count) {  // the batch before in this slot is out: read it
                CHECK(cudaEventSynchronize(slot.done));
                sum += slot.output[i % elements];
            }
            if (i >= options.batches) continue;
            nvtxRangePushA("batch");
            CHECK(cudaMemcpyAsync(slot.device, slot.input, options.bytes(),
                                  cudaMemcpyHostToDevice, slot.stream));
            work<<<(elements + kThreads - 1) / kThreads, kThreads, 0, slot.stream>>>(
                slot.device, elements, options.rounds);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpyAsync(slot.output, slot.device, options.bytes(),
                                  cudaMemcpyDeviceToHost, slot.stream));
            CHECK(cudaEventRecord(slot.done, slot.stream));
            nvtxRangePop();
        }
    }
};

// What NVML says of the PCIe link of device 0, as members of a JSON object; "" if it cannot be asked.
void print_link() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    using Plain = int (*)();
    using ByIndex = int (*)(unsigned, void**);
    using Ask = int (*)(void*, unsigned*);
    const auto initialise = reinterpret_cast<Plain>(dlsym(library, "nvmlInit_v2"));
    const auto by_index =
        reinterpret_cast<ByIndex>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    void* device = nullptr;
    if (!initialise || !by_index || initialise() != 0 || by_index(0, &device) != 0) return;
    const char* questions[][2] = {
        {"link_generation", "nvmlDeviceGetCurrPcieLinkGeneration"},
        {"link_width", "nvmlDeviceGetCurrPcieLinkWidth"},
        {"link_generation_most", "nvmlDeviceGetMaxPcieLinkGeneration"},
        {"link_width_most", "nvmlDeviceGetMaxPcieLinkWidth"},
    };
    for (const auto& [name, function] : questions) {
        const auto ask = reinterpret_cast<Ask>(dlsym(library, function));
        unsigned value = 0;
        if (ask && ask(device, &value) == 0) std::printf("\"%s\": %u, ", name, value);
    }
}

template <class Program>
void measure(const Options& options) {
    Program program(options);
    const auto timed = [&] {
        const auto begin = Clock::now();
        program.run(options);
        CHECK(cudaDeviceSynchronize());
        return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    };
    timed();  // the first run loads the module; the clocks and the link wake up
    std::vector<double> untraced;
    for (int i = 0; i < 3; ++i) untraced.push_back(timed());

    CHECK(cudaProfilerStart());
    nvtxRangePushA("copies");
    const double traced = timed();
    nvtxRangePop();
    CHECK(cudaProfilerStop());

    std::printf("RESULT {\"variant\": \"%s\", ", options.variant);
    print_link();
    std::printf("\"untraced_ms\": [%.4f, %.4f, %.4f], \"traced_ms\": %.4f}\n", untraced[0],
                untraced[1], untraced[2], traced);
}

int main(int argc, char** argv) {
    Options options;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!std::strcmp(name, "--variant")) options.variant = value;
        if (!std::strcmp(name, "--batches")) options.batches = std::atoi(value);
        if (!std::strcmp(name, "--kib")) options.kib = std::atoi(value);
        if (!std::strcmp(name, "--rounds")) options.rounds = std::atoi(value);
        if (!std::strcmp(name, "--first-kib")) options.first_kib = std::atoi(value);
        if (!std::strcmp(name, "--factor")) options.factor = std::atoi(value);
    }
    if (options.is("sizes")) {
        measure<Sizes>(options);
    } else if (options.is("directions")) {
        measure<Directions>(options);
    } else {
        measure<Batches>(options);
    }
    return 0;
}
