// CAUGHT_BY: test_shared_tile_is_right
// SAYS: bytes are read from global memory for a multiply-add
//
// A goes through shared memory; every thread still reads its column of B itself.
#include "sgemm.cuh"

__global__ void __launch_bounds__(1024)
    sgemm_shared_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float of_a[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const size_t row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
    float sum = 0;
    for (int first = 0; first < k; first += 32) {
        of_a[y][x] = a[row * k + first + x];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; ++i) sum += of_a[y][i] * b[size_t(first + i) * n + column];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

void shared_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    sgemm_shared_tile<<<dim3(n / 32, m / 32), dim3(32, 32)>>>(a, b, c, m, n, k);
}

const std::vector<Step> kSteps = {{"shared_tile", shared_tile}};
