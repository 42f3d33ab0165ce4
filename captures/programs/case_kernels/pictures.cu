// Work on pictures and matrices: turning, mixing, products, fractals.

#include "case.cuh"
#include <cuda_fp16.h>
#include <mma.h>

constexpr int kSide = 8192;       // of the picture that is turned
constexpr int kProduct = 4096;    // side of the matrices that are multiplied
constexpr int kFractal = 4096;    // side of the fractal
constexpr int kMixes = 48;        // how often a tile is read along its columns

static float *in, *out;
static half *left, *right;

const float* result() { return out; }

// -- a picture turned by its diagonal ------------------------------------------------------------

__global__ void turn_by_rows(const float* in, float* out) {
    int x = blockIdx.x * 32 + threadIdx.x, first = blockIdx.y * 32 + threadIdx.y;
    for (int y = first; y < first + 32; y += 8) out[size_t(x) * kSide + y] = in[size_t(y) * kSide + x];
}

__global__ void turn_by_tiles(const float* in, float* out) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = in[size_t(y + k) * kSide + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) out[size_t(y + k) * kSide + x] = tile[threadIdx.x][threadIdx.y + k];
}

const dim3 kTiles(kSide / 32, kSide / 32), kTile(32, 8);
void prepare_turn() { in = floats(size_t(kSide) * kSide), out = memory<float>(size_t(kSide) * kSide); }

// -- columns of a tile mixed, in rows of 32 or 33 floats -----------------------------------------------

template <int Row>
__device__ void mixed(const float* in, float* out) {
    __shared__ float tile[32][Row];
    const int x = threadIdx.x, y = threadIdx.y;
    const size_t first = size_t(blockIdx.x) * 1024;
    for (int k = y; k < 32; k += 8) tile[k][x] = in[first + k * 32 + x];
    __syncthreads();
    float sum = 0;
#pragma unroll 8
    for (int k = 0; k < kMixes; ++k) sum += tile[x][(k + y) % 32] * (1.0f + k);
    out[size_t(blockIdx.x) * 256 + y * 32 + x] = sum;
}
__global__ void mix_rows_of_32(const float* in, float* out) { mixed<32>(in, out); }
__global__ void mix_rows_of_33(const float* in, float* out) { mixed<33>(in, out); }

constexpr int kMixed = 32768;  // tiles
void prepare_mix() { in = floats(size_t(kMixed) * 1024), out = memory<float>(size_t(kMixed) * 256); }

// -- a product of matrices in half precision ------------------------------------------------------

__global__ void to_halves(const float* in, half* out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = __float2half(in[i] * 0.25f);
}

// A block computes 128 x 128, a thread 8 x 8, in packed halves; sums go to float every 16 steps.
__global__ void __launch_bounds__(256) product_plain(const half* left, const half* right, float* out) {
    __shared__ __align__(16) half rows[16][128 + 8], columns[16][128 + 8];
    const int t = threadIdx.x, x = t % 16 * 8, y = t / 16 * 8;
    const int top = blockIdx.y * 128, start = blockIdx.x * 128;
    float sums[8][8] = {};
    for (int at = 0; at < kProduct; at += 16) {
        for (int k = t; k < 2048; k += 256) {
            rows[k % 16][k / 16] = left[size_t(top + k / 16) * kProduct + at + k % 16];
            columns[k / 128][k % 128] = right[size_t(at + k / 128) * kProduct + start + k % 128];
        }
        __syncthreads();
        half2 part[8][4] = {};
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            const float4 a = *(const float4*)&rows[k][y], b = *(const float4*)&columns[k][x];
            const half* as = (const half*)&a;
            const half2* bs = (const half2*)&b;
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    part[i][j] = __hfma2(__half2half2(as[i]), bs[j], part[i][j]);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                sums[i][2 * j] += __low2float(part[i][j]);
                sums[i][2 * j + 1] += __high2float(part[i][j]);
            }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) out[size_t(top + y + i) * kProduct + start + x + j] = sums[i][j];
}

