"""Instruments for checks of CUDA sources on a machine without a GPU.

toolchain.py compiles a source and links it to runtime.cpp, a recording stand-in for the CUDA
runtime; recording.py runs the program; schedule.py judges the record of a pipeline's host code.
compiled.py compiles a source to PTX and emulator.py runs its kernels on the CPU, counting.
"""
