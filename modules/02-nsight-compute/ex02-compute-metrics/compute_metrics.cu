// Arithmetic that is kept waiting, or not, for different reasons.
//
//   make && ./compute_metrics
//   ncu --section SchedulerStats --section WarpStateStats ./compute_metrics
//
// Options, and how kernels are run and timed: ../table.cuh; --mib does nothing here but size the copy.
//
// A *chain* is a row of multiply-adds, each of which needs the one before. chains_K gives a thread K
// chains that do not need each other, in one warp a scheduler; warps_N gives it one chain, in N warps a
// scheduler. Each chain has the same number of steps.

#include <cuda_fp16.h>

#include "table.cuh"

constexpr int kThreads = bench::kThreads;
constexpr int kSteps = 8192;          // multiply-adds of a chain
constexpr int kSlowSteps = 2048;      // of those on slower pipes
constexpr float kShrink = -0.001f, kShrinkMore = -0.002f;

__device__ inline size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// A step needs the result before it and a number that stands in the instruction: one register.
template <int kChains>
__device__ inline void run_chains(const float* in, float* out, int steps) {
    const size_t i = thread_index();
    float values[kChains];
#pragma unroll
    for (int k = 0; k < kChains; ++k) values[k] = in[i] + float(k);
#pragma unroll 16
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int k = 0; k < kChains; ++k) values[k] = fmaf(values[k], kShrink, values[k]);
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kChains; ++k) sum += values[k];
    out[i] = sum;
}

__global__ void chains_1(const float* in, float* out) { run_chains<1>(in, out, kSteps); }
__global__ void chains_2(const float* in, float* out) { run_chains<2>(in, out, kSteps); }
__global__ void chains_4(const float* in, float* out) { run_chains<4>(in, out, kSteps); }
__global__ void chains_8(const float* in, float* out) { run_chains<8>(in, out, kSteps); }
__global__ void warps_2(const float* in, float* out) { run_chains<1>(in, out, kSteps); }
__global__ void warps_4(const float* in, float* out) { run_chains<1>(in, out, kSteps); }
__global__ void warps_16(const float* in, float* out) { run_chains<1>(in, out, kSteps); }

// As warps_16, but each step reads three registers: its own, and two with what the host passed.
__global__ void warps_16_registers(const float* in, float* out, float factor, float addend) {
    const size_t i = thread_index();
    float value = in[i];
#pragma unroll 16
    for (int step = 0; step < kSteps; ++step) value = fmaf(value, factor, addend);
    out[i] = value;
}

// Sixteen chains in two warps a scheduler: little occupancy, because a block takes most of the shared memory.
__global__ void few_warps_many_chains(const float* in, float* out, int write) {
    extern __shared__ float unused[];
    if (write) unused[threadIdx.x] = in[threadIdx.x];
    run_chains<16>(in, out, kSteps);
}

// Every warp follows a chain of addresses through memory: all warps resident, nearly all of them wait.
__global__ void many_warps_one_load(const unsigned* next, float* out, int hops) {
    unsigned at = unsigned(thread_index() / 32);
    for (int hop = 0; hop < hops; ++hop) at = next[at];
    out[thread_index()] = float(at);
}

__device__ inline float shrink(float value, int steps) {
#pragma unroll 16
    for (int step = 0; step < steps; ++step) value = fmaf(value, kShrink, value);
    return value;
}
__device__ inline float shrink_more(float value, int steps) {
#pragma unroll 16
    for (int step = 0; step < steps; ++step) value = fmaf(value, kShrinkMore, value);
    return value;
}

// Two paths, by lane: both halves of a warp go through both, sixteen lanes at a time.
__global__ void diverge_2(const float* in, float* out) {
    const size_t i = thread_index();
    out[i] = threadIdx.x % 2 ? shrink_more(in[i], kSlowSteps) : shrink(in[i], kSlowSteps);
}
// A loop whose length grows with the lane: 32 lanes at first, one at the end.
__global__ void diverge_lengths(const float* in, float* out) {
    const size_t i = thread_index();
    const int steps = (threadIdx.x % 32 + 1) * (kSlowSteps / 32);
    float value = in[i];
#pragma unroll 1
    for (int step = 0; step < steps; ++step) value = fmaf(value, kShrink, value);
    out[i] = value;
}
// The same two paths, by warp.
__global__ void uniform_2(const float* in, float* out) {
    const size_t i = thread_index();
    out[i] = threadIdx.x / 32 % 2 ? shrink_more(in[i], kSlowSteps) : shrink(in[i], kSlowSteps);
}

