// Kernels over the whole range of arithmetic intensity, in two precisions, and some that one roof cannot
// explain.
//
//   make && ./roofline_kernels
//   ncu --section SpeedOfLight_HierarchicalSingleRooflineChart ./roofline_kernels
//
// Options, and how kernels are run and timed: ../table.cuh. poly_f32_K and poly_f64_K read an element, do K
// multiply-adds with it, and write it.

#include "table.cuh"

constexpr int kThreads = bench::kThreads;
constexpr int kPasses = 64;                       // over the array that stays in L2
constexpr size_t kResidentFloats = size_t{2} << 20;  // 8 MiB
constexpr int kSide = 1024;                       // of the matrices
constexpr int kPlane = 512;                       // rows and columns of a plane of the stencil

__device__ inline size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

template <int kTerms, class Value>
__device__ inline Value polynomial(Value value, Value factor, Value addend) {
#pragma unroll
    for (int term = 0; term < kTerms; ++term) value = value * factor + addend;
    return value;
}

template <int kTerms>
__device__ inline void poly_f32(const float4* in, float4* out, float f, float a) {
    const size_t i = thread_index();
    const float4 v = in[i];
    out[i] = make_float4(polynomial<kTerms>(v.x, f, a), polynomial<kTerms>(v.y, f, a),
                         polynomial<kTerms>(v.z, f, a), polynomial<kTerms>(v.w, f, a));
}
template <int kTerms>
__device__ inline void poly_f64(const double2* in, double2* out, double f, double a) {
    const size_t i = thread_index();
    const double2 v = in[i];
    out[i] = make_double2(polynomial<kTerms>(v.x, f, a), polynomial<kTerms>(v.y, f, a));
}

#define POLY_F32(K)                                                                    \
    __global__ void poly_f32_##K(const float4* in, float4* out, float f, float a) {    \
        poly_f32<K>(in, out, f, a);                                                    \
    }
#define POLY_F64(K)                                                                    \
    __global__ void poly_f64_##K(const double2* in, double2* out, double f, double a) { \
        poly_f64<K>(in, out, f, a);                                                    \
    }
POLY_F32(1)
POLY_F32(8)
POLY_F32(32)
POLY_F32(64)
POLY_F32(256)
POLY_F64(1)
POLY_F64(8)
POLY_F64(32)
POLY_F64(128)

// Each inner point from itself and its six neighbours; the caches serve most of the neighbours.
__global__ void stencil_7(const float* in, float* out, int planes, float centre, float side) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z;
    const size_t row = kPlane, plane = size_t(kPlane) * kPlane;
    const size_t i = z * plane + y * row + x;
    if (x == 0 || y == 0 || z == 0 || x == kPlane - 1 || y == kPlane - 1 || z == planes - 1) return;
    const float around =
        in[i - 1] + in[i + 1] + in[i - row] + in[i + row] + in[i - plane] + in[i + plane];
    out[i] = centre * in[i] + side * around;
}

__global__ void matmul_direct(const float* a, const float* b, float* c) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < kSide; ++k) sum += a[row * kSide + k] * b[k * kSide + column];
    c[row * kSide + column] = sum;
}

// 64 x 64 results a block, 4 x 4 a thread, from shared memory.
__global__ void matmul_tiled(const float* a, const float* b, float* c) {
    __shared__ float as[16][64 + 4], bs[16][64];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < kSide; k0 += 16) {
        const float4 from_a = *(const float4*)&a[(row + t / 4) * kSide + k0 + t % 4 * 4];
        const float4 from_b = *(const float4*)&b[(k0 + t / 16) * kSide + column + t % 16 * 4];
        as[t % 4 * 4 + 0][t / 4] = from_a.x;
        as[t % 4 * 4 + 1][t / 4] = from_a.y;
        as[t % 4 * 4 + 2][t / 4] = from_a.z;
        as[t % 4 * 4 + 3][t / 4] = from_a.w;
        *(float4*)&bs[t / 16][t % 16 * 4] = from_b;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            const float4 x = *(const float4*)&as[k][ty * 4], y = *(const float4*)&bs[k][tx * 4];
            const float left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        *(float4*)&c[(row + ty * 4 + i) * kSide + column + tx * 4] =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

// A small array read over and over, two multiply-adds an element: memory sees it once, L2 every time.
__global__ void resident(const float4* in, float* sums, float f) {
    const unsigned count = kResidentFloats / 4, stride = gridDim.x * blockDim.x;
    const unsigned first = unsigned(thread_index());
    float sum = 0, other = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
        const unsigned shift = pass * 37 * blockDim.x;
#pragma unroll 4
        for (unsigned i = first; i < count; i += stride) {
            const float4 v = __ldcg(&in[(i + shift) % count]);
            sum = v.x * f + sum, other = v.y * f + other;
            sum = v.z * f + sum, other = v.w * f + other;
            sum = v.y * f + sum, other = v.x * f + other;
            sum = v.w * f + sum, other = v.z * f + other;
        }
    }
    sums[first] = sum + other;
}

