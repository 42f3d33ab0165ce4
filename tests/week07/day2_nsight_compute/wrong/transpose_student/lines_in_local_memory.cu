// CAUGHT_BY: test_nothing_spills
// SAYS: bytes of each thread in local memory
//
// Keeps the lines in an array whose index only the running program knows.
#include "transpose.cuh"

constexpr int kTile = 64;              // a block moves a tile of 64 x 64
constexpr int kChunks = kTile / 4;     // of four floats, in a line of the tile
constexpr int kSide = 32, kDown = 8;   // tile and threads for shapes that are no multiple of four

// A thread reads four lines of four floats, turns them over in its registers and keeps them as four
// columns. A column's chunk lies where (chunk ^ column / 4) says: eight threads that write or read 16
// bytes at once meet all 32 banks.
__global__ void __launch_bounds__(kChunks* kChunks)
    transpose_chunks(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
    __shared__ float4 tile[kTile][kChunks];
    const int x = threadIdx.x % kChunks, y = threadIdx.x / kChunks;
    const size_t tile_row = size_t(blockIdx.y) * kTile, tile_column = size_t(blockIdx.x) * kTile;

    const size_t row = tile_row + 4 * y, column = tile_column + 4 * x;
    if (row < rows && column < columns) {
        float4 lines[4];
#pragma unroll 1
        for (int k = 0; k < 4; ++k)
            lines[(k + rows) % 4] = *reinterpret_cast<const float4*>(&in[(row + k) * columns + column]);
        tile[4 * x + 0][y ^ x] = make_float4(lines[rows % 4].x, lines[(rows + 1) % 4].x, lines[(rows + 2) % 4].x, lines[(rows + 3) % 4].x);
        tile[4 * x + 1][y ^ x] = make_float4(lines[rows % 4].y, lines[(rows + 1) % 4].y, lines[(rows + 2) % 4].y, lines[(rows + 3) % 4].y);
        tile[4 * x + 2][y ^ x] = make_float4(lines[rows % 4].z, lines[(rows + 1) % 4].z, lines[(rows + 2) % 4].z, lines[(rows + 3) % 4].z);
        tile[4 * x + 3][y ^ x] = make_float4(lines[rows % 4].w, lines[(rows + 1) % 4].w, lines[(rows + 2) % 4].w, lines[(rows + 3) % 4].w);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int own = y + k * kChunks;  // a column of the input is a row of the output
        const size_t out_row = tile_column + own, out_column = tile_row + 4 * x;
        if (out_row < columns && out_column < rows)
            *reinterpret_cast<float4*>(&out[out_row * rows + out_column]) = tile[own][x ^ own / 4];
    }
}

__global__ void transpose_floats(const float* __restrict__ in, float* __restrict__ out, int rows,
                                 int columns) {
    __shared__ float tile[kSide][kSide + 1];
    size_t row = size_t(blockIdx.y) * kSide + threadIdx.y;
    size_t column = size_t(blockIdx.x) * kSide + threadIdx.x;
#pragma unroll
    for (int k = 0; k < kSide; k += kDown)
        if (row + k < rows && column < columns)
            tile[threadIdx.y + k][threadIdx.x] = in[(row + k) * columns + column];
    __syncthreads();
    row = size_t(blockIdx.x) * kSide + threadIdx.y;
    column = size_t(blockIdx.y) * kSide + threadIdx.x;
#pragma unroll
    for (int k = 0; k < kSide; k += kDown)
        if (row + k < columns && column < rows)
            out[(row + k) * rows + column] = tile[threadIdx.x][threadIdx.y + k];
}

void transpose(const float* in, float* out, int rows, int columns) {
    if (rows % 4 == 0 && columns % 4 == 0) {
        const dim3 grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
        transpose_chunks<<<grid, kChunks * kChunks>>>(in, out, rows, columns);
    } else {
        const dim3 grid((columns + kSide - 1) / kSide, (rows + kSide - 1) / kSide);
        transpose_floats<<<grid, dim3(kSide, kDown)>>>(in, out, rows, columns);
    }
}
