// CAUGHT_BY: test_launches_and_nothing_else
// SAYS: on a stream of its own
//
// On another stream than the caller's.
#include "transpose.cuh"

constexpr int kTile = 32, kRows = 8;

__global__ void transpose_tiled(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[kTile][kTile + 1];
    const size_t column0 = size_t(blockIdx.x) * kTile, row0 = size_t(blockIdx.y) * kTile;
    for (int k = threadIdx.y; k < kTile; k += kRows) {
        const size_t row = row0 + k, column = column0 + threadIdx.x;
        if (row < rows && column < columns) tile[k][threadIdx.x] = in[row * columns + column];
    }
    __syncthreads();
    for (int k = threadIdx.y; k < kTile; k += kRows) {
        const size_t row = row0 + threadIdx.x, column = column0 + k;
        if (row < rows && column < columns) out[column * rows + row] = tile[threadIdx.x][k];
    }
}

void transpose(const float* in, float* out, int rows, int columns) {
    const dim3 block(kTile, kRows);
    const dim3 grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
    transpose_tiled<<<grid, block, 0, cudaStreamPerThread>>>(in, out, rows, columns);
}
