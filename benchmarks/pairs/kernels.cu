// Pairs of kernels: NAME_faulty and NAME_fixed do the same, the fixed one without the named cause.
//   kernels          the ms of both, in turns, as one line of JSON
//   kernels --once   each once between cudaProfilerStart and cudaProfilerStop
#include <cuda_profiler_api.h>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

constexpr int N = 1 << 25, SIDE = 8192, RUNS = 7;

// uncoalesced_access: each thread reads its own row; fixed: neighbours read neighbours.
__global__ void rows_faulty(const float* x, float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < 2048; ++i) sum += x[(size_t)t * 2048 + i];
  y[t] = sum;
}
__global__ void rows_fixed(const float* x, float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < 2048; ++i) sum += x[(size_t)i * 16384 + t];
  y[t] = sum;
}
struct Particle { float x, y, z, u, v, w, mass, charge; };
__global__ void structs_faulty(const Particle* p, float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = p[t].mass * 2.0f;
}
__global__ void structs_fixed(const float* mass, float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = mass[t] * 2.0f;
}
__global__ void transpose_faulty(const float* x, float* y) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) y[(size_t)c * SIDE + r + j] = x[(size_t)(r + j) * SIDE + c];
}
__global__ void transpose_fixed(const float* x, float* y) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(size_t)(r + j) * SIDE + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) y[(size_t)(r + j) * SIDE + c] = tile[threadIdx.x][threadIdx.y + j];
}

// bank_conflicts: a column of a tile, 32 wide; fixed: 33 wide.
template <int WIDTH>
__device__ void columns(float* y) {
  __shared__ float tile[32 * WIDTH];
  for (int i = threadIdx.x; i < 32 * WIDTH; i += blockDim.x) tile[i] = i;
  __syncthreads();
  int lane = threadIdx.x & 31;
  float sum = 0;
  for (int round = 0; round < 64; ++round)
    for (int c = 0; c < 32; ++c) sum += tile[lane * WIDTH + ((c + round) & 31)];
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void columns_faulty(float* y) { columns<32>(y); }
__global__ void columns_fixed(float* y) { columns<33>(y); }

// low_occupancy: shared memory that is never needed leaves one block of 128 threads a multiprocessor.
__device__ void scale(const float* x, float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = sqrtf(x[t]) * 1.5f + 2.0f;
}
__global__ void resident_faulty(const float* x, float* y) {
  extern __shared__ float never[];
  scale(x, y);
}
__global__ void resident_fixed(const float* x, float* y) { scale(x, y); }

// small_grid: 24 blocks walk over all; fixed: 132 * 16.
__device__ void walk(const float* x, float* y) {
  for (size_t t = blockIdx.x * blockDim.x + threadIdx.x; t < N; t += (size_t)gridDim.x * blockDim.x)
    y[t] = x[t] * 1.5f + 2.0f;
}
__global__ void grid_faulty(const float* x, float* y) { walk(x, y); }
__global__ void grid_fixed(const float* x, float* y) { walk(x, y); }

// tail_effect: nine blocks of long work a multiprocessor, eight fit; fixed: the same work in blocks an eighth as long.
__device__ void work(float* y, int rounds) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float a = t, b = t + 1;
  for (int i = 0; i < rounds; ++i) { a = a * 0.999f + b; b = b * 0.998f + a; }
  y[t & (N - 1)] = a + b;
}
__global__ void __launch_bounds__(256) tail_faulty(float* y) { work(y, 16384); }
__global__ void __launch_bounds__(256) tail_fixed(float* y) { work(y, 2048); }

// divergence: each lane takes one of eight branches; fixed: each warp does.
__device__ float branch(int which, float v) {
  switch (which) {
    case 0: for (int i = 0; i < 200; ++i) v = v * 1.01f + 0.1f; return v;
    case 1: for (int i = 0; i < 200; ++i) v = sinf(v) + 0.2f; return v;
    case 2: for (int i = 0; i < 200; ++i) v = v * v * 0.3f + 0.3f; return v;
    case 3: for (int i = 0; i < 200; ++i) v = rsqrtf(v + 1.4f); return v;
    case 4: for (int i = 0; i < 200; ++i) v = expf(-v) + 0.5f; return v;
    case 5: for (int i = 0; i < 200; ++i) v = v / (v + 2.6f); return v;
    case 6: for (int i = 0; i < 200; ++i) v = fabsf(v - 0.7f) * 0.9f; return v;
    default: for (int i = 0; i < 200; ++i) v = logf(v + 2.8f); return v;
  }
}
__global__ void branches_faulty(float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = branch(t & 7, 0.5f);
}
__global__ void branches_fixed(float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = branch((t >> 5) & 7, 0.5f);
}

