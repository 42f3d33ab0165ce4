// CAUGHT_BY: test_fast_is_right
// SAYS: bytes of each thread in local memory
//
// Room for three blocks on a multiprocessor, and not enough registers for what a thread holds.
#include "sgemm.cuh"

// BM x BN elements of C a block, from tiles BK deep; TM x TN a thread. The tile of A lies transposed, so that
// a thread reads four of its rows at once. LM: a warp has LM x 32 / LM threads, and a thread's elements
// come in squares of 4 x 4, spread over the warp's part so that neighbours read neighbouring 16 bytes; 0:
// they lie together, and threads are spread over the block. PREFETCH: the next tile is under way while this
// one is multiplied, and goes into a second buffer. GROUP: so many rows of blocks share columns of B in L2.
template <int BM, int BN, int BK, int TM, int TN, int LM, bool PREFETCH, int GROUP>
__device__ __forceinline__ void product(const float* __restrict__ a, const float* __restrict__ b,
                                        float* __restrict__ c, int m, int n, int k) {
    constexpr int kThreads = BM / TM * (BN / TN), kBuffers = PREFETCH ? 2 : 1;
    constexpr int kOfA = BM * BK / 4 / kThreads, kOfB = BN * BK / 4 / kThreads;
    constexpr int kWarpColumns = LM ? BN / (32 / LM * TN) : 1;
    constexpr int kDown = LM ? 4 * LM : 4, kAcross = LM ? 4 * (32 / LM) : 4;
    __shared__ __align__(16) float of_a[kBuffers][BK][BM + 4];
    __shared__ __align__(16) float of_b[kBuffers][BK][BN];

    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int row = LM ? warp / kWarpColumns * LM * TM + lane / (LM ? 32 / LM : 1) * 4 : t / (BN / TN) * TM;
    const int column =
        LM ? warp % kWarpColumns * (32 / (LM ? LM : 1)) * TN + lane % (LM ? 32 / LM : 1) * 4 : t % (BN / TN) * TN;
    const int across = n / BN, group = blockIdx.x / (GROUP * across) * GROUP;
    const int rows = min(m / BM - group, GROUP), place = blockIdx.x % (GROUP * across);
    const size_t block_row = size_t(group + place % rows) * BM, block_column = size_t(place / rows) * BN;

    float4 next_a[kOfA], next_b[kOfB];
    auto load = [&](int first) {
#pragma unroll
        for (int i = 0; i < kOfA; ++i) {
            const int chunk = t + i * kThreads;
            next_a[i] = *reinterpret_cast<const float4*>(
                &a[(block_row + chunk / (BK / 4)) * k + first + chunk % (BK / 4) * 4]);
        }
#pragma unroll
        for (int i = 0; i < kOfB; ++i) {
            const int chunk = t + i * kThreads;
            next_b[i] = *reinterpret_cast<const float4*>(
                &b[size_t(first + chunk / (BN / 4)) * n + block_column + chunk % (BN / 4) * 4]);
        }
    };
    auto store = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < kOfA; ++i) {
            const int chunk = t + i * kThreads, line = chunk / (BK / 4), d = chunk % (BK / 4) * 4;
            of_a[buffer][d + 0][line] = next_a[i].x;
            of_a[buffer][d + 1][line] = next_a[i].y;
            of_a[buffer][d + 2][line] = next_a[i].z;
            of_a[buffer][d + 3][line] = next_a[i].w;
        }
#pragma unroll
        for (int i = 0; i < kOfB; ++i) {
            const int chunk = t + i * kThreads;
            *reinterpret_cast<float4*>(&of_b[buffer][chunk / (BN / 4)][chunk % (BN / 4) * 4]) = next_b[i];
        }
    };
    float sums[TM][TN] = {};
    auto multiply = [&](int buffer) {
#pragma unroll
        for (int d = 0; d < BK; ++d) {
            float left[TM], right[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4)
                *reinterpret_cast<float4*>(&left[i]) =
                    *reinterpret_cast<const float4*>(&of_a[buffer][d][row + i / 4 * kDown]);
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *reinterpret_cast<float4*>(&right[j]) =
                    *reinterpret_cast<const float4*>(&of_b[buffer][d][column + j / 4 * kAcross]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j] += left[i] * right[j];
        }
    };
    if constexpr (PREFETCH) {
        load(0);
        store(0);
        __syncthreads();
        int buffer = 0;
        for (int first = BK; first < k; first += BK) {
            load(first);
            multiply(buffer);
            buffer ^= 1;
            store(buffer);
            __syncthreads();
        }
        multiply(buffer);
    } else {
        for (int first = 0; first < k; first += BK) {
            load(first);
            store(0);
            __syncthreads();
            multiply(0);
            __syncthreads();
        }
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            *reinterpret_cast<float4*>(
                &c[(block_row + row + i / 4 * kDown + i % 4) * n + block_column + column + j / 4 * kAcross]) =
                make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
}

__global__ void __launch_bounds__(256, 3)
    sgemm_fast(const float* a, const float* b, float* c, int m, int n, int k) {
    product<128, 128, 8, 8, 8, 4, true, 8>(a, b, c, m, n, k);
}

void fast(const float* a, const float* b, float* c, int m, int n, int k) {
    sgemm_fast<<<m / 128 * (n / 128), 256>>>(a, b, c, m, n, k);
}

const std::vector<Step> kSteps = {{"fast", fast}};
