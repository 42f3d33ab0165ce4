// CAUGHT_BY: test_no_access_is_unordered
// SAYS: nothing orders the copy in (cudaMemcpyAsync)
//
// Three streams by kind of work; the kernels do not wait for the copy in.
#include "pipeline.cuh"

constexpr int kSlots = 4;

struct Slot {
    float* host_input;
    float* host_output;
    float* device_a;
    float* device_b;
    cudaEvent_t arrived;
    cudaEvent_t computed;
    cudaEvent_t done;
};

struct Pipeline {
    int elements;
    int iterations;
    cudaStream_t in;
    cudaStream_t compute;
    cudaStream_t out;
    Slot slots[kSlots];
};

Pipeline* create_pipeline(int elements, int iterations) {
    auto* pipeline = new Pipeline{elements, iterations};
    const size_t bytes = sizeof(float) * elements;
    for (cudaStream_t* stream : {&pipeline->in, &pipeline->compute, &pipeline->out}) {
        CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
    for (Slot& slot : pipeline->slots) {
        CHECK(cudaMallocHost(&slot.host_input, bytes));
        CHECK(cudaMallocHost(&slot.host_output, bytes));
        CHECK(cudaMalloc(&slot.device_a, bytes));
        CHECK(cudaMalloc(&slot.device_b, bytes));
        for (cudaEvent_t* event : {&slot.arrived, &slot.computed, &slot.done}) {
            CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
        }
    }
    return pipeline;
}

void destroy_pipeline(Pipeline* pipeline) {
    for (Slot& slot : pipeline->slots) {
        CHECK(cudaFreeHost(slot.host_input));
        CHECK(cudaFreeHost(slot.host_output));
        CHECK(cudaFree(slot.device_a));
        CHECK(cudaFree(slot.device_b));
        for (cudaEvent_t event : {slot.arrived, slot.computed, slot.done}) {
            CHECK(cudaEventDestroy(event));
        }
    }
    for (cudaStream_t stream : {pipeline->in, pipeline->compute, pipeline->out}) {
        CHECK(cudaStreamDestroy(stream));
    }
    delete pipeline;
}

static void issue_batch(const Pipeline& pipeline, Slot& slot) {
    const int elements = pipeline.elements;
    const int blocks = blocks_for(elements);
    const size_t bytes = sizeof(float) * elements;
    cudaStream_t compute = pipeline.compute;
    CHECK(cudaMemcpyAsync(slot.device_a, slot.host_input, bytes, cudaMemcpyHostToDevice,
                          pipeline.in));
    CHECK(cudaEventRecord(slot.arrived, pipeline.in));
    normalise<<<blocks, kThreads, 0, compute>>>(slot.device_a, slot.device_b, elements);
    infer<<<blocks, kThreads, 0, compute>>>(slot.device_b, slot.device_a, elements,
                                            pipeline.iterations);
    postprocess<<<blocks, kThreads, 0, compute>>>(slot.device_a, slot.device_b, elements);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(slot.computed, compute));
    CHECK(cudaStreamWaitEvent(pipeline.out, slot.computed, 0));
    CHECK(cudaMemcpyAsync(slot.host_output, slot.device_b, bytes, cudaMemcpyDeviceToHost,
                          pipeline.out));
    CHECK(cudaEventRecord(slot.done, pipeline.out));
}

void run_pipeline(Pipeline& pipeline, int batches) {
    for (int i = 0; i < batches + kSlots; ++i) {
        Slot& slot = pipeline.slots[i % kSlots];
        const int finished = i - kSlots;
        if (finished >= 0 && finished < batches) {
            CHECK(cudaEventSynchronize(slot.done));
            consume_batch(finished, slot.host_output, pipeline.elements);
        }
        if (i < batches) {
            load_batch(i, slot.host_input, pipeline.elements);
            issue_batch(pipeline, slot);
        }
    }
}
