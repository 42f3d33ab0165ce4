// CAUGHT_BY: test_thread_tile_is_right
// SAYS: wavefronts for each multiply-add of a warp
//
// Eight elements in one direction only: for eight multiply-adds nine values are read.
#include "sgemm.cuh"

// A thread computes 8 elements of a column, in a block of 64 x 64.
__global__ void __launch_bounds__(512)
    sgemm_thread_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float of_a[64][8], of_b[8][64];
    const int t = threadIdx.x, row = t / 64 * 8, column = t % 64;
    const size_t block_row = blockIdx.y * 64, block_column = blockIdx.x * 64;
    float sums[8] = {};
    for (int first = 0; first < k; first += 8) {
        of_a[t / 8][t % 8] = a[(block_row + t / 8) * k + first + t % 8];
        of_b[t / 64][t % 64] = b[size_t(first + t / 64) * n + block_column + t % 64];
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 8; ++d) {
            const float right = of_b[d][column];
#pragma unroll
            for (int i = 0; i < 8; ++i) sums[i] += of_a[row + i][d] * right;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) c[(block_row + row + i) * n + block_column + column] = sums[i];
}

void thread_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    sgemm_thread_tile<<<dim3(n / 64, m / 64), 512>>>(a, b, c, m, n, k);
}

const std::vector<Step> kSteps = {{"thread_tile", thread_tile}};
