"""The fifth look: pairs on torch and libraries around it; models of random weights."""

from __future__ import annotations

import json
import re

import numpy as np
import torch
import torchvision
from harness import Loop, size
from third_torch import HALF, _images, _loader, _trained
from torch.utils.data import Dataset
from with_torch import DEVICE
from with_transformers import _tokens


def _t5(layers: int, width: int) -> torch.nn.Module:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=8_000,
        d_model=size(width, 32),
        d_kv=64,
        d_ff=size(4 * width, 64),
        num_layers=size(layers, 1),
        num_heads=size(width // 64, 2),
        dropout_rate=0.0,
    )
    return T5EncoderModel(config).to(DEVICE, HALF).eval()


# -- results that are waited for ------------------------------------------------------------------


def error_read_torchmetrics(fixed: bool) -> Loop:
    from torchmetrics.regression import MeanSquaredError

    model = torchvision.models.resnet18(num_classes=10).to(DEVICE, HALF).eval()
    images = _images(256, 224).to(DEVICE)
    wanted = torch.zeros(len(images), 10, device=DEVICE)
    error = MeanSquaredError().to(DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        history = []
        for _ in range(steps):
            value = error(model(images).float(), wanted)
            history.append(value if fixed else value.item())
            yield

    return loop


def residual_checked_torch(fixed: bool) -> Loop:
    side = size(6144, 32)
    matrix = torch.randn(side, side, device=DEVICE)
    matrix = matrix @ matrix.T / side + torch.eye(side, device=DEVICE)
    wanted = torch.randn(side, device=DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        """A step is 20 iterations of conjugate gradients."""
        for _ in range(steps):
            found = torch.zeros_like(wanted)
            rest = wanted.clone()
            way, square = rest.clone(), rest @ rest
            for _ in range(size(20, 2)):
                moved = matrix @ way
                length = square / (way @ moved)
                found += length * way
                rest -= length * moved
                new = rest @ rest
                if not fixed and new.item() < 1e-30:
                    break
                way = rest + new / square * way
                square = new
            yield

    return loop


def words_chosen_t5(fixed: bool) -> Loop:
    """What is masked out is chosen by x[mask], whose size the host has to know; or multiplied by 0."""
    model, tokens = _t5(12, 512), _tokens(64, 256)
    mask = tokens % 8 > 0
    found = []

    def note(_module, _inputs, output) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        if fixed:
            found.append((hidden * mask[..., None]).sum(dim=(0, 1)))
        else:
            found.append(hidden[mask].sum(dim=0))

    for name, block in model.named_modules():
        if re.fullmatch(r"encoder\.block\.\d+", name):
            block.register_forward_hook(note)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            found.clear()
            model(input_ids=tokens)
            yield

    return loop


# -- copies ---------------------------------------------------------------------------------------


def spectra_fetched_torchaudio(fixed: bool) -> Loop:
    import torchaudio

    spectrum = torchaudio.transforms.Spectrogram(n_fft=1024, hop_length=256).to(DEVICE)
    sounds = torch.randn(size(64, 2), size(160_000, 4_000), device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            made = spectrum(sounds)
            _kept = made if fixed else made.cpu()
            yield

    return loop


# -- launches -------------------------------------------------------------------------------------


def orbits_one_by_one_torchdiffeq(fixed: bool) -> Loop:
    from torchdiffeq import odeint

    field = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 64)
    ).to(DEVICE)
    starts = torch.randn(size(16, 2), 64, device=DEVICE)
    times = torch.linspace(0, 1, size(9, 3), device=DEVICE)

    def change(_time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return field(state)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            if fixed:
                odeint(change, starts, times, method="rk4")
            else:
                for start in starts:
                    odeint(change, start[None], times, method="rk4")
            yield

    return loop


def tables_one_by_one_torch(fixed: bool) -> Loop:
    """The features of a recommender are looked up table by table, or in one table that holds all."""
    tables, rows, width = size(96, 3), 10_000, 64
    apart = [torch.nn.EmbeddingBag(rows, width, mode="sum").to(DEVICE) for _ in range(tables)]
    whole = torch.nn.EmbeddingBag(rows * tables, width, mode="sum").to(DEVICE)
    chosen = torch.randint(rows, (tables, size(512, 4), 4), device=DEVICE)
    shifted = chosen + torch.arange(tables, device=DEVICE)[:, None, None] * rows
    flat = shifted.reshape(-1, 4)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            if fixed:
                whole(flat)
            else:
                torch.stack([table(part) for table, part in zip(apart, chosen, strict=True)])
            yield

    return loop


# -- the program's own code -----------------------------------------------------------------------


def captions_cleaned_t5(fixed: bool) -> Loop:
    model, tokens = _t5(8, 512), _tokens(64, 256)
    pattern = re.compile(r"[^a-z0-9 ]+")
    captions = [f"Picture no. {n}: a {n % 17}-year-old tree, seen at {n}h!" for n in range(8_000)]

    def cleaned() -> list[str]:
        return [" ".join(pattern.sub(" ", line.lower()).split()) for line in captions]

    once = cleaned()

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            _texts = once if fixed else cleaned()
            model(input_ids=tokens)
            yield

    return loop


def history_written_densenet(fixed: bool) -> Loop:
    model = torchvision.models.densenet121(num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = _images(32, 192).to(DEVICE)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)
    history = [n / 7 for n in range(size(30_000, 30))]

    def loop(steps: int):
        for _ in range(steps):
            _trained(model, optimizer, images, labels)
            if not fixed:
                json.dumps(history)
            yield

    return loop


# -- memory ---------------------------------------------------------------------------------------


def cache_emptied_conformer(fixed: bool) -> Loop:
    model, sounds, lengths = _conformer(6, 32, 400)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(sounds, lengths)
            if not fixed:
                torch.cuda.empty_cache()
            yield

    return loop


def _conformer(layers: int, batch: int, frames: int):
    import torchaudio

    width = size(256, 32)
    model = torchaudio.models.Conformer(
        input_dim=width,
        num_heads=4,
        ffn_dim=4 * width,
        num_layers=size(layers, 1),
        depthwise_conv_kernel_size=31,
    )
    sounds = torch.randn(size(batch, 2), size(frames, 40), width, device=DEVICE, dtype=HALF)
    lengths = torch.full((len(sounds),), sounds.shape[1], device=DEVICE)
    return model.to(DEVICE, HALF).eval(), sounds, lengths


# -- input ----------------------------------------------------------------------------------------


class _Rows(Dataset):
    """Rows of a table of text, parsed when they are asked for."""

    def __init__(self) -> None:
        made = np.random.default_rng(0).random((64, size(512, 8)))
        self.lines = [";".join(f"{value:.6f}" for value in row) for row in made]

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(word) for word in self.lines[index % 64].split(";")])


