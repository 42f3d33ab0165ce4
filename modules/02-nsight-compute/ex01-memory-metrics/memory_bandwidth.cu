// The same memory, read and written in different ways.
//
//   make && ./memory_bandwidth
//   ncu --section MemoryWorkloadAnalysis ./memory_bandwidth
//
// Options, and how kernels are run and timed: ../table.cuh. "Useful" bytes are what the answer needs:
// each input element that it takes read once, each result written once.

#include "table.cuh"

constexpr int kThreads = bench::kThreads;
constexpr size_t kSmallFloats = size_t{4} << 20;  // 16 MiB: stays in the L2 of the GPUs recorded
constexpr int kOwnFloats = 4096;                  // 16 KiB: stays in an SM's L1
constexpr int kOwnPasses = 64;
constexpr int kEach = 4;                          // loads that a thread of a gather has under way

__device__ inline size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

__global__ void copy_float(const float* in, float* out) {
    size_t i = thread_index();
    out[i] = in[i];
}

__global__ void copy_float4(const float4* in, float4* out) {
    size_t i = thread_index();
    out[i] = in[i];
}

// As many bytes, from an address that is no multiple of a sector.
__global__ void copy_shifted(const float* in, float* out, size_t mask) {
    size_t i = thread_index();
    out[i] = in[(i + 1) & mask];
}

__global__ void scale_float4(const float4* in, float4* out, float factor) {
    size_t i = thread_index();
    float4 v = in[i];
    out[i] = make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
}

__global__ void triad_float4(const float4* a, const float4* b, float4* c, float factor) {
    size_t i = thread_index();
    float4 x = a[i], y = b[i];
    c[i] = make_float4(x.x + factor * y.x, x.y + factor * y.y, x.z + factor * y.z,
                       x.w + factor * y.w);
}

__global__ void write_only(float4* out, float value) {
    out[thread_index()] = make_float4(value, value, value, value);
}

// Every stride-th element, from all over the array; the result is dense.
__global__ void stride_2(const float* in, float* out) {
    size_t i = thread_index();
    out[i] = in[i * 2];
}
__global__ void stride_4(const float* in, float* out) {
    size_t i = thread_index();
    out[i] = in[i * 4];
}
__global__ void stride_8(const float* in, float* out) {
    size_t i = thread_index();
    out[i] = in[i * 8];
}
__global__ void stride_32(const float* in, float* out) {
    size_t i = thread_index();
    out[i] = in[i * 32];
}

// A CPU's way: each thread a piece of its own, one element after the other.
__global__ void copy_pieces(const float* in, float* out, int piece) {
    size_t first = thread_index() * piece;
    for (int k = 0; k < piece; ++k) out[first + k] = in[first + k];
}

__device__ inline unsigned scattered(unsigned i, unsigned mask) { return (i * 2654435761u) & mask; }

__device__ inline void gather(const float* in, float* out, unsigned mask) {
    unsigned first = blockIdx.x * blockDim.x * kEach + threadIdx.x;
    float values[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) values[k] = in[scattered(first + k * blockDim.x, mask)];
#pragma unroll
    for (int k = 0; k < kEach; ++k) out[first + k * blockDim.x] = values[k];
}

__global__ void gather_memory(const float* in, float* out, unsigned mask) { gather(in, out, mask); }
__global__ void gather_l2(const float* in, float* out, unsigned mask) { gather(in, out, mask); }

// A block adds up its own few elements many times.
__global__ void sum_l1(const float4* in, float* sums) {
    const float4* own = in + size_t(blockIdx.x) * (kOwnFloats / 4);
    float sum = 0;
    for (int pass = 0; pass < kOwnPasses; ++pass) {
#pragma unroll 4
        for (int k = 0; k < kOwnFloats / 4; k += kThreads) {
            float4 v = __ldca(&own[(k + threadIdx.x + pass * 32) % (kOwnFloats / 4)]);
            sum += v.x + v.y + v.z + v.w;
        }
    }
    sums[thread_index()] = sum;
}

