// Arithmetic that is kept waiting, or not, for different reasons.
//
//   make && ./compute_metrics
//   ncu --section SchedulerStats --section WarpStateStats ./compute_metrics
//
// Options, and how kernels are run and timed: ../table.cuh; --mib does nothing here but size the copy.
//
// A *chain* is a row of multiply-adds, each of which needs the one before. chains_K gives a thread K
// chains that do not need each other, in one warp a scheduler; warps_N gives it one chain, in N warps a
// scheduler. All of them calculate the same number of multiply-adds a thread and chain.

#include <cuda_fp16.h>

#include "table.cuh"

constexpr int kThreads = bench::kThreads;
constexpr int kSteps = 8192;          // multiply-adds of a chain
constexpr int kSlowSteps = 2048;      // of those on slower pipes
constexpr float kFactor = 0.999f, kAddend = 0.001f;  // every chain tends to 1

__device__ inline size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

template <int kChains, class Value>
__device__ inline void run_chains(const float* in, float* out, Value factor, Value addend, int steps) {
    const size_t i = thread_index();
    Value values[kChains];
#pragma unroll
    for (int k = 0; k < kChains; ++k) values[k] = Value(in[i] + float(k));
#pragma unroll 16
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int k = 0; k < kChains; ++k) values[k] = values[k] * factor + addend;
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kChains; ++k) sum += float(values[k]);
    out[i] = sum;
}

__global__ void chains_1(const float* in, float* out, float f, float a) {
    run_chains<1>(in, out, f, a, kSteps);
}
__global__ void chains_2(const float* in, float* out, float f, float a) {
    run_chains<2>(in, out, f, a, kSteps);
}
__global__ void chains_4(const float* in, float* out, float f, float a) {
    run_chains<4>(in, out, f, a, kSteps);
}
__global__ void chains_8(const float* in, float* out, float f, float a) {
    run_chains<8>(in, out, f, a, kSteps);
}
__global__ void warps_2(const float* in, float* out, float f, float a) {
    run_chains<1>(in, out, f, a, kSteps);
}
__global__ void warps_4(const float* in, float* out, float f, float a) {
    run_chains<1>(in, out, f, a, kSteps);
}
__global__ void warps_16(const float* in, float* out, float f, float a) {
    run_chains<1>(in, out, f, a, kSteps);
}

// Sixteen chains in two warps a scheduler: little occupancy, because a block takes most of the shared memory.
__global__ void few_warps_many_chains(const float* in, float* out, float f, float a) {
    extern __shared__ float unused[];
    if (f == 0) unused[threadIdx.x] = a;
    run_chains<16>(in, out, f, a, kSteps);
}

// Every warp follows a chain of addresses through memory: all warps resident, nearly all of them wait.
__global__ void many_warps_one_load(const unsigned* next, float* out, int hops) {
    unsigned at = unsigned(thread_index() / 32);
    for (int hop = 0; hop < hops; ++hop) at = next[at];
    out[thread_index()] = float(at);
}

__device__ inline float branch(float value, int steps, float f, float a) {
#pragma unroll 16
    for (int step = 0; step < steps; ++step) value = value * f + a;
    return value;
}

