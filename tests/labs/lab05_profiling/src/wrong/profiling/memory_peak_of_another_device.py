from __future__ import annotations

CAUGHT_BY = "test_nested_memory_on_two_devices"
SAYS = "what device 0 gets does not count"

_RightMeter = _CudaMeter


class _CudaMeter(_RightMeter):
    def _note_peak(self):
        import torch

        peak = torch.cuda.max_memory_allocated(self._device)
        for meter in self._open:
            meter._most = max(meter._most, peak)
