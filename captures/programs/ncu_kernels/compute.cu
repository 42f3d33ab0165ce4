// Kernels that calculate: in different precisions, on different units, with more or fewer registers.

#include <cuda_fp16.h>
#include <mma.h>

#include "bench.cuh"

constexpr int kChains = 8, kRounds = 512;
constexpr size_t kThreadsInAll = size_t{132} * 8 * bench::kThreads * 4;
constexpr int kSide = 2048;       // of the float matrices
constexpr int kHalfSide = 4096;   // of the half matrices
constexpr int kTerms = 32, kMixes = 64;
constexpr size_t kPixels = size_t{1} << 21;

__global__ void iterate(const float* in, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float value[kChains];
    for (int k = 0; k < kChains; ++k) value[k] = in[i] + k;
    for (int round = 0; round < kRounds; ++round)
        for (int k = 0; k < kChains; ++k) value[k] = value[k] * 0.999f + 0.001f;
    float sum = 0;
    for (int k = 0; k < kChains; ++k) sum += value[k];
    out[i] = sum;
}

// The same, with constants as people write them.
__global__ void iterate_literals(const float* in, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float value[kChains];
    for (int k = 0; k < kChains; ++k) value[k] = in[i] + k;
    for (int round = 0; round < kRounds; ++round)
        for (int k = 0; k < kChains; ++k) value[k] = value[k] * 0.999 + 0.001;
    float sum = 0;
    for (int k = 0; k < kChains; ++k) sum += value[k];
    out[i] = sum;
}

__global__ void oscillate(const float* in, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float sum = 0, phase = in[i];
#pragma unroll 8
    for (int round = 0; round < kRounds; ++round) sum += __sinf(phase + round * 0.001f);
    out[i] = sum;
}

__global__ void matmul_direct(const float* a, const float* b, float* c) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < kSide; ++k) sum += a[row * kSide + k] * b[k * kSide + column];
    c[row * kSide + column] = sum;
}

