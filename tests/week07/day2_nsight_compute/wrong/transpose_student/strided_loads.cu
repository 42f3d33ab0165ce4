// CAUGHT_BY: test_whole_sectors
// SAYS: its loads touch
//
// Writes along the rows of the result, and so reads down the columns.
#include "transpose.cuh"

__global__ void transpose_direct(const float* in, float* out, int rows, int columns) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        out[size_t(column) * rows + row] = in[size_t(row) * columns + column];
}

void transpose(const float* in, float* out, int rows, int columns) {
    const dim3 block(32, 8);
    const dim3 grid((rows + block.x - 1) / block.x, (columns + block.y - 1) / block.y);
    transpose_direct<<<grid, block>>>(in, out, rows, columns);
}
