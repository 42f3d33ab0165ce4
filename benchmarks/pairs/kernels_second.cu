// Pairs of kernels, the second look: hidden together. Written before any of them was recorded; see kernels.cu.
#include <cuda_profiler_api.h>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

constexpr int N = 1 << 25, RUNS = 7, SIDE = 2048;

// uncoalesced_access: an index that jumps; fixed: neighbours.
__global__ void gather_faulty(const float* x, float* y) {
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = x[(t * 4099u) & (N - 1)];
}
__global__ void gather_fixed(const float* x, float* y) {
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = x[t];
}

// divergence: lanes loop for lengths of their own; fixed: the lanes of a warp for the same.
__device__ void lengths(float* y, unsigned which) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int length = ((which * 2654435761u) >> 22) + 1;
  float v = t;
  for (int i = 0; i < length; ++i) v = v * 0.999f + 0.5f;
  y[t] = v;
}
__global__ void lengths_faulty(float* y) { lengths(y, blockIdx.x * blockDim.x + threadIdx.x); }
__global__ void lengths_fixed(float* y) { lengths(y, (blockIdx.x * blockDim.x + threadIdx.x) >> 5); }

// bank_conflicts: lanes sixteen words apart; fixed: one apart.
template <int STRIDE>
__device__ void strides(float* y) {
  __shared__ float tile[4096];
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) tile[i] = i;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 2048; ++i) sum += tile[((threadIdx.x & 31) * STRIDE + i) & 4095];
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void strides_faulty(float* y) { strides<16>(y); }
__global__ void strides_fixed(float* y) { strides<1>(y); }

// atomic_contention: all add to sixteen bins in memory; fixed: each block counts in shared memory first.
__global__ void bins_faulty(const unsigned* x, unsigned* bins) {
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  for (size_t i = t; i < N; i += (size_t)gridDim.x * blockDim.x) atomicAdd(&bins[(x[i] + i) & 15], 1u);
}
__global__ void bins_fixed(const unsigned* x, unsigned* bins) {
  __shared__ unsigned own[16 * 32];
  for (int i = threadIdx.x; i < 512; i += blockDim.x) own[i] = 0;
  __syncthreads();
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  for (size_t i = t; i < N; i += (size_t)gridDim.x * blockDim.x)
    atomicAdd(&own[((x[i] + i) & 15) * 32 + (threadIdx.x & 31)], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 512; i += blockDim.x) atomicAdd(&bins[i >> 5], own[i]);
}

// small_grid: forty blocks; fixed: eight a multiprocessor.
__device__ void roots(const float* x, float* y) {
  for (size_t t = blockIdx.x * blockDim.x + threadIdx.x; t < N; t += (size_t)gridDim.x * blockDim.x)
    y[t] = sqrtf(x[t] + 1.0f);
}
__global__ void roots_faulty(const float* x, float* y) { roots(x, y); }
__global__ void roots_fixed(const float* x, float* y) { roots(x, y); }

// tail_effect: three blocks for each two that fit; fixed: the same work in blocks a sixteenth as long.
__device__ void waves(float* y, int rounds) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float a = t, b = t + 1;
  for (int i = 0; i < rounds; ++i) { a = a * 0.999f + b; b = b * 0.998f + a; }
  y[t & (N - 1)] = a + b;
}
__global__ void __launch_bounds__(1024) waves_faulty(float* y) { waves(y, 16384); }
__global__ void __launch_bounds__(1024) waves_fixed(float* y) { waves(y, 1024); }

// latency_bound: two warps a multiprocessor, each in one chain of dependent steps; fixed: four chains a thread.
template <int CHAINS>
__device__ void chains(float* y, float factor) {
  float v[CHAINS];
  for (int c = 0; c < CHAINS; ++c) v[c] = threadIdx.x + c;
  for (int i = 0; i < 65536 / CHAINS; ++i)
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) v[c] = v[c] * factor + 0.5f;
  float sum = 0;
  for (int c = 0; c < CHAINS; ++c) sum += v[c];
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void chains_faulty(float* y, float factor) { chains<1>(y, factor); }
__global__ void chains_fixed(float* y, float factor) { chains<4>(y, factor); }

// cache_bound: each thread makes one output of a product from tiles in shared memory; fixed: sixteen.
__global__ void tiles_faulty(const float* a, const float* b, float* c) {
  __shared__ float left[32][33], right[32][33];
  int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < SIDE; k += 32) {
    left[threadIdx.y][threadIdx.x] = a[row * SIDE + k + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * SIDE + column];
    __syncthreads();
    for (int i = 0; i < 32; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  c[row * SIDE + column] = sum;
}
__global__ void tiles_fixed(const float* a, const float* b, float* c) {
  __shared__ float left[64][17], right[16][64];
  int t = threadIdx.x, r = (t / 16) * 4, q = (t % 16) * 4;
  int row = blockIdx.y * 64, column = blockIdx.x * 64;
  float sum[4][4] = {};
  for (int k = 0; k < SIDE; k += 16) {
    for (int i = t; i < 1024; i += 256) {
      left[i / 16][i % 16] = a[(row + i / 16) * SIDE + k + i % 16];
      right[i / 64][i % 64] = b[(k + i / 64) * SIDE + column + i % 64];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i)
#pragma unroll
      for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n) sum[m][n] += left[r + m][i] * right[i][q + n];
    __syncthreads();
  }
  for (int m = 0; m < 4; ++m)
    for (int n = 0; n < 4; ++n) c[(row + r + m) * SIDE + column + q + n] = sum[m][n];
}

