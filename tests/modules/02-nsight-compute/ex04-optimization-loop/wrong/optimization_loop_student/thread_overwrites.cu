// CAUGHT_BY: test_thread_tile_is_right
// SAYS: overwritten before it was read
//
// One barrier a tile, and deep tiles: whoever is first goes on to the next one while others still read this.
#include "sgemm.cuh"

// A thread computes 8 x 8 elements: what it reads from shared memory, it uses eight times.
__global__ void __launch_bounds__(256)
    sgemm_thread_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float of_a[128][32], of_b[32][128];
    const int t = threadIdx.x, row = t / 16 * 8, column = t % 16 * 8;
    const size_t block_row = blockIdx.y * 128, block_column = blockIdx.x * 128;
    float sums[8][8] = {};
    for (int first = 0; first < k; first += 32) {
#pragma unroll
        for (int i = t; i < 128 * 32; i += 256) {
            of_a[i / 32][i % 32] = a[(block_row + i / 32) * k + first + i % 32];
            of_b[i / 128][i % 128] = b[size_t(first + i / 128) * n + block_column + i % 128];
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 32; ++d) {
            float left[8], right[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) left[i] = of_a[row + i][d], right[i] = of_b[d][column + i];
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] += left[i] * right[j];
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
            c[(block_row + row + i) * n + block_column + column + j] = sums[i][j];
}

void thread_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    sgemm_thread_tile<<<dim3(n / 128, m / 128), 256>>>(a, b, c, m, n, k);
}

const std::vector<Step> kSteps = {{"thread_tile", thread_tile}};
