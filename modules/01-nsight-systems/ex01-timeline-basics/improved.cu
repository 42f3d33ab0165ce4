// The simulation with a host that runs ahead of the device.
//
// Build and run: make run      Record: make profile      Compare with baseline.cu
#include "particles.cuh"

// TODO(nsys_ex01.improved): keep the device at work from step to step. Below is the baseline: correct,
// slow. The contract: particles.cuh, top.
struct Simulation {
    int particles;
    float* table;  // on the host
    float* device_table;
    float* position;
    float* velocity;
    Sum* sum;
};

Simulation* create_simulation(int particles, int) {
    auto* simulation = new Simulation{particles, new float[kTable], nullptr, nullptr, nullptr, nullptr};
    const size_t bytes = sizeof(float) * particles;
    CHECK(cudaMalloc(&simulation->device_table, sizeof(float) * kTable));
    CHECK(cudaMalloc(&simulation->position, bytes));
    CHECK(cudaMalloc(&simulation->velocity, bytes));
    CHECK(cudaMalloc(&simulation->sum, sizeof(Sum)));
    CHECK(cudaMemset(simulation->position, 0, bytes));
    CHECK(cudaMemset(simulation->velocity, 0, bytes));
    return simulation;
}

static void move(const Simulation& simulation) {
    Range range("move");
    const int blocks = blocks_for(simulation.particles);
    kick<<<blocks, kThreads>>>(simulation.velocity, simulation.position, simulation.device_table,
                               simulation.particles);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    drift<<<blocks, kThreads>>>(simulation.position, simulation.velocity, simulation.particles);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

static Sum measure(const Simulation& simulation) {
    Range range("measure");
    const int blocks = blocks_for(simulation.particles);
    float* each = nullptr;
    CHECK(cudaMalloc(&each, sizeof(float) * simulation.particles));
    CHECK(cudaMemset(simulation.sum, 0, sizeof(Sum)));
    energy<<<blocks, kThreads>>>(each, simulation.position, simulation.velocity,
                                 simulation.particles);
    CHECK(cudaGetLastError());
    total<<<blocks, kThreads>>>(simulation.sum, each, simulation.particles);
    CHECK(cudaGetLastError());
    Sum sum = 0;
    CHECK(cudaMemcpy(&sum, simulation.sum, sizeof(Sum), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(each));
    return sum;
}

void run_simulation(Simulation& simulation, int steps) {
    for (int i = 0; i < steps; ++i) {
        Range range("step");
        prepare_step(i, simulation.table);
        CHECK(cudaMemcpy(simulation.device_table, simulation.table, sizeof(float) * kTable,
                         cudaMemcpyHostToDevice));
        move(simulation);
        const Sum sum = measure(simulation);
        log_energy(i, &sum);
    }
}

void destroy_simulation(Simulation* simulation) {
    CHECK(cudaFree(simulation->sum));
    CHECK(cudaFree(simulation->velocity));
    CHECK(cudaFree(simulation->position));
    CHECK(cudaFree(simulation->device_table));
    delete[] simulation->table;
    delete simulation;
}
