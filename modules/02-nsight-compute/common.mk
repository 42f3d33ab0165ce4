# What the Makefiles of this module share; each sets PROGRAMS first.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
ROOT := $(abspath $(HERE)../..)
# nvcc from PATH, else from the wheels in the project's environment.
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(firstword $(wildcard \
          $(VIRTUAL_ENV)/lib/python3*/site-packages/nvidia/cu*/bin/nvcc \
          $(ROOT)/.venv/lib/python3*/site-packages/nvidia/cu*/bin/nvcc)),nvcc)
NCU ?= ncu

# The first GPU of this machine; without one, that of the course's recordings (H200).
CAPABILITY := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -cd 0-9)
ARCH ?= sm_$(or $(CAPABILITY),90)

# -lineinfo lets the profiler name the line of the source that an instruction comes from.
NVCCFLAGS ?= -O3 -std=c++17 -lineinfo --extended-lambda
INCLUDES := -I. -I$(HERE) -I$(ROOT)/captures/programs/ncu_kernels
# The wheels keep their libraries in lib, where their nvcc does not look by itself.
WHEEL_LIB := $(wildcard $(dir $(NVCC))../lib/libcudart_static.a)
LINKFLAGS := $(if $(WHEEL_LIB),-L$(dir $(WHEEL_LIB)))

.PHONY: all run counters clean
all: $(PROGRAMS)

$(PROGRAMS): %: %.cu Makefile $(wildcard *.cuh $(HERE)*.cuh $(HERE)common.mk)
	$(NVCC) $(NVCCFLAGS) -arch=$(ARCH) $(INCLUDES) $(LINKFLAGS) -o $@ $<

clean:
	rm -f $(PROGRAMS)