// atomic_contention: all add to eight counters; fixed: a warp adds up first.
__global__ void counters_faulty(const int* x, int* counts) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&counts[blockIdx.x & 7], x[t]);
}
__global__ void counters_fixed(const int* x, int* counts) {
  __shared__ int sums[8];
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = __reduce_add_sync(0xffffffff, x[t]);
  if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 8; ++i) sum += sums[i];
    atomicAdd(&counts[blockIdx.x & 7], sum);
  }
}

// register_spills: bounds leave 32 registers to a kernel that needs more; fixed: bounds that leave enough.
__device__ void filter(const float* x, float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = x[(t + i * 4096) & (N - 1)];
  for (int round = 0; round < 8; ++round) {
#pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 7) & 63] + v[(i + 31) & 63];
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += v[i];
  y[t] = sum;
}
__global__ void __launch_bounds__(1024, 2) filter_faulty(const float* x, float* y) { filter(x, y); }
__global__ void __launch_bounds__(256, 2) filter_fixed(const float* x, float* y) { filter(x, y); }

// compute_bound: constants are doubles, and so is the arithmetic; fixed: floats.
__global__ void constants_faulty(float* y) {
  float v = threadIdx.x;
  for (int i = 0; i < 512; ++i) v = v * 0.999 + 0.25;
  y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
__global__ void constants_fixed(float* y) {
  float v = threadIdx.x;
  for (int i = 0; i < 512; ++i) v = v * 0.999f + 0.25f;
  y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

// latency_bound: each thread copies a byte; fixed: 16 bytes.
__global__ void bytes_faulty(const char* x, char* y) {
  size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = x[t];
}
__global__ void bytes_fixed(const uint4* x, uint4* y) {
  size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = x[t];
}

// memory_bound: doubles where floats would do.
__global__ void wide_faulty(const double* x, double* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = x[t] + 1.0;
}
__global__ void wide_fixed(const float* x, float* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  y[t] = x[t] + 1.0f;
}

struct Pair { std::string name; std::function<void()> versions[2]; };

int main(int argc, char** argv) {
  bool once = argc > 1 && !strcmp(argv[1], "--once");
  char *x, *y;
  size_t bytes = (size_t)N * 8 * sizeof(float);
  cudaMalloc(&x, bytes);
  cudaMalloc(&y, bytes);
  cudaMemset(x, 0, bytes);
  float *fx = (float*)x, *fy = (float*)y;
  int held = 160 * 1024;
  cudaFuncSetAttribute(resident_faulty, cudaFuncAttributeMaxDynamicSharedMemorySize, held);
  dim3 tiles(SIDE / 32, SIDE / 32), tile(32, 8);
  std::vector<Pair> pairs = {
      {"rows", {[=] { rows_faulty<<<64, 256>>>(fx, fy); }, [=] { rows_fixed<<<64, 256>>>(fx, fy); }}},
      {"structs", {[=] { structs_faulty<<<N / 256, 256>>>((Particle*)x, fy); },
                   [=] { structs_fixed<<<N / 256, 256>>>(fx, fy); }}},
      {"transpose", {[=] { transpose_faulty<<<tiles, tile>>>(fx, fy); },
                     [=] { transpose_fixed<<<tiles, tile>>>(fx, fy); }}},
      {"columns", {[=] { columns_faulty<<<132 * 32, 256>>>(fy); }, [=] { columns_fixed<<<132 * 32, 256>>>(fy); }}},
      {"resident", {[=] { resident_faulty<<<N / 128, 128, held>>>(fx, fy); },
                    [=] { resident_fixed<<<N / 128, 128>>>(fx, fy); }}},
      {"grid", {[=] { grid_faulty<<<24, 256>>>(fx, fy); }, [=] { grid_fixed<<<132 * 16, 256>>>(fx, fy); }}},
      {"tail", {[=] { tail_faulty<<<132 * 9, 256>>>(fy); }, [=] { tail_fixed<<<132 * 72, 256>>>(fy); }}},
      {"branches", {[=] { branches_faulty<<<132 * 64, 256>>>(fy); }, [=] { branches_fixed<<<132 * 64, 256>>>(fy); }}},
      {"counters", {[=] { counters_faulty<<<N / 256, 256>>>((int*)x, (int*)y); },
                    [=] { counters_fixed<<<N / 256, 256>>>((int*)x, (int*)y); }}},
      {"filter", {[=] { filter_faulty<<<132 * 16, 1024>>>(fx, fy); }, [=] { filter_fixed<<<132 * 64, 256>>>(fx, fy); }}},
      {"constants", {[=] { constants_faulty<<<132 * 64, 256>>>(fy); }, [=] { constants_fixed<<<132 * 64, 256>>>(fy); }}},
      {"bytes", {[=] { bytes_faulty<<<N / 64, 256>>>(x, y); },
                 [=] { bytes_fixed<<<N / 1024, 256>>>((uint4*)x, (uint4*)y); }}},
      {"wide", {[=] { wide_faulty<<<N / 256, 256>>>((double*)x, (double*)y); },
                [=] { wide_fixed<<<N / 256, 256>>>(fx, fy); }}},
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
