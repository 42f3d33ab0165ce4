// Kernels that go through shared memory, and one that ought to.

#include "bench.cuh"

constexpr int kSide = 8192;  // a matrix of 256 MiB
constexpr size_t kCells = size_t{kSide} * kSide;
constexpr int kTile = 32, kTileRows = 8;
constexpr int kRelaxBlocks = 2112, kRelaxRounds = 64;
constexpr size_t kStreamFloats = size_t{1} << 26;
constexpr int kStreamThreads = 128;
constexpr int kStreamSteps = 32;  // float4 loads a thread
constexpr size_t kLargeTileBytes = 100 * 1024, kSmallTileBytes = 4 * 1024;

__global__ void transpose_direct(const float* in, float* out) {
    int column = blockIdx.x * kTile + threadIdx.x;
    for (int row = blockIdx.y * kTile + threadIdx.y; row < (blockIdx.y + 1) * kTile; row += kTileRows)
        out[size_t(column) * kSide + row] = in[size_t(row) * kSide + column];
}

template <int Pitch>
__device__ void transpose_through_tile(const float* in, float* out) {
    __shared__ float tile[kTile][Pitch];
    int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
#pragma unroll
    for (int step = 0; step < kTile; step += kTileRows)
        tile[threadIdx.y + step][threadIdx.x] = in[size_t(y + step) * kSide + x];
    __syncthreads();
    x = blockIdx.y * kTile + threadIdx.x;
    y = blockIdx.x * kTile + threadIdx.y;
#pragma unroll
    for (int step = 0; step < kTile; step += kTileRows)
        out[size_t(y + step) * kSide + x] = tile[threadIdx.x][threadIdx.y + step];
}

__global__ void transpose_tile32(const float* in, float* out) { transpose_through_tile<32>(in, out); }
__global__ void transpose_tile33(const float* in, float* out) { transpose_through_tile<33>(in, out); }

// A thread owns a row of a tile and walks along it, again and again.
template <int Pitch>
__device__ void relax_rows(const float* in, float* out) {
    __shared__ float tile[4 * kTile][Pitch];
    const float* source = in + size_t(blockIdx.x) * 4 * kTile * kTile;
    for (int i = threadIdx.x; i < 4 * kTile * kTile; i += blockDim.x)
        tile[i / kTile][i % kTile] = source[i];
    __syncthreads();
    for (int round = 0; round < kRelaxRounds; ++round) {
        float left = tile[threadIdx.x][0];
#pragma unroll 4
        for (int column = 1; column < kTile; ++column) {
            left = 0.5f * (left + tile[threadIdx.x][column]);
            tile[threadIdx.x][column] = left;
        }
    }
    __syncthreads();
    float* target = out + size_t(blockIdx.x) * 4 * kTile * kTile;
    for (int i = threadIdx.x; i < 4 * kTile * kTile; i += blockDim.x)
        target[i] = tile[i / kTile][i % kTile];
}

__global__ void relax_pitch32(const float* in, float* out) { relax_rows<32>(in, out); }
__global__ void relax_pitch33(const float* in, float* out) { relax_rows<33>(in, out); }

// The element that comes to place p of a tile: every fourth one, then the next ones.
constexpr int kSwapEach = 8, kSwapTile = kSwapEach * bench::kThreads;
__host__ __device__ inline int swapped_from(int p) { return p * 4 % kSwapTile + p * 4 / kSwapTile; }

// Elements change places on their way through shared memory.
__global__ void copy_swapped(const float* in, float* out) {
    __shared__ float tile[kSwapTile];
    size_t first = size_t(blockIdx.x) * kSwapTile;
#pragma unroll
    for (int k = 0; k < kSwapEach; ++k) {
        int p = k * bench::kThreads + threadIdx.x;
        tile[p] = in[first + p];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSwapEach; ++k) {
        int p = k * bench::kThreads + threadIdx.x;
        out[first + p] = tile[swapped_from(p)];
    }
}

// Each step hands a float4 to the neighbour through the tile, so that one load a thread is under way.
__device__ void stream_steps(const float4* in, float* sums) {
    extern __shared__ float4 tile[];
    const size_t stride = size_t(gridDim.x) * blockDim.x;
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int step = 0; step < kStreamSteps; ++step, i += stride) {
        tile[threadIdx.x] = in[i];
        __syncthreads();
        float4 value = tile[(threadIdx.x + 1) % blockDim.x];
        sum += value.x + value.y + value.z + value.w;
        __syncthreads();
    }
    sums[size_t(blockIdx.x) * blockDim.x + threadIdx.x] = sum;
}

__global__ void stream_large_tile(const float4* in, float* sums) { stream_steps(in, sums); }
__global__ void stream_small_tile(const float4* in, float* sums) { stream_steps(in, sums); }

// Eight loads a thread are under way: few warps are enough.
__global__ void copy_eight(const float4* in, float4* out) {
    extern __shared__ float4 tile[];  // asked for by the caller, to leave room for few blocks
    float4 values[8];
    size_t first = size_t(blockIdx.x) * blockDim.x * 8 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] = in[first + k * blockDim.x];
