// The pipeline as a first version is often written: correct, and one thing at a time.
#include "pipeline.cuh"

struct Pipeline {
    int elements;
    int iterations;
    std::vector<float> host_input;
    std::vector<float> host_output;
    float* device_a;
    float* device_b;
};

Pipeline* create_pipeline(int elements, int iterations) {
    auto* pipeline = new Pipeline{elements, iterations, std::vector<float>(elements),
                                  std::vector<float>(elements), nullptr, nullptr};
    CHECK(cudaMalloc(&pipeline->device_a, sizeof(float) * elements));
    CHECK(cudaMalloc(&pipeline->device_b, sizeof(float) * elements));
    return pipeline;
}

void run_pipeline(Pipeline& pipeline, int batches) {
    const int elements = pipeline.elements;
    const int blocks = blocks_for(elements);
    const size_t bytes = sizeof(float) * elements;
    for (int i = 0; i < batches; ++i) {
        Range range("batch");
        load_batch(i, pipeline.host_input.data(), elements);
        CHECK(cudaMemcpy(pipeline.device_a, pipeline.host_input.data(), bytes,
                         cudaMemcpyHostToDevice));
        normalise<<<blocks, kThreads>>>(pipeline.device_a, pipeline.device_b, elements);
        CHECK(cudaGetLastError());
        infer<<<blocks, kThreads>>>(pipeline.device_b, pipeline.device_a, elements,
                                    pipeline.iterations);
        CHECK(cudaGetLastError());
        postprocess<<<blocks, kThreads>>>(pipeline.device_a, pipeline.device_b, elements);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(pipeline.host_output.data(), pipeline.device_b, bytes,
                         cudaMemcpyDeviceToHost));
        consume_batch(i, pipeline.host_output.data(), elements);
    }
}

void destroy_pipeline(Pipeline* pipeline) {
    CHECK(cudaFree(pipeline->device_a));
    CHECK(cudaFree(pipeline->device_b));
    delete pipeline;
}