// 64 x 64 results a block, 4 x 4 a thread.
__global__ void matmul_tiled(const float* a, const float* b, float* c) {
    __shared__ float as[16][64 + 4], bs[16][64];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < kSide; k0 += 16) {
        float4 from_a = *(const float4*)&a[(row + t / 4) * kSide + k0 + t % 4 * 4];
        float4 from_b = *(const float4*)&b[(k0 + t / 16) * kSide + column + t % 16 * 4];
        as[t % 4 * 4 + 0][t / 4] = from_a.x;
        as[t % 4 * 4 + 1][t / 4] = from_a.y;
        as[t % 4 * 4 + 2][t / 4] = from_a.z;
        as[t % 4 * 4 + 3][t / 4] = from_a.w;
        *(float4*)&bs[t / 16][t % 16 * 4] = from_b;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            float4 x = *(const float4*)&as[k][ty * 4], y = *(const float4*)&bs[k][tx * 4];
            float left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        *(float4*)&c[(row + ty * 4 + i) * kSide + column + tx * 4] =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

__constant__ float weights[kTerms][kMixes];

// Every pixel mixes its terms into many sums, all of which live until the end.
__device__ void blend_pixel(const float* in, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float sums[kMixes] = {};
#pragma unroll 1
    for (int term = 0; term < kTerms; ++term) {
        float value = in[term * kPixels + i];
#pragma unroll
        for (int mix = 0; mix < kMixes; ++mix) sums[mix] += value * weights[term][mix];
    }
    float energy = 0;
#pragma unroll
    for (int mix = 0; mix < kMixes; ++mix) energy += sums[mix] * sums[mix];
    out[i] = energy;
}

__global__ void __launch_bounds__(1024, 2) blend_32_registers(const float* in, float* out) {
    blend_pixel(in, out);
}
__global__ void __launch_bounds__(bench::kThreads) blend(const float* in, float* out) {
    blend_pixel(in, out);
}

// Half matrices, 128 x 128 results a block. Loads of a block's parts are the same in all three.
constexpr int kBlock = 128, kDepth = 16;

__device__ void load_parts(const __half* a, const __half* b, int row, int column, int k0,
                           __half (*as)[kBlock + 8], __half (*bs)[kBlock + 8]) {
    const int t = threadIdx.x;
    __half from_a[8];
    *(uint4*)from_a = *(const uint4*)&a[size_t(row + t / 2) * kHalfSide + k0 + t % 2 * 8];
    for (int i = 0; i < 8; ++i) as[t % 2 * 8 + i][t / 2] = from_a[i];
    *(uint4*)&bs[t / 16][t % 16 * 8] =
        *(const uint4*)&b[size_t(k0 + t / 16) * kHalfSide + column + t % 16 * 8];
}

__global__ void __launch_bounds__(256) gemm_half2(const __half* a, const __half* b, __half* c) {
    __shared__ __align__(16) __half as[kDepth][kBlock + 8], bs[kDepth][kBlock + 8];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row = blockIdx.y * kBlock, column = blockIdx.x * kBlock;
    __half2 sums[8][4];
    for (auto& line : sums)
        for (auto& sum : line) sum = __half2half2(__ushort_as_half(0));
    for (int k0 = 0; k0 < kHalfSide; k0 += kDepth) {
        load_parts(a, b, row, column, k0, as, bs);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            __half left[8];
            __half2 right[4];
            *(uint4*)left = *(const uint4*)&as[k][ty * 8];
            *(uint4*)right = *(const uint4*)&bs[k][tx * 8];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 4; ++j)
                    sums[i][j] = __hfma2(__half2half2(left[i]), right[j], sums[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        *(uint4*)&c[size_t(row + ty * 8 + i) * kHalfSide + column + tx * 8] = *(uint4*)sums[i];
}

__global__ void __launch_bounds__(256) gemm_half_float(const __half* a, const __half* b, __half* c) {
    __shared__ __align__(16) __half as[kDepth][kBlock + 8], bs[kDepth][kBlock + 8];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row = blockIdx.y * kBlock, column = blockIdx.x * kBlock;
    float sums[8][8] = {};
    for (int k0 = 0; k0 < kHalfSide; k0 += kDepth) {
        load_parts(a, b, row, column, k0, as, bs);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            __half left[8], right[8];
            *(uint4*)left = *(const uint4*)&as[k][ty * 8];
            *(uint4*)right = *(const uint4*)&bs[k][tx * 8];
            float wide[8];
            for (int j = 0; j < 8; ++j) wide[j] = __half2float(right[j]);
            for (int i = 0; i < 8; ++i) {
                float value = __half2float(left[i]);
                for (int j = 0; j < 8; ++j) sums[i][j] += value * wide[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) {
        __half line[8];
        for (int j = 0; j < 8; ++j) line[j] = __float2half(sums[i][j]);
        *(uint4*)&c[size_t(row + ty * 8 + i) * kHalfSide + column + tx * 8] = *(uint4*)line;
    }
}

// Eight warps, each 32 x 64 results in 2 x 4 fragments.
__global__ void __launch_bounds__(256) gemm_fragments(const __half* a, const __half* b, __half* c) {
    using namespace nvcuda::wmma;
    __shared__ __align__(32) __half as[kBlock][32 + 8], bs[32][kBlock + 8];
    const int t = threadIdx.x, warp = t / 32, down = warp / 2 * 32, across = warp % 2 * 64;
    const int row = blockIdx.y * kBlock, column = blockIdx.x * kBlock;
    fragment<accumulator, 16, 16, 16, float> sums[2][4];
    for (auto& line : sums)
        for (auto& sum : line) fill_fragment(sum, 0.0f);
    for (int k0 = 0; k0 < kHalfSide; k0 += 32) {
        for (int part = 0; part < 2; ++part) {
            int i = t + part * 256;
            *(uint4*)&as[i / 4][i % 4 * 8] =
                *(const uint4*)&a[size_t(row + i / 4) * kHalfSide + k0 + i % 4 * 8];
            *(uint4*)&bs[i / 16][i % 16 * 8] =
                *(const uint4*)&b[size_t(k0 + i / 16) * kHalfSide + column + i % 16 * 8];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> left[2];
            fragment<matrix_b, 16, 16, 16, __half, row_major> right[4];
            for (int i = 0; i < 2; ++i) load_matrix_sync(left[i], &as[down + i * 16][k], 32 + 8);
            for (int j = 0; j < 4; ++j)
                load_matrix_sync(right[j], &bs[k][across + j * 16], kBlock + 8);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j) mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j) {
            fragment<accumulator, 16, 16, 16, __half> narrow;
            for (int e = 0; e < narrow.num_elements; ++e)
                narrow.x[e] = __float2half(sums[i][j].x[e]);
            store_matrix_sync(&c[size_t(row + down + i * 16) * kHalfSide + column + across + j * 16],
                              narrow, kHalfSide, mem_row_major);
        }
}

// -1, 0 or 1, mostly 0: sums of a thousand such products are whole numbers that a half holds.
__host__ __device__ inline int sign_at(size_t i) {
    float u = bench::unit(unsigned(i));
    return u < 0.2f ? -1 : u > 0.8f ? 1 : 0;
}

int main(int count, char** arguments) {
    using bench::unit;
    constexpr int kThreads = bench::kThreads;
    constexpr size_t kCells = size_t{kSide} * kSide, kHalfCells = size_t{kHalfSide} * kHalfSide;

    float* in = bench::filled<float>(kThreadsInAll, [] __device__(size_t i) { return unit(i); });
    float* out = bench::allocate<float>(kThreadsInAll);
    float* a = bench::filled<float>(kCells, [] __device__(size_t i) { return unit(i) - 0.5f; });
    float* b = bench::filled<float>(kCells, [] __device__(size_t i) { return unit(i + 9) - 0.5f; });
    float* c = bench::allocate<float>(kCells);
    auto* half_a = bench::filled<__half>(
        kHalfCells, [] __device__(size_t i) { return __float2half(float(sign_at(i))); });
    auto* half_b = bench::filled<__half>(
        kHalfCells, [] __device__(size_t i) { return __float2half(float(sign_at(i + 9))); });
    auto* half_c = bench::allocate<__half>(kHalfCells);
    float* terms =
        bench::filled<float>(kTerms * kPixels, [] __device__(size_t i) { return unit(i); });
    float* energy = bench::allocate<float>(kPixels);
    std::vector<float> host_weights(kTerms * kMixes);
    for (size_t i = 0; i < host_weights.size(); ++i) host_weights[i] = unit(unsigned(i)) - 0.5f;
    CHECK(cudaMemcpyToSymbol(weights, host_weights.data(), sizeof weights));

    auto iterated_is_wrong = [=] __device__(size_t i) {
        double factor = pow(0.999, double(kRounds)), sum = 0;
        for (int k = 0; k < kChains; ++k) sum += factor * (unit(i) + k - 1) + 1;
        return fabs(sum - out[i]) > 5e-3;
    };
    auto product_is_wrong = [=] __device__(size_t sample) {
        size_t i = sample * 7919 % kCells, row = i / kSide, column = i % kSide;
        double sum = 0;
        for (int k = 0; k < kSide; ++k)
            sum += double(a[row * kSide + k]) * b[k * kSide + column];
        return fabs(sum - c[i]) > 1e-3;
    };
    auto half_product_is_wrong = [=] __device__(size_t sample) {
        size_t i = sample * 7919 % kHalfCells, row = i / kHalfSide, column = i % kHalfSide;
        int sum = 0;
        for (int k = 0; k < kHalfSide; ++k)
            sum += sign_at(row * kHalfSide + k) * sign_at(size_t(k) * kHalfSide + column + 9);
        return __half2float(half_c[i]) != float(sum);
    };
    auto energy_is_wrong = [=] __device__(size_t i) {
        double all = 0;
        for (int mix = 0; mix < kMixes; ++mix) {
            double sum = 0;
            for (int term = 0; term < kTerms; ++term)
                sum += double(terms[term * kPixels + i]) * weights[term][mix];
            all += sum * sum;
        }
        return fabs(all - energy[i]) > 1e-3 * all + 1e-3;
    };
    const double iterations = double(kThreadsInAll) * kChains * kRounds;
    const double product = 2.0 * kSide * kSide * kSide;
    const double half_product = 2.0 * kHalfSide * double(kHalfSide) * kHalfSide;
    const double mixes = 2.0 * kPixels * kTerms * kMixes, pixels = (kTerms + 1.0) * kPixels * 4;
    const dim3 small_blocks(kSide / 32, kSide / 8), small_block(32, 8), tiles(kSide / 64, kSide / 64);
    const dim3 blocks(kHalfSide / kBlock, kHalfSide / kBlock);
    const unsigned grid = kThreadsInAll / kThreads;
    std::vector<bench::Kernel> kernels = {
        {"iterate", 2.0 * kThreadsInAll * 4, 2 * iterations, 5,
         [=] { iterate<<<grid, kThreads>>>(in, out); },
         bench::checked(kThreadsInAll, iterated_is_wrong)},
        {"iterate_literals", 2.0 * kThreadsInAll * 4, 2 * iterations, 1,
         [=] { iterate_literals<<<grid, kThreads>>>(in, out); },
         bench::checked(kThreadsInAll, iterated_is_wrong)},
        {"oscillate", 2.0 * kThreadsInAll * 4, 3.0 * kThreadsInAll * kRounds, 2,
         [=] { oscillate<<<grid, kThreads>>>(in, out); },
         bench::checked(kThreadsInAll,
                        [=] __device__(size_t i) {
                            double sum = 0;
                            for (int round = 0; round < kRounds; ++round)
                                sum += sin(double(unit(i)) + round * 0.001);
                            return fabs(sum - out[i]) > 1e-2;
                        })},
        {"matmul_direct", 3.0 * kCells * 4, product, 2,
         [=] { matmul_direct<<<small_blocks, small_block>>>(a, b, c); },
         bench::checked(4096, product_is_wrong)},
        {"matmul_tiled", 3.0 * kCells * 4, product, 2,
         [=] { matmul_tiled<<<tiles, 256>>>(a, b, c); }, bench::checked(4096, product_is_wrong)},
        {"blend_32_registers", pixels, mixes, 3,
         [=] { blend_32_registers<<<kPixels / kThreads, kThreads>>>(terms, energy); },
         bench::checked(kPixels, energy_is_wrong)},
        {"blend", pixels, mixes, 3, [=] { blend<<<kPixels / kThreads, kThreads>>>(terms, energy); },
         bench::checked(kPixels, energy_is_wrong)},
        {"gemm_half2", 3.0 * kHalfCells * 2, half_product, 1,
         [=] { gemm_half2<<<blocks, 256>>>(half_a, half_b, half_c); },
         bench::checked(4096, half_product_is_wrong)},
        {"gemm_half_float", 3.0 * kHalfCells * 2, half_product, 1,
         [=] { gemm_half_float<<<blocks, 256>>>(half_a, half_b, half_c); },
         bench::checked(4096, half_product_is_wrong)},
        {"gemm_fragments", 3.0 * kHalfCells * 2, half_product, 1,
         [=] { gemm_fragments<<<blocks, 256>>>(half_a, half_b, half_c); },
         bench::checked(4096, half_product_is_wrong)},
    };
    return bench::run(kernels, count, arguments);
}