int main(int count, char** arguments) {
    const table::Options given = table::options(count, arguments);
    const size_t n = (given.mib << 20) / 4, doubles = n / 2;
    const int planes = int(n / (size_t(kPlane) * kPlane)), cells = kSide * kSide;
    const int resident_blocks = table::multiprocessors() * 8;
    auto value = [] __host__ __device__(size_t i) { return bench::unit(unsigned(i)); };

    float* in = bench::filled<float>(n, [=] __device__(size_t i) { return value(i); });
    float* out = bench::allocate<float>(n);
    double* in64 = bench::filled<double>(doubles, [=] __device__(size_t i) { return double(value(i)); });
    double* out64 = bench::allocate<double>(doubles);
    float* a = bench::filled<float>(cells, [=] __device__(size_t i) { return value(i) - 0.5f; });
    float* b = bench::filled<float>(cells, [=] __device__(size_t i) { return value(i + 9) - 0.5f; });
    float* c = bench::allocate<float>(cells);
    float* ones = bench::filled<float>(kResidentFloats, [] __device__(size_t) { return 1.0f; });
    float* sums = bench::allocate<float>(size_t(resident_blocks) * kThreads);

    const float f = 0.75f, d = 0.125f;
    auto expected = [=] __host__ __device__(double v, int terms) {  // the sum of a geometric series
        const double power = pow(0.75, terms);
        return v * power + 0.125 * (1 - power) / 0.25;
    };
    auto poly32 = [=](const char* name, int terms, void (*kernel)(const float4*, float4*, float, float)) {
        return bench::Kernel{
            name, 8.0 * n, 2.0 * terms * n, 1,
            [=] { kernel<<<unsigned(n / 4 / kThreads), kThreads>>>((float4*)in, (float4*)out, f, d); },
            bench::checked(n, [=] __device__(size_t i) {
                return !(fabs(out[i] - expected(value(i), terms)) < 1e-5);
            })};
    };
    auto poly64 = [=](const char* name, int terms,
                      void (*kernel)(const double2*, double2*, double, double)) {
        return bench::Kernel{
            name, 16.0 * doubles, 2.0 * terms * doubles, 1,
            [=] {
                kernel<<<unsigned(doubles / 2 / kThreads), kThreads>>>((double2*)in64, (double2*)out64,
                                                                      double(f), double(d));
            },
            bench::checked(doubles, [=] __device__(size_t i) {
                return !(fabs(out64[i] - expected(value(i), terms)) < 1e-9);
            })};
    };
    auto product_is_wrong = [=] __device__(size_t sample) {
        const size_t i = sample * 7919 % cells, row = i / kSide, column = i % kSide;
        double sum = 0;
        for (int k = 0; k < kSide; ++k) sum += double(a[row * kSide + k]) * b[k * kSide + column];
        return !(fabs(sum - c[i]) < 1e-3);
    };
    auto stencil_is_wrong = [=] __device__(size_t i) {
        const size_t row = kPlane, plane = size_t(kPlane) * kPlane;
        const size_t x = i % row, y = i / row % row, z = i / plane;
        if (x == 0 || y == 0 || z == 0 || x == row - 1 || y == row - 1 || z == planes - 1) return false;
        const double around = double(in[i - 1]) + in[i + 1] + in[i - row] + in[i + row] +
                              in[i - plane] + in[i + plane];
        return !(fabs(0.5 * in[i] + around / 12 - out[i]) < 1e-5);
    };
    const dim3 block(64, 4), grid(kPlane / 64, kPlane / 4, planes);
    const double inner = double(kPlane - 2) * (kPlane - 2) * (planes - 2);
    const double product = 2.0 * kSide * kSide * kSide;
    std::vector<bench::Kernel> kernels = {
        poly32("poly_f32_1", 1, poly_f32_1),
        poly32("poly_f32_8", 8, poly_f32_8),
        poly32("poly_f32_32", 32, poly_f32_32),
        poly32("poly_f32_64", 64, poly_f32_64),
        poly32("poly_f32_256", 256, poly_f32_256),
        poly64("poly_f64_1", 1, poly_f64_1),
        poly64("poly_f64_8", 8, poly_f64_8),
        poly64("poly_f64_32", 32, poly_f64_32),
        poly64("poly_f64_128", 128, poly_f64_128),
        {"stencil_7", 8.0 * n, 8.0 * inner, 1,
         [=] { stencil_7<<<grid, block>>>(in, out, planes, 0.5f, 1.0f / 12); },
         bench::checked(n, stencil_is_wrong)},
        {"matmul_direct", 12.0 * cells, product, 1,
         [=] { matmul_direct<<<dim3(kSide / 32, kSide / 8), dim3(32, 8)>>>(a, b, c); },
         bench::checked(4096, product_is_wrong)},
        {"matmul_tiled", 12.0 * cells, product, 1,
         [=] { matmul_tiled<<<dim3(kSide / 64, kSide / 64), 256>>>(a, b, c); },
         bench::checked(4096, product_is_wrong)},
        {"resident", kResidentFloats * 4.0 + resident_blocks * kThreads * 4.0,
         4.0 * kResidentFloats * kPasses, 1,
         [=] { resident<<<resident_blocks, kThreads>>>((float4*)ones, sums, 0.5f); },
         [=] {
             // Each pass reads every element once, wherever the blocks start; each counts 2 x 0.5.
             std::vector<float> host(size_t(resident_blocks) * kThreads);
             CHECK(cudaMemcpy(host.data(), sums, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
             double sum = 0;
             for (float one : host) sum += one;
             return size_t(sum != double(kResidentFloats) * kPasses);
         }},
    };
    return table::run(kernels, given);
}
