"""Instruments for checks of CUDA sources on a machine without a GPU.

toolchain.py compiles a source and links it to runtime.cpp, a recording stand-in for the CUDA
runtime; recording.py runs the program; schedule.py judges the record of a pipeline's host code,
simulation.py says when it would run.
compiled.py compiles a source to PTX, and the room ptx runs its kernels on the CPU, counting. runs.py does all of it
for a check, and tells what went wrong.
"""
