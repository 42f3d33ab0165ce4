// CAUGHT_BY: test_shared_tile_is_right
// SAYS: nothing orders the warps of a block but a barrier
//
// The tile is read at once, whether all of it is there or not.
#include "sgemm.cuh"

__global__ void __launch_bounds__(1024)
    sgemm_shared_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float of_a[32][32], of_b[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const size_t row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
    float sum = 0;
    for (int first = 0; first < k; first += 32) {
        of_a[y][x] = a[row * k + first + x];
        of_b[y][x] = b[size_t(first + y) * n + column];
#pragma unroll
        for (int i = 0; i < 32; ++i) sum += of_a[y][i] * of_b[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

void shared_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    sgemm_shared_tile<<<dim3(n / 32, m / 32), dim3(32, 32)>>>(a, b, c, m, n, k);
}

const std::vector<Step> kSteps = {{"shared_tile", shared_tile}};