// Other pipes: special functions, doubles, halves, integers.
__global__ void special(const float* in, float* out, float f) {
    const size_t i = thread_index();
    float values[4];
    for (int k = 0; k < 4; ++k) values[k] = in[i] + 1.0f + k;
#pragma unroll 16
    for (int step = 0; step < kSlowSteps; ++step)
        for (int k = 0; k < 4; ++k) {
            asm("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(values[k]));  // one instruction, no repairs
            values[k] += f;
        }
    out[i] = values[0] + values[1] + values[2] + values[3];
}
__global__ void doubles(const float* in, float* out, double factor) {
    const size_t i = thread_index();
    double values[4];
    for (int k = 0; k < 4; ++k) values[k] = double(in[i]) + k;
#pragma unroll 16
    for (int step = 0; step < kSlowSteps; ++step)
        for (int k = 0; k < 4; ++k) values[k] = fma(values[k], factor, values[k]);
    out[i] = float(values[0] + values[1] + values[2] + values[3]);
}
__global__ void halves(const float* in, float* out, float f, float a) {
    const size_t i = thread_index();
    const __half2 factor = __float2half2_rn(f), addend = __float2half2_rn(a);
    __half2 values[4];
    for (int k = 0; k < 4; ++k) values[k] = __float2half2_rn(in[i] + k);
#pragma unroll 16
    for (int step = 0; step < kSteps; ++step)
        for (int k = 0; k < 4; ++k) values[k] = __hfma2(values[k], factor, addend);
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += __low2float(values[k]) + __high2float(values[k]);
    out[i] = sum;
}
__global__ void integers(const unsigned* in, unsigned* out, unsigned key) {
    const size_t i = thread_index();
    unsigned values[4];
    for (int k = 0; k < 4; ++k) values[k] = in[i] + k;
#pragma unroll 16
    for (int step = 0; step < kSlowSteps; ++step)
        for (int k = 0; k < 4; ++k) values[k] = __funnelshift_l(values[k], values[k], 7) ^ key;
    out[i] = values[0] ^ values[1] ^ values[2] ^ values[3];
}

// The grid fills the device once, and a few blocks more.
__global__ void wave_and_a_bit(const float* in, float* out) { run_chains<4>(in, out, kSteps); }
__global__ void whole_waves(const float* in, float* out) { run_chains<4>(in, out, kSteps); }
// One block in sixteen has sixteen times the work of the others.
__global__ void uneven_blocks(const float* in, float* out) {
    run_chains<4>(in, out, blockIdx.x % 16 == 15 ? kSteps : kSteps / 16);
}

int main(int count, char** arguments) {
    const table::Options given = table::options(count, arguments);
    const int sms = table::multiprocessors();
    const int full = sms * 8, waves = full * 4;  // eight blocks of 256 threads fill an SM
    const size_t most = size_t(waves) * kThreads;
    auto value = [] __host__ __device__(size_t i) { return bench::unit(unsigned(i)); };

    float* in = bench::filled<float>(most, [=] __device__(size_t i) { return value(i); });
    float* out = bench::allocate<float>(most);
    auto* words = (unsigned*)bench::filled<float>(most, [=] __device__(size_t i) { return value(i); });
    auto* mixed = bench::allocate<unsigned>(most);
    const unsigned places = 1u << 26;
    unsigned* next = bench::filled<unsigned>(places, [=] __device__(size_t i) {
        return (unsigned(i) * 1664525u + 1013904223u) & (places - 1);
    });
    const int hops = 64, shared_bytes = 96 << 10;
    CHECK(cudaFuncSetAttribute(few_warps_many_chains, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               shared_bytes));
    // What a chain of so many steps makes of a value, to a hundredth of it.
    auto shrunk = [] __host__ __device__(double value, double rate, int steps) {
        return value * pow(1 + rate, double(steps));
    };
    auto near = [=](size_t threads, double expected, double error) {
        return bench::checked(threads, [=] __device__(size_t i) {
            return !(fabs(double(out[i]) - expected) < error);
        });
    };
    auto chains = [=](const char* name, int blocks, int threads_a_block, int each, int steps,
                      std::function<void()> launch) {
        const size_t threads = size_t(blocks) * threads_a_block;
        return bench::Kernel{name, 8.0 * threads, 2.0 * threads * each * steps, 1, launch,
                             bench::checked(threads, [=] __device__(size_t i) {
                                 const double start = value(i) * each + each * (each - 1) / 2;
                                 const double expected = shrunk(start, kShrink, steps);
                                 return !(fabs(out[i] - expected) <= 0.01 * expected + 1e-7);
                             })};
    };
    // period: of the indices, the second half of each so many take the other path; 1: none does.
    auto paths = [=](const char* name, double flops, std::function<void()> launch, int period,
                     bool growing) {
        return bench::Kernel{name, 8.0 * waves * kThreads, flops, 1, launch,
                             bench::checked(size_t(waves) * kThreads, [=] __device__(size_t i) {
                                 const bool other = int(i % period) >= (period + 1) / 2;
                                 const int steps =
                                     growing ? int(i % 32 + 1) * (kSlowSteps / 32) : kSlowSteps;
                                 const double expected =
                                     shrunk(value(i), other ? kShrinkMore : kShrink, steps);
                                 return !(fabs(out[i] - expected) <= 0.01 * expected + 1e-7);
                             })};
    };
    const double path_flops = 2.0 * waves * kThreads * kSlowSteps;
    const int narrow = 128;  // a warp for each of an SM's four schedulers
    std::vector<bench::Kernel> kernels = {
        chains("chains_1", sms, narrow, 1, kSteps, [=] { chains_1<<<sms, narrow>>>(in, out); }),
        chains("chains_2", sms, narrow, 2, kSteps, [=] { chains_2<<<sms, narrow>>>(in, out); }),
        chains("chains_4", sms, narrow, 4, kSteps, [=] { chains_4<<<sms, narrow>>>(in, out); }),
        chains("chains_8", sms, narrow, 8, kSteps, [=] { chains_8<<<sms, narrow>>>(in, out); }),
        chains("warps_2", sms, 256, 1, kSteps, [=] { warps_2<<<sms, 256>>>(in, out); }),
        chains("warps_4", sms, 512, 1, kSteps, [=] { warps_4<<<sms, 512>>>(in, out); }),
        chains("warps_16", 2 * sms, 1024, 1, kSteps, [=] { warps_16<<<2 * sms, 1024>>>(in, out); }),
        {"warps_16_registers", 8.0 * 2048 * sms, 2.0 * 2048 * sms * kSteps, 1,
         [=] { warps_16_registers<<<2 * sms, 1024>>>(in, out, 0.999f, 0.001f); },
         near(size_t(2048) * sms, 1.0, 0.02)},
        chains("few_warps_many_chains", 2 * sms * 4, narrow, 16, kSteps,
               [=] { few_warps_many_chains<<<2 * sms * 4, narrow, shared_bytes>>>(in, out, 0); }),
        {"many_warps_one_load", full * double(kThreads) * (hops / 32.0 + 1) * 4, 0, 1,
         [=] { many_warps_one_load<<<full, kThreads>>>(next, out, hops); },
         bench::checked(size_t(full) * kThreads,
                        [=] __device__(size_t i) {
                            unsigned at = unsigned(i / 32);
                            for (int hop = 0; hop < hops; ++hop)
                                at = (at * 1664525u + 1013904223u) & (places - 1);
                            return out[i] != float(at);
                        })},
        paths("diverge_2", path_flops, [=] { diverge_2<<<waves, kThreads>>>(in, out); }, 2, false),
        paths("diverge_lengths", path_flops * 33 / 64,
              [=] { diverge_lengths<<<waves, kThreads>>>(in, out); }, 1, true),
        paths("uniform_2", path_flops, [=] { uniform_2<<<waves, kThreads>>>(in, out); }, 64, false),
        {"special", 8.0 * full * kThreads, 2.0 * full * kThreads * 4 * kSlowSteps, 1,
         [=] { special<<<full, kThreads>>>(in, out, 0.0f); },
         near(size_t(full) * kThreads, 4.0, 1e-3)},
        {"doubles", 8.0 * full * kThreads, 2.0 * full * kThreads * 4 * kSlowSteps, 1,
         [=] { doubles<<<full, kThreads>>>(in, out, -0.001); },
         bench::checked(size_t(full) * kThreads,
                        [=] __device__(size_t i) {
                            const double expected = shrunk(4.0 * value(i) + 6, -0.001, kSlowSteps);
                            return !(fabs(out[i] - expected) <= 0.001 * expected);
                        })},
        {"halves", 8.0 * full * kThreads, 4.0 * full * kThreads * 4 * kSteps, 1,
         [=] { halves<<<full, kThreads>>>(in, out, 0.5f, 0.5f); },
         near(size_t(full) * kThreads, 8.0, 0.1)},
        {"integers", 8.0 * full * kThreads, 0, 1,
         [=] { integers<<<full, kThreads>>>(words, mixed, 0x9e3779b9u); },
         bench::checked(4096,
                        [=] __device__(size_t i) {
                            unsigned all = 0;
                            for (int k = 0; k < 4; ++k) {
                                unsigned v = words[i] + k;
                                for (int step = 0; step < kSlowSteps; ++step)
                                    v = (v << 7 | v >> 25) ^ 0x9e3779b9u;
                                all ^= v;
                            }
                            return mixed[i] != all;
                        })},
        chains("wave_and_a_bit", full + sms / 8, kThreads, 4, kSteps,
               [=] { wave_and_a_bit<<<full + sms / 8, kThreads>>>(in, out); }),
        chains("whole_waves", full * 2, kThreads, 4, kSteps,
               [=] { whole_waves<<<full * 2, kThreads>>>(in, out); }),
        {"uneven_blocks", 8.0 * waves * kThreads,
         2.0 * waves * kThreads * 4 * kSteps * (15.0 / 16 / 16 + 1.0 / 16), 1,
         [=] { uneven_blocks<<<waves, kThreads>>>(in, out); },
         bench::checked(size_t(waves) * kThreads,
                        [=] __device__(size_t i) {
                            const int steps = i / kThreads % 16 == 15 ? kSteps : kSteps / 16;
                            const double expected = shrunk(4.0 * value(i) + 6, kShrink, steps);
                            return !(fabs(out[i] - expected) <= 0.01 * expected);
                        })},
    };
    return table::run(kernels, given);
}
