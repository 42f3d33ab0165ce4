// The given half of a particle simulation: options, host work, kernels and main().
//
// A .cu file that includes this header defines how a step is done: it owns every buffer, stream and
// event, and issues the work.
//
//   Simulation* create_simulation(int particles, int steps_most);   not timed
//   void run_simulation(Simulation& simulation, int steps);         steps 0 … steps-1; timed
//   void destroy_simulation(Simulation* simulation);                releases all of it; not timed
//
// Contract. create_simulation sets the bytes of all positions and velocities to 0. run_simulation may
// be called several times, with at most steps_most steps; the particles go on from where they are. It
// does for every step i, from 0 on:
//   1. prepare_step(i, table) writes kTable floats to host memory; they are copied to the device;
//   2. kick, drift, energy and total run in this order, on all particles. kick uses the table of
//      step i; total adds to a sum of 8 bytes that holds 0 before;
//   3. log_energy(i, sum) reads the sum of step i from host memory, once, when it has arrived. When
//      that is within run_simulation, and in which order of the steps, is free.
// Nothing is in flight when run_simulation returns.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

using Sum = unsigned long long;  // energies are summed as integers: the order does not matter

// ---------------------------------------------------------------------------------------- kernels
// All loop over the grid, so any grid does all particles.

constexpr int kThreads = 256;
constexpr int kTable = 64;  // floats in the table of a step

inline int blocks_for(int particles) {
    const int blocks = (particles + kThreads - 1) / kThreads;
    return blocks < 2048 ? blocks : 2048;
}

// Changes every velocity by the force of the field that the table describes.
__global__ void kick(float* velocity, const float* position, const float* table, int particles) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < particles; i += gridDim.x * blockDim.x) {
        const float x = position[i];
        float force = 0.0f;
#pragma unroll 8
        for (int k = 0; k < kTable; ++k) {
            const float coefficient = table[k];
            for (int round = 0; round < 3; ++round) force = fmaf(force, x, coefficient);
        }
        velocity[i] = fmaf(velocity[i], 0.5f, force * 0.001f);
    }
}

// Moves every particle; the box is [-0.5, 0.5) and periodic.
__global__ void drift(float* position, const float* velocity, int particles) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < particles; i += gridDim.x * blockDim.x) {
        const float x = position[i] + velocity[i] + static_cast<float>(i % 1024) * 0x1p-12f;
        position[i] = x - rintf(x);
    }
}

__global__ void energy(float* each, const float* position, const float* velocity, int particles) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < particles; i += gridDim.x * blockDim.x) {
        each[i] = 0.5f * velocity[i] * velocity[i] + position[i] * position[i];
    }
}

__global__ void total(Sum* sum, const float* each, int particles) {
    Sum own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < particles; i += gridDim.x * blockDim.x) {
        own += static_cast<Sum>(each[i] * 0x1p20f);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        own += __shfl_down_sync(0xffffffffu, own, offset);
    }
    if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

// ------------------------------------------------------------------------------------------- host

#if defined(__GNUC__)
// A checker may define this to see which host memory is touched; a normal build leaves it empty.
extern "C" void lab_host_access(const char* what, int batch, const void* memory, size_t bytes,
                                int is_write) __attribute__((weak));
#define LAB_HOST_ACCESS(what, step, memory, bytes, is_write) \
    do {                                                     \
        if (lab_host_access) lab_host_access(what, step, memory, bytes, is_write); \
    } while (0)
#else
#define LAB_HOST_ACCESS(what, step, memory, bytes, is_write) ((void)0)
#endif

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

// Writes the table of a step to host memory; kPasses make it cost what a small solver would.
inline void prepare_step(int step, float* table) {
    Range range("prepare");
    LAB_HOST_ACCESS("prepare_step", step, table, sizeof(float) * kTable, 1);
    constexpr int kPasses = 48;
    for (int k = 0; k < kTable; ++k) {
        uint64_t bits = (static_cast<uint64_t>(step) << 32) | static_cast<uint32_t>(k);
        for (int pass = 0; pass < kPasses; ++pass) bits = mix(bits);
        table[k] = static_cast<float>(bits >> 40) * 0x1p-24f - 0.5f;
    }
}

// Reads the energy of a step from host memory and adds it to the checksum.
inline void log_energy(int step, const Sum* sum) {
    Range range("log");
    LAB_HOST_ACCESS("log_energy", step, sum, sizeof(Sum), 0);
    checksum() += mix((static_cast<uint64_t>(step) << 40) ^ *sum);
}

// ------------------------------------------------------------------------------------------- main

struct Simulation;
Simulation* create_simulation(int particles, int steps_most);
void run_simulation(Simulation& simulation, int steps);
void destroy_simulation(Simulation* simulation);

inline int option(int argc, char** argv, const char* name, int fallback) {
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::strcmp(argv[i], name) == 0) return std::atoi(argv[i + 1]);
    }
    return fallback;
}

int main(int argc, char** argv) {
    const int steps = option(argc, argv, "--steps", 64);
    const int particles = option(argc, argv, "--particles", 1 << 22);
    const int warmup_steps = option(argc, argv, "--warmup-steps", 16);
    if (steps < 1 || particles < 1 || warmup_steps < 0) {
        std::fprintf(stderr, "usage: %s [--steps N] [--particles N] [--warmup-steps N]\n", argv[0]);
        return 2;
    }

    Simulation* simulation =
        create_simulation(particles, steps > warmup_steps ? steps : warmup_steps);
    if (warmup_steps > 0) {
        Range range("warm-up");
        run_simulation(*simulation, warmup_steps);
        CHECK(cudaDeviceSynchronize());
    }
    checksum() = 0;

    CHECK(cudaProfilerStart());
    double microseconds = 0.0;
    {
        Range range("simulation");
        const auto begin = std::chrono::steady_clock::now();
        run_simulation(*simulation, steps);
        CHECK(cudaDeviceSynchronize());
        const auto end = std::chrono::steady_clock::now();
        microseconds = std::chrono::duration<double, std::micro>(end - begin).count();
    }
    CHECK(cudaProfilerStop());

    destroy_simulation(simulation);
    std::printf("steps %d\nparticles %d\nus_per_step %.4f\nchecksum %016llx\n", steps, particles,
                microseconds / steps, static_cast<unsigned long long>(checksum()));
    return 0;
}