// The same on the tensor cores: a block computes 64 x 64, each of its four warps 32 x 32.
__global__ void __launch_bounds__(128) product_fragments(const half* left, const half* right, float* out) {
    using namespace nvcuda::wmma;
    const int warp = threadIdx.x / 32;
    const int top = blockIdx.y * 64 + warp / 2 * 32, start = blockIdx.x * 64 + warp % 2 * 32;
    fragment<accumulator, 16, 16, 16, float> sums[2][2];
    for (auto& row : sums)
        for (auto& sum : row) fill_fragment(sum, 0.0f);
    for (int at = 0; at < kProduct; at += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a[2];
        fragment<matrix_b, 16, 16, 16, half, row_major> b[2];
        for (int k = 0; k < 2; ++k) {
            load_matrix_sync(a[k], left + size_t(top + 16 * k) * kProduct + at, kProduct);
            load_matrix_sync(b[k], right + size_t(at) * kProduct + start + 16 * k, kProduct);
        }
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            store_matrix_sync(out + size_t(top + 16 * i) * kProduct + start + 16 * j, sums[i][j],
                              kProduct, mem_row_major);
}

const dim3 kWide(kProduct / 128, kProduct / 128), kNarrow(kProduct / 64, kProduct / 64);
void prepare_product() {
    const int count = kProduct * kProduct;
    in = floats(count), out = memory<float>(count);
    left = memory<half>(count), right = memory<half>(count);
    to_halves<<<count / 256, 256>>>(in, left, count);
    to_halves<<<count / 256, 256>>>(in, right, count);
}

// -- a fractal whose points leave after very different numbers of rounds -------------------------------

__device__ float rounds_of(int point, int most) {
    // Most points stay for a few rounds, one in sixteen for all of them.
    const int limit = unit(point) < 1.0f / 16 ? most : 8;
    float x = unit(point * 3 + 1) * 0.3f, y = unit(point * 5 + 2) * 0.3f, a = x, b = y;
    int round = 0;
#pragma unroll 1
    while (round < limit && x * x + y * y < 4.0f) {
        float next = x * x - y * y + a * 0.5f;
        y = 2.0f * x * y + b * 0.5f;
        x = next;
        ++round;
    }
    return round + x;
}

constexpr int kMost = 512;
__global__ void fractal_as_they_lie(const int* order, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = rounds_of(i, kMost);
}
__global__ void fractal_sorted(const int* order, float* out) {
    int i = order[blockIdx.x * blockDim.x + threadIdx.x];
    out[i] = rounds_of(i, kMost);
}

static int* order;
void prepare_fractal() {
    const int count = kFractal * kFractal;
    std::vector<int> sorted(count);
    int at = 0;
    for (int longer = 1; longer >= 0; --longer)
        for (int i = 0; i < count; ++i)
            if ((unit(i) < 1.0f / 16) == bool(longer)) sorted[at++] = i;
    order = memory<int>(count), out = memory<float>(count);
    CHECK(cudaMemcpy(order, sorted.data(), count * sizeof(int), cudaMemcpyHostToDevice));
}

int main(int count, char** words) {
    constexpr int kPoints = kFractal * kFractal;
    return run(
        {
            {"turn", prepare_turn, [] { turn_by_rows<<<kTiles, kTile>>>(in, out); },
             [] { turn_by_tiles<<<kTiles, kTile>>>(in, out); }, result},
            {"mix", prepare_mix, [] { mix_rows_of_32<<<kMixed, kTile>>>(in, out); },
             [] { mix_rows_of_33<<<kMixed, kTile>>>(in, out); }, result},
            {"product", prepare_product, [] { product_plain<<<kWide, 256>>>(left, right, out); },
             [] { product_fragments<<<kNarrow, 128>>>(left, right, out); }, result},
            {"fractal", prepare_fractal, [] { fractal_as_they_lie<<<kPoints / 256, 256>>>(order, out); },
             [] { fractal_sorted<<<kPoints / 256, 256>>>(order, out); }, result},
        },
        count, words);
}
