// CAUGHT_BY: test_enough_blocks
// SAYS: at most 1 block
//
// One block walks through all tiles.
#include "transpose.cuh"

constexpr int kSide = 32, kDown = 8;

__global__ void transpose_tiles(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[kSide][kSide + 1];
  const size_t across = (columns + kSide - 1) / kSide, down = (rows + kSide - 1) / kSide;
  for (size_t i = 0; i < across * down; ++i) {
    __syncthreads();
    size_t row = i / across * kSide + threadIdx.y;
    size_t column = i % across * kSide + threadIdx.x;
    for (int k = 0; k < kSide; k += kDown)
        if (row + k < rows && column < columns)
            tile[threadIdx.y + k][threadIdx.x] = in[(row + k) * columns + column];
    __syncthreads();
    row = i % across * kSide + threadIdx.y;
    column = i / across * kSide + threadIdx.x;
    for (int k = 0; k < kSide; k += kDown)
        if (row + k < columns && column < rows)
            out[(row + k) * rows + column] = tile[threadIdx.x][threadIdx.y + k];
  }
}

void transpose(const float* in, float* out, int rows, int columns) {
    transpose_tiles<<<1, dim3(kSide, kDown)>>>(in, out, rows, columns);
}