// Two paths, by lane: both halves of a warp go through both, sixteen lanes at a time.
__global__ void diverge_2(const float* in, float* out, float f, float a) {
    const size_t i = thread_index();
    float value = in[i];
    if (threadIdx.x % 2)
        value = branch(value, kSlowSteps, f, a);
    else
        value = branch(value, kSlowSteps, a, f);
    out[i] = value;
}
// A loop whose length grows with the lane: 32 lanes at first, one at the end.
__global__ void diverge_lengths(const float* in, float* out, float f, float a) {
    const size_t i = thread_index();
    const int steps = (threadIdx.x % 32 + 1) * (kSlowSteps / 32);
    float value = in[i];
#pragma unroll 1
    for (int step = 0; step < steps; ++step) value = value * f + a;
    out[i] = value;
}
// The same two paths, by warp.
__global__ void uniform_2(const float* in, float* out, float f, float a) {
    const size_t i = thread_index();
    float value = in[i];
    if (threadIdx.x / 32 % 2)
        value = branch(value, kSlowSteps, f, a);
    else
        value = branch(value, kSlowSteps, a, f);
    out[i] = value;
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
__global__ void doubles(const float* in, float* out, double f, double a) {
    run_chains<4, double>(in, out, f, a, kSlowSteps);
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
__global__ void wave_and_a_bit(const float* in, float* out, float f, float a) {
    run_chains<4>(in, out, f, a, kSteps);
}
__global__ void whole_waves(const float* in, float* out, float f, float a) {
    run_chains<4>(in, out, f, a, kSteps);
}
// One block in sixteen has sixteen times the work of the others.
__global__ void uneven_blocks(const float* in, float* out, float f, float a) {
    run_chains<4>(in, out, f, a, blockIdx.x % 16 == 15 ? kSteps : kSteps / 16);
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
    // Chains tend to addend / (1 - factor): after enough steps every sum is near what it must be.
    auto near = [=](size_t threads, double expected, double error) {
        return bench::checked(threads, [=] __device__(size_t i) {
            return !(fabs(double(out[i]) - expected) < error);
        });
    };
    auto chains = [=](const char* name, int blocks, int chains_each, int steps,
                      std::function<void()> launch, size_t threads_a_block) {
        const size_t threads = size_t(blocks) * threads_a_block;
        return bench::Kernel{name, 8.0 * threads, 2.0 * threads * chains_each * steps, 1, launch,
                             near(threads, chains_each, 0.02 * chains_each)};
    };
    const float f = kFactor, a = kAddend;
    const float quick = 0.99f, rest = 0.01f, half = 0.5f;  // for shorter chains, so that they arrive
    const int narrow = 128;  // a warp for each of an SM's four schedulers
    std::vector<bench::Kernel> kernels = {
        chains("chains_1", sms, 1, kSteps, [=] { chains_1<<<sms, narrow>>>(in, out, f, a); }, narrow),
        chains("chains_2", sms, 2, kSteps, [=] { chains_2<<<sms, narrow>>>(in, out, f, a); }, narrow),
        chains("chains_4", sms, 4, kSteps, [=] { chains_4<<<sms, narrow>>>(in, out, f, a); }, narrow),
        chains("chains_8", sms, 8, kSteps, [=] { chains_8<<<sms, narrow>>>(in, out, f, a); }, narrow),
        chains("warps_2", sms, 1, kSteps, [=] { warps_2<<<sms, 256>>>(in, out, f, a); }, 256),
        chains("warps_4", sms, 1, kSteps, [=] { warps_4<<<sms, 512>>>(in, out, f, a); }, 512),
        chains("warps_16", 2 * sms, 1, kSteps, [=] { warps_16<<<2 * sms, 1024>>>(in, out, f, a); },
               1024),
        chains("few_warps_many_chains", 2 * sms * 4, 16, kSteps,
               [=] {
                   few_warps_many_chains<<<2 * sms * 4, narrow, shared_bytes>>>(in, out, f, a);
               },
               narrow),
        {"many_warps_one_load", full * double(kThreads) * (hops / 32.0 + 1) * 4, 0, 1,
         [=] { many_warps_one_load<<<full, kThreads>>>(next, out, hops); },
         bench::checked(size_t(full) * kThreads,
                        [=] __device__(size_t i) {
                            unsigned at = unsigned(i / 32);
                            for (int hop = 0; hop < hops; ++hop)
                                at = (at * 1664525u + 1013904223u) & (places - 1);
                            return out[i] != float(at);
                        })},
        chains("diverge_2", waves, 1, kSlowSteps, [=] { diverge_2<<<waves, kThreads>>>(in, out, quick, rest); },
               kThreads),
        chains("diverge_lengths", waves, 1, (kSlowSteps / 32) * 33 / 2,
               [=] { diverge_lengths<<<waves, kThreads>>>(in, out, half, half); }, kThreads),
        chains("uniform_2", waves, 1, kSlowSteps, [=] { uniform_2<<<waves, kThreads>>>(in, out, quick, rest); },
               kThreads),
        {"special", 8.0 * full * kThreads, 2.0 * full * kThreads * 4 * kSlowSteps, 1,
         [=] { special<<<full, kThreads>>>(in, out, 0.0f); },
         near(size_t(full) * kThreads, 4.0, 1e-3)},
        chains("doubles", full, 4, kSlowSteps,
               [=] { doubles<<<full, kThreads>>>(in, out, double(quick), double(rest)); }, kThreads),
        {"halves", 8.0 * full * kThreads, 4.0 * full * kThreads * 4 * kSteps, 1,
         [=] { halves<<<full, kThreads>>>(in, out, half, half); },
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
        chains("wave_and_a_bit", full + sms / 8, 4, kSteps,
               [=] { wave_and_a_bit<<<full + sms / 8, kThreads>>>(in, out, f, a); }, kThreads),
        chains("whole_waves", full * 2, 4, kSteps,
               [=] { whole_waves<<<full * 2, kThreads>>>(in, out, f, a); }, kThreads),
    };
    // Short chains have not come near 1: only the long ones are looked at.
    kernels.push_back({"uneven_blocks", 8.0 * waves * kThreads,
                       2.0 * waves * kThreads * 4 * kSteps * (15.0 / 16 / 16 + 1.0 / 16), 1,
                       [=] { uneven_blocks<<<waves, kThreads>>>(in, out, f, a); },
                       bench::checked(size_t(waves) * kThreads, [=] __device__(size_t i) {
                           const bool longest = i / kThreads % 16 == 15;
                           return longest && fabsf(out[i] - 4) > 0.05f;
                       })});
    return table::run(kernels, given);
}