def rows_parsed_mlp(fixed: bool) -> Loop:
    batches = iter(_loader(_Rows(), 256, 8 if fixed else 0))
    width = size(2048, 16)
    model = torchvision.ops.MLP(size(512, 8), [width] * 6).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def loop(steps: int):
        for _ in range(steps):
            rows = next(batches).to(DEVICE, non_blocking=True)
            model(rows).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


class _Archives(Dataset):
    """Pictures that numpy unpacks from a compressed file."""

    def __init__(self) -> None:
        import io

        side = size(256, 64)
        made = np.random.default_rng(0).integers(0, 32, (16, 3, side, side), dtype=np.uint8)
        self.files = []
        for picture in made:
            file = io.BytesIO()
            np.savez_compressed(file, picture=picture)
            self.files.append(file)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index % 16]
        file.seek(0)
        return torch.from_numpy(np.load(file)["picture"]), index % 10


def archives_unpacked_resnet(fixed: bool) -> Loop:
    batches = iter(_loader(_Archives(), 64, 8 if fixed else 0))
    model = torchvision.models.resnet50(num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(steps: int):
        for _ in range(steps):
            images, labels = next(batches)
            images = images.to(DEVICE, non_blocking=True).to(HALF) / 32
            _trained(model, optimizer, images, labels.to(DEVICE, non_blocking=True))
            yield

    return loop


# -- healthy --------------------------------------------------------------------------------------


def steady_conformer_torchaudio(fixed: bool) -> Loop:
    model, sounds, lengths = _conformer(12, 96, 1_600)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(sounds, lengths)
            yield

    return loop


def steady_t5(fixed: bool) -> Loop:
    model, tokens = _t5(12, 1024), _tokens(128, 512)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens)
            yield

    return loop


def steady_densenet(fixed: bool) -> Loop:
    model = torchvision.models.densenet161(num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = _images(96, 224).to(DEVICE)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            _trained(model, optimizer, images, labels)
            yield

    return loop


def steady_covariances_gpytorch(fixed: bool) -> Loop:
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).to(DEVICE)
    points = torch.randn(size(12_000, 20), 32, device=DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            covariances = kernel(points, points).to_dense()
            covariances @ covariances
            yield

    return loop


def steady_flow_torchdiffeq(fixed: bool) -> Loop:
    from torchdiffeq import odeint

    width = size(4096, 16)
    field = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width)
    ).to(DEVICE)
    start = torch.randn(size(8192, 2), width, device=DEVICE)
    times = torch.linspace(0, 1, 3, device=DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            odeint(lambda _time, state: field(state), start, times, method="rk4")
            yield

    return loop