int main(int count, char** arguments) {
    const table::Options given = table::options(count, arguments);
    const size_t n = (given.mib << 20) / 4;  // floats: a power of two
    const unsigned mask = unsigned(n - 1), small_mask = unsigned(kSmallFloats - 1);
    const int blocks_l1 = table::multiprocessors() * 8, piece = 32;
    auto value = [] __host__ __device__(size_t i) { return bench::unit(unsigned(i)); };

    float* a = bench::filled<float>(n, [=] __device__(size_t i) { return value(i); });
    float* b = bench::filled<float>(n, [=] __device__(size_t i) { return value(i + 7); });
    float* out = bench::allocate<float>(n);
    float* ones = bench::filled<float>(size_t(blocks_l1) * kOwnFloats,
                                       [] __device__(size_t) { return 1.0f; });
    float* sums = bench::allocate<float>(size_t(blocks_l1) * kThreads);
    auto clear = [=] { CHECK(cudaMemset(out, 0xff, n * sizeof(float))); };
    auto blocks = [](size_t threads) { return unsigned(threads / kThreads); };
    auto plain = bench::checked(n, [=] __device__(size_t i) { return out[i] != value(i); });
    auto strided = [=](size_t stride) {
        return bench::checked(n / stride,
                              [=] __device__(size_t i) { return out[i] != value(i * stride); });
    };
    const double all = n * 4.0;
    std::vector<bench::Kernel> kernels = {
        {"copy_float", 2 * all, 0, 1, [=] { copy_float<<<blocks(n), kThreads>>>(a, out); }, plain},
        {"copy_float4", 2 * all, 0, 1,
         [=] { copy_float4<<<blocks(n / 4), kThreads>>>((float4*)a, (float4*)out); }, plain},
        {"copy_shifted", 2 * all, 0, 1,
         [=] { copy_shifted<<<blocks(n), kThreads>>>(a, out, n - 1); },
         bench::checked(n, [=] __device__(size_t i) { return out[i] != value((i + 1) & (n - 1)); })},
        {"scale_float4", 2 * all, double(n), 1,
         [=] { scale_float4<<<blocks(n / 4), kThreads>>>((float4*)a, (float4*)out, 2.0f); },
         bench::checked(n, [=] __device__(size_t i) { return out[i] != 2 * value(i); })},
        {"triad_float4", 3 * all, 2.0 * n, 1,
         [=] {
             triad_float4<<<blocks(n / 4), kThreads>>>((float4*)a, (float4*)b, (float4*)out, 0.5f);
         },
         bench::checked(n,
                        [=] __device__(size_t i) {
                            return fabsf(out[i] - (value(i) + 0.5f * value(i + 7))) > 1e-6f;
                        })},
        {"write_only", all, 0, 1,
         [=] { write_only<<<blocks(n / 4), kThreads>>>((float4*)out, 3.0f); },
         bench::checked(n, [=] __device__(size_t i) { return out[i] != 3.0f; })},
        {"stride_2", all, 0, 1, [=] { stride_2<<<blocks(n / 2), kThreads>>>(a, out); }, strided(2)},
        {"stride_4", all / 2, 0, 1, [=] { stride_4<<<blocks(n / 4), kThreads>>>(a, out); },
         strided(4)},
        {"stride_8", all / 4, 0, 1, [=] { stride_8<<<blocks(n / 8), kThreads>>>(a, out); },
         strided(8)},
        {"stride_32", all / 16, 0, 1, [=] { stride_32<<<blocks(n / 32), kThreads>>>(a, out); },
         strided(32)},
        {"copy_pieces", 2 * all, 0, 1,
         [=] { copy_pieces<<<blocks(n / piece), kThreads>>>(a, out, piece); }, plain},
        {"gather_memory", 2 * all, 0, 1,
         [=] { gather_memory<<<blocks(n / kEach), kThreads>>>(a, out, mask); },
         bench::checked(n,
                        [=] __device__(size_t i) {
                            return out[i] != value(scattered(unsigned(i), mask));
                        })},
        {"gather_l2", all + kSmallFloats * 4.0, 0, 1,
         [=] { gather_l2<<<blocks(n / kEach), kThreads>>>(a, out, small_mask); },
         bench::checked(n,
                        [=] __device__(size_t i) {
                            return out[i] != value(scattered(unsigned(i), small_mask));
                        })},
        {"sum_l1", double(blocks_l1) * kOwnFloats * 4 + blocks_l1 * kThreads * 4.0,
         double(blocks_l1) * kOwnFloats * kOwnPasses, 1,
         [=] { sum_l1<<<blocks_l1, kThreads>>>((float4*)ones, sums); },
         bench::checked(size_t(blocks_l1) * kThreads,
                        [=] __device__(size_t i) {
                            return sums[i] != float(kOwnPasses * (kOwnFloats / kThreads));
                        })},
    };
    clear();
    return table::run(kernels, given);
}
