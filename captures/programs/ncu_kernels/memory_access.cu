// Kernels that mostly read and write device memory, in different orders.

#include "bench.cuh"

constexpr size_t kFloats = size_t{1} << 26;  // 256 MiB: several times the L2 of any GPU
constexpr int kEach = 8;  // elements of a thread, a block's width apart
constexpr int kRowFloats = 256;
constexpr size_t kRows = kFloats / kRowFloats;
constexpr size_t kParticles = size_t{1} << 25;
constexpr size_t kPicked = size_t{1} << 25;
constexpr size_t kTableFloats = size_t{6} << 20;  // 24 MiB: stays in the L2 of the GPUs recorded
constexpr int kTablePasses = 32;
constexpr int kTableBlocks = 1056;

__global__ void scale(const float4* in, float4* out, float factor) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float4 value = in[i];
    out[i] = make_float4(value.x * factor, value.y * factor, value.z * factor, value.w * factor);
}

__global__ void shift_left(const float* in, float* out, size_t count) {
    size_t first = size_t(blockIdx.x) * blockDim.x * kEach + threadIdx.x;
    float values[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        size_t from = first + k * blockDim.x + 1;
        values[k] = in[from < count ? from : 0];
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) out[first + k * blockDim.x] = values[k];
}

// One thread a row.
__global__ void row_sums_by_thread(const float* in, float* sums) {
    size_t row = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int column = 0; column < kRowFloats; ++column) sum += in[row * kRowFloats + column];
    sums[row] = sum;
}

// One warp a row.
__global__ void row_sums_by_warp(const float* in, float* sums) {
    size_t row = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    float sum = 0;
    for (int column = lane; column < kRowFloats; column += 32) sum += in[row * kRowFloats + column];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0) sums[row] = sum;
}

struct Particle {
    float x, y, z, mass, vx, vy, vz, charge;
};

__global__ void drift_structs(Particle* particles, float dt) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    particles[i].x += particles[i].vx * dt;
}

__global__ void drift_arrays(float* x, const float* vx, float dt) {
    size_t first = size_t(blockIdx.x) * blockDim.x * kEach + threadIdx.x;
    float moved[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        size_t i = first + k * blockDim.x;
        moved[k] = x[i] + vx[i] * dt;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) x[first + k * blockDim.x] = moved[k];
}

__global__ void gather_shuffled(const float* in, const unsigned* index, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = in[index[i]];
}

__global__ void gather_ascending(const float* in, const unsigned* index, float* out) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    out[i] = in[index[i]];
}

// Every pass reads the whole table; a block starts each pass where another one was.
__global__ void sum_table(const float4* table, float* sums) {
    const unsigned count = kTableFloats / 4, stride = gridDim.x * blockDim.x;
    const unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int pass = 0; pass < kTablePasses; ++pass) {
        unsigned shift = pass * 37 * blockDim.x;
#pragma unroll 4
        for (unsigned i = first; i < count; i += stride) {
            float4 value = __ldcg(&table[(i + shift) % count]);
            sum += value.x + value.y + value.z + value.w;
        }
    }
    sums[first] = sum;
}