// compute_bound: a remainder by a number that is known only at run time; fixed: by a mask.
__global__ void remainders_faulty(unsigned* y, unsigned by) {
  unsigned v = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int i = 0; i < 256; ++i) sum += (v + i * 977u) % by;
  y[v & (N - 1)] = sum;
}
__global__ void remainders_fixed(unsigned* y, unsigned by) {
  unsigned v = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int i = 0; i < 256; ++i) sum += (v + i * 977u) & (by - 1);
  y[v & (N - 1)] = sum;
}

// memory_bound: floats where bytes would do.
__global__ void flags_faulty(const float4* x, float4* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = x[t];
  v.x += 1, v.y += 1, v.z += 1, v.w += 1;
  y[t] = v;
}
__global__ void flags_fixed(const uchar4* x, uchar4* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  uchar4 v = x[t];
  v.x += 1, v.y += 1, v.z += 1, v.w += 1;
  y[t] = v;
}

struct Pair { std::string name; std::function<void()> versions[2]; };

int main(int argc, char** argv) {
  bool once = argc > 1 && !strcmp(argv[1], "--once");
  char *x, *y;
  size_t bytes = (size_t)N * 4 * sizeof(float);
  cudaMalloc(&x, bytes);
  cudaMalloc(&y, bytes);
  cudaMemset(x, 0, bytes);
  float *fx = (float*)x, *fy = (float*)y;
  unsigned *ux = (unsigned*)x, *uy = (unsigned*)y;
  dim3 small(SIDE / 32, SIDE / 32), threads(32, 32), large(SIDE / 64, SIDE / 64);
  std::vector<Pair> pairs = {
      {"gather", {[=] { gather_faulty<<<N / 256, 256>>>(fx, fy); }, [=] { gather_fixed<<<N / 256, 256>>>(fx, fy); }}},
      {"lengths", {[=] { lengths_faulty<<<132 * 64, 256>>>(fy); }, [=] { lengths_fixed<<<132 * 64, 256>>>(fy); }}},
      {"strides", {[=] { strides_faulty<<<132 * 16, 256>>>(fy); }, [=] { strides_fixed<<<132 * 16, 256>>>(fy); }}},
      {"bins", {[=] { bins_faulty<<<132 * 8, 256>>>(ux, uy); }, [=] { bins_fixed<<<132 * 8, 256>>>(ux, uy); }}},
      {"roots", {[=] { roots_faulty<<<40, 256>>>(fx, fy); }, [=] { roots_fixed<<<132 * 8, 256>>>(fx, fy); }}},
      {"waves", {[=] { waves_faulty<<<132 * 3, 1024>>>(fy); }, [=] { waves_fixed<<<132 * 48, 1024>>>(fy); }}},
      {"chains", {[=] { chains_faulty<<<132, 64>>>(fy, 0.999f); }, [=] { chains_fixed<<<132, 64>>>(fy, 0.999f); }}},
      {"tiles", {[=] { tiles_faulty<<<small, threads>>>(fx, fx, fy); }, [=] { tiles_fixed<<<large, 256>>>(fx, fx, fy); }}},
      {"remainders", {[=] { remainders_faulty<<<132 * 64, 256>>>(uy, 4096); },
                      [=] { remainders_fixed<<<132 * 64, 256>>>(uy, 4096); }}},
      {"flags", {[=] { flags_faulty<<<N / 1024, 256>>>((float4*)x, (float4*)y); },
                 [=] { flags_fixed<<<N / 1024, 256>>>((uchar4*)x, (uchar4*)y); }}},
  };
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  for (auto& pair : pairs)
    for (auto& run : pair.versions)
      for (int i = 0; i < 3; ++i) run();
  cudaDeviceSynchronize();
  if (once) {
    cudaProfilerStart();
    for (auto& pair : pairs)
      for (auto& run : pair.versions) run();
    cudaDeviceSynchronize();
    cudaProfilerStop();
    return cudaGetLastError() != cudaSuccess;
  }
  printf("{");
  for (auto& pair : pairs) {
    std::string lists[2];
    for (int round = 0; round < RUNS; ++round)
      for (int version = 0; version < 2; ++version) {
        float ms;
        cudaEventRecord(begin);
        for (int i = 0; i < 5; ++i) pair.versions[version]();
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        cudaEventElapsedTime(&ms, begin, end);
        char text[40];
        snprintf(text, sizeof text, "%s%.5f", round ? ", " : "", ms / 5);
        lists[version] += text;
      }
    printf("%s\"%s\": {\"faulty\": [%s], \"fixed\": [%s]}", &pair == &pairs[0] ? "" : ", ", pair.name.c_str(),
           lists[0].c_str(), lists[1].c_str());
  }
  printf("}\n");
  return cudaGetLastError() != cudaSuccess;
}
