"""The eighth look: sounds for a loader whose workers start anew, and so import this file without JAX."""

from __future__ import annotations

import numpy as np
from harness import size
from scipy.signal import fftconvolve
from torch.utils.data import Dataset


class Echoes(Dataset):
    """Sounds as they are heard in rooms."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.sounds = random.standard_normal((64, size(16_384, 256)), dtype=np.float32)
        fading = np.exp(-np.arange(size(8192, 64)) / size(2000, 20))
        self.rooms = random.standard_normal((16, len(fading))) * fading

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> np.ndarray:
        sound, room = self.sounds[index % 64], self.rooms[index % 16]
        heard = fftconvolve(sound, room)[: len(sound)]
        return (heard / np.abs(heard).max()).astype(np.float32)