#pragma unroll
    for (int k = 0; k < 8; ++k) out[first + k * blockDim.x] = values[k];
}

int main(int count, char** arguments) {
    using bench::unit;
    constexpr int kThreads = bench::kThreads;
    constexpr size_t kRelaxCells = size_t{kRelaxBlocks} * 4 * kTile * kTile;
    constexpr size_t kStreamBlocks = kStreamFloats / 4 / kStreamSteps / kStreamThreads;

    float* in = bench::filled<float>(kCells, [] __device__(size_t i) { return unit(i); });
    float* out = bench::allocate<float>(kCells);
    float* relaxed = bench::allocate<float>(kRelaxCells);
    float* sums = bench::allocate<float>(kStreamBlocks * kStreamThreads);
    for (auto kernel : {stream_large_tile, stream_small_tile})
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   kLargeTileBytes));
    CHECK(cudaFuncSetAttribute(copy_eight, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               56 * 1024));

    auto transposed_is_wrong = [=] __device__(size_t i) {
        return out[i] != unit(unsigned(i % kSide * kSide + i / kSide));
    };
    auto relaxed_is_wrong = [=] __device__(size_t row) {
        float cells[kTile];
        for (int column = 0; column < kTile; ++column) cells[column] = unit(row * kTile + column);
        for (int round = 0; round < kRelaxRounds; ++round)
            for (int column = 1; column < kTile; ++column)
                cells[column] = 0.5f * (cells[column - 1] + cells[column]);
        for (int column = 0; column < kTile; ++column)
            if (fabsf(cells[column] - relaxed[row * kTile + column]) > 1e-5f) return true;
        return false;
    };
    auto streamed_is_wrong = [=] __device__(size_t i) {
        size_t block = i / kStreamThreads, neighbour = (i + 1) % kStreamThreads;
        size_t at = block * kStreamThreads + neighbour;
        double sum = 0;
        for (int step = 0; step < kStreamSteps; ++step, at += kStreamBlocks * kStreamThreads)
            for (int k = 0; k < 4; ++k) sum += unit(at * 4 + k);
        return fabs(sum - sums[i]) > 1e-3;
    };
    const double all = kCells * 4.0;
    const dim3 tiles(kSide / kTile, kSide / kTile), tile(kTile, kTileRows);
    std::vector<bench::Kernel> kernels = {
        {"transpose_direct", 2 * all, 0, 4, [=] { transpose_direct<<<tiles, tile>>>(in, out); },
         bench::checked(kCells, transposed_is_wrong)},
        {"transpose_tile32", 2 * all, 0, 4, [=] { transpose_tile32<<<tiles, tile>>>(in, out); },
         bench::checked(kCells, transposed_is_wrong)},
        {"transpose_tile33", 2 * all, 0, 4, [=] { transpose_tile33<<<tiles, tile>>>(in, out); },
         bench::checked(kCells, transposed_is_wrong)},
        {"relax_pitch32", 2.0 * kRelaxCells * 4, 2.0 * kRelaxCells / kTile * (kTile - 1) * kRelaxRounds,
         6, [=] { relax_pitch32<<<kRelaxBlocks, 4 * kTile>>>(in, relaxed); },
         bench::checked(kRelaxCells / kTile, relaxed_is_wrong)},
        {"relax_pitch33", 2.0 * kRelaxCells * 4, 2.0 * kRelaxCells / kTile * (kTile - 1) * kRelaxRounds,
         6, [=] { relax_pitch33<<<kRelaxBlocks, 4 * kTile>>>(in, relaxed); },
         bench::checked(kRelaxCells / kTile, relaxed_is_wrong)},
        {"copy_swapped", 2 * all, 0, 2,
         [=] { copy_swapped<<<kCells / kSwapTile, kThreads>>>(in, out); },
         bench::checked(kCells, [=] __device__(size_t i) {
             size_t from = i / kSwapTile * kSwapTile + swapped_from(int(i % kSwapTile));
             return out[i] != unit(from);
         })},
        {"stream_large_tile", all, double(kStreamFloats), 3,
         [=] {
             stream_large_tile<<<kStreamBlocks, kStreamThreads, kLargeTileBytes>>>((float4*)in, sums);
         },
         bench::checked(kStreamBlocks * kStreamThreads, streamed_is_wrong)},
        {"stream_small_tile", all, double(kStreamFloats), 3,
         [=] {
             stream_small_tile<<<kStreamBlocks, kStreamThreads, kSmallTileBytes>>>((float4*)in, sums);
         },
         bench::checked(kStreamBlocks * kStreamThreads, streamed_is_wrong)},
        {"copy_eight", 2 * all, 0, 2,
         [=] {
             copy_eight<<<kCells / 4 / 8 / kThreads, kThreads, 56 * 1024>>>((float4*)in, (float4*)out);
         },
         bench::checked(kCells, [=] __device__(size_t i) { return out[i] != unit(i); })},
    };
    return bench::run(kernels, count, arguments);
}