int main(int count, char** arguments) {
    using bench::blocks_for;
    using bench::unit;
    constexpr int kThreads = bench::kThreads;

    float* in = bench::filled<float>(kFloats, [] __device__(size_t i) { return unit(i); });
    float* out = bench::allocate<float>(kFloats);
    float* row_sums = bench::allocate<float>(kRows);
    auto* particles = bench::allocate<Particle>(kParticles);
    float* x = bench::allocate<float>(kParticles);
    float* vx = bench::filled<float>(kParticles, [] __device__(size_t i) { return unit(i); });
    // Every second element: once in an order that jumps through all of memory, once ascending. An odd
    // factor modulo a power of two visits every index exactly once.
    unsigned* shuffled = bench::filled<unsigned>(kPicked, [] __device__(size_t i) {
        return unsigned((i * 2654435761u) % kPicked) * 2;
    });
    unsigned* ascending =
        bench::filled<unsigned>(kPicked, [] __device__(size_t i) { return unsigned(i) * 2; });
    float* table = bench::filled<float>(kTableFloats, [] __device__(size_t) { return 1.0f; });
    float* table_sums = bench::allocate<float>(size_t(kTableBlocks) * kThreads);

    auto reset_particles = [=] {
        bench::set_values<<<blocks_for(kParticles), kThreads>>>(
            particles, kParticles, [] __device__(size_t i) {
                return Particle{0, 0, 0, 1, unit(i), 0, 0, 0};
            });
        CHECK(cudaMemset(x, 0, kParticles * sizeof(float)));
    };
    reset_particles();
    auto row_sum_is_wrong = [=] __device__(size_t row) {
        double sum = 0;
        for (int column = 0; column < kRowFloats; ++column) sum += unit(row * kRowFloats + column);
        return fabs(sum - row_sums[row]) > 1e-3;
    };
    const double all = kFloats * 4.0;
    std::vector<bench::Kernel> kernels = {
        {"scale", 2 * all, double(kFloats), 4,
         [=] {
             scale<<<blocks_for(kFloats / 4), kThreads>>>((float4*)in, (float4*)out, 2.0f);
         },
         bench::checked(kFloats, [=] __device__(size_t i) { return out[i] != 2 * unit(i); })},
        {"shift_left", 2 * all, 0, 2,
         [=] { shift_left<<<blocks_for(kFloats / kEach), kThreads>>>(in, out, kFloats); },
         bench::checked(kFloats - 1, [=] __device__(size_t i) { return out[i] != unit(i + 1); })},
        {"row_sums_by_thread", all + kRows * 4.0, double(kFloats), 2,
         [=] { row_sums_by_thread<<<blocks_for(kRows), kThreads>>>(in, row_sums); },
         bench::checked(kRows, row_sum_is_wrong)},
        {"row_sums_by_warp", all + kRows * 4.0, double(kFloats), 2,
         [=] { row_sums_by_warp<<<blocks_for(kRows * 32), kThreads>>>(in, row_sums); },
         bench::checked(kRows, row_sum_is_wrong)},
        {"drift_structs", 3.0 * kParticles * 4, 2.0 * kParticles, 10,
         [=] { drift_structs<<<blocks_for(kParticles), kThreads>>>(particles, 0.5f); },
         bench::checked(kParticles, [=] __device__(size_t i) {
             return fabsf(particles[i].x - 10 * 0.5f * unit(i)) > 1e-4f;
         })},
        {"drift_arrays", 3.0 * kParticles * 4, 2.0 * kParticles, 10,
         [=] { drift_arrays<<<blocks_for(kParticles / kEach), kThreads>>>(x, vx, 0.5f); },
         bench::checked(kParticles, [=] __device__(size_t i) {
             return fabsf(x[i] - 10 * 0.5f * unit(i)) > 1e-4f;
         })},
        {"gather_shuffled", 3.0 * kPicked * 4, 0, 1,
         [=] { gather_shuffled<<<blocks_for(kPicked), kThreads>>>(in, shuffled, out); },
         bench::checked(kPicked, [=] __device__(size_t i) { return out[i] != unit(shuffled[i]); })},
        {"gather_ascending", 3.0 * kPicked * 4, 0, 1,
         [=] { gather_ascending<<<blocks_for(kPicked), kThreads>>>(in, ascending, out); },
         bench::checked(kPicked,
                        [=] __device__(size_t i) { return out[i] != unit(ascending[i]); })},
        {"sum_table", kTableFloats * 4.0, double(kTableFloats) * kTablePasses, 3,
         [=] { sum_table<<<kTableBlocks, kThreads>>>((float4*)table, table_sums); },
         [=] {
             // Each pass reads every element once, wherever the blocks start.
             std::vector<float> sums(size_t(kTableBlocks) * kThreads);
             CHECK(cudaMemcpy(sums.data(), table_sums, sums.size() * sizeof(float),
                              cudaMemcpyDeviceToHost));
             double sum = 0;
             for (float value : sums) sum += value;
             return size_t(sum != double(kTableFloats) * kTablePasses);
         }},
    };
    return bench::run(kernels, count, arguments);
}
