// CAUGHT_BY: test_every_step_is_done
// SAYS: its position was never set to 0
//
// Takes it that new memory holds zeros.
#include "particles.cuh"

// Tables that may be on their way at once: how far the host can run ahead.
constexpr int kSlots = 8;

struct Simulation {
    int particles;
    int steps_most;
    cudaStream_t stream;
    cudaEvent_t copied[kSlots];  // recorded after the copy out of a slot: then it may be written again
    float* table;                // kSlots tables, page-locked
    float* device_table;         // one: the stream orders its use
    float* position;
    float* velocity;
    float* each;
    Sum* sums;         // one a step, page-locked
    Sum* device_sums;  // one a step
};

Simulation* create_simulation(int particles, int steps_most) {
    auto* simulation = new Simulation{};
    simulation->particles = particles;
    simulation->steps_most = steps_most;
    const size_t bytes = sizeof(float) * particles;
    CHECK(cudaStreamCreateWithFlags(&simulation->stream, cudaStreamNonBlocking));
    for (cudaEvent_t& event : simulation->copied) {
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    CHECK(cudaMallocHost(&simulation->table, sizeof(float) * kTable * kSlots));
    CHECK(cudaMallocHost(&simulation->sums, sizeof(Sum) * steps_most));
    CHECK(cudaMalloc(&simulation->device_table, sizeof(float) * kTable));
    CHECK(cudaMalloc(&simulation->position, bytes));
    CHECK(cudaMalloc(&simulation->velocity, bytes));
    CHECK(cudaMalloc(&simulation->each, bytes));
    CHECK(cudaMalloc(&simulation->device_sums, sizeof(Sum) * steps_most));
    CHECK(cudaMemsetAsync(simulation->velocity, 0, bytes, simulation->stream));
    return simulation;
}

static void issue_step(const Simulation& simulation, int step) {
    const int slot = step % kSlots;
    const int blocks = blocks_for(simulation.particles);
    float* table = simulation.table + slot * kTable;
    CHECK(cudaEventSynchronize(simulation.copied[slot]));  // at once, unless the host is far ahead
    prepare_step(step, table);
    CHECK(cudaMemcpyAsync(simulation.device_table, table, sizeof(float) * kTable,
                          cudaMemcpyHostToDevice, simulation.stream));
    CHECK(cudaEventRecord(simulation.copied[slot], simulation.stream));
    {
        Range range("move");
        kick<<<blocks, kThreads, 0, simulation.stream>>>(simulation.velocity, simulation.position,
                                                         simulation.device_table,
                                                         simulation.particles);
        CHECK(cudaGetLastError());
        drift<<<blocks, kThreads, 0, simulation.stream>>>(simulation.position, simulation.velocity,
                                                          simulation.particles);
        CHECK(cudaGetLastError());
    }
    Range range("measure");
    energy<<<blocks, kThreads, 0, simulation.stream>>>(simulation.each, simulation.position,
                                                       simulation.velocity, simulation.particles);
    CHECK(cudaGetLastError());
    total<<<blocks, kThreads, 0, simulation.stream>>>(simulation.device_sums + step, simulation.each,
                                                      simulation.particles);
    CHECK(cudaGetLastError());
}

void run_simulation(Simulation& simulation, int steps) {
    const size_t bytes = sizeof(Sum) * steps;
    CHECK(cudaMemsetAsync(simulation.device_sums, 0, bytes, simulation.stream));
    for (int i = 0; i < steps; ++i) {
        Range range("step");
        issue_step(simulation, i);
    }
    // Nobody reads an energy before the end: one copy brings them all.
    CHECK(cudaMemcpyAsync(simulation.sums, simulation.device_sums, bytes, cudaMemcpyDeviceToHost,
                          simulation.stream));
    CHECK(cudaStreamSynchronize(simulation.stream));
    for (int i = 0; i < steps; ++i) log_energy(i, simulation.sums + i);
}

void destroy_simulation(Simulation* simulation) {
    CHECK(cudaFree(simulation->device_sums));
    CHECK(cudaFree(simulation->each));
    CHECK(cudaFree(simulation->velocity));
    CHECK(cudaFree(simulation->position));
    CHECK(cudaFree(simulation->device_table));
    CHECK(cudaFreeHost(simulation->sums));
    CHECK(cudaFreeHost(simulation->table));
    for (cudaEvent_t event : simulation->copied) CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(simulation->stream));
    delete simulation;
}
