// The start of the loop: one product in fp32, as it is first written down, and with its threads turned.
//
// Both kernels, the checks and the timing stand in sgemm.cuh, together with the contract of a step. Your
// own steps go into optimization_loop_student.cu.
//
// Build and run: make run      Counters: make counters
#include "sgemm.cuh"

const std::vector<Step> kSteps = {{"naive", naive}, {"coalesced", coalesced}};
