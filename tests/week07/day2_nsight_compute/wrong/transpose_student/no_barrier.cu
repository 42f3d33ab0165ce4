// CAUGHT_BY: test_every_element_is_in_its_place
// SAYS: nothing orders the warps
//
// Reads the tile without waiting for the other warps.
#include "transpose.cuh"

constexpr int kSide = 32, kDown = 8;

__global__ void transpose_tiles(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[kSide][kSide + 1];
    size_t row = size_t(blockIdx.y) * kSide + threadIdx.y;
    size_t column = size_t(blockIdx.x) * kSide + threadIdx.x;
    for (int k = 0; k < kSide; k += kDown)
        if (row + k < rows && column < columns)
            tile[threadIdx.y + k][threadIdx.x] = in[(row + k) * columns + column];
    row = size_t(blockIdx.x) * kSide + threadIdx.y;
    column = size_t(blockIdx.y) * kSide + threadIdx.x;
    for (int k = 0; k < kSide; k += kDown)
        if (row + k < columns && column < rows)
            out[(row + k) * rows + column] = tile[threadIdx.x][threadIdx.y + k];
}

void transpose(const float* in, float* out, int rows, int columns) {
    const dim3 grid((columns + kSide - 1) / kSide, (rows + kSide - 1) / kSide);
    transpose_tiles<<<grid, dim3(kSide, kDown)>>>(in, out, rows, columns);
}
