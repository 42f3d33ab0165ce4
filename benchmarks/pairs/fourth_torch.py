"""The fourth look: pairs on torch and libraries around it; models of random weights."""

from __future__ import annotations

import numpy as np
import timm
import torch
import torchvision
from harness import Loop, has_gpu, size
from third_torch import HALF, _images, _loader, _trained
from torch.utils.data import Dataset
from with_torch import DEVICE, _graphed
from with_transformers import _tokens


def _labels(images: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(images), dtype=torch.long, device=DEVICE)


# -- results that are waited for ------------------------------------------------------------------


def activations_logged_vit(fixed: bool) -> Loop:
    model = timm.create_model("vit_base_patch16_224", num_classes=10).to(DEVICE, HALF).eval()
    images = torch.randn(size(24, 1), 3, 224, 224, device=DEVICE, dtype=HALF)
    log: list = []

    def note(_module, _inputs, output) -> None:
        spread = output.std()
        log.append(spread if fixed else spread.item())

    for block in model.blocks:
        for part in (block.norm1, block.attn, block.norm2, block.mlp):
            part.register_forward_hook(note)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            log.clear()
            model(images)
            yield

    return loop


# -- copies ---------------------------------------------------------------------------------------


def masks_kept_fcn(fixed: bool) -> Loop:
    made = torchvision.models.segmentation.fcn_resnet50(
        weights=None, weights_backbone=None, num_classes=21
    )
    model = made.to(DEVICE, HALF).eval()
    images = _images(16, 320).to(DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            scores = model(images)["out"]
            _kept = scores if fixed else scores.cpu()
            yield

    return loop


def weights_offloaded_gpt2(fixed: bool) -> Loop:
    from accelerate import cpu_offload
    from with_transformers import _gpt2

    model = _gpt2(12, 1024).eval()
    if not fixed and has_gpu():
        cpu_offload(model.cpu(), execution_device=torch.device("cuda:0"))
    tokens = _tokens(32, 256)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens)
            yield

    return loop


# -- launches -------------------------------------------------------------------------------------


def pictures_prepared_one_by_one(fixed: bool) -> Loop:
    from torchvision.transforms import v2

    prepare = v2.Compose(
        [
            v2.ToDtype(torch.float32, scale=True),
            v2.CenterCrop(size(192, 16)),
            v2.RandomHorizontalFlip(1.0),
            v2.Grayscale(3),
        ]
    )
    side = size(224, 20)
    pictures = torch.randint(255, (size(128, 2), 3, side, side), dtype=torch.uint8, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            if fixed:
                prepare(pictures)
            else:
                torch.stack([prepare(picture) for picture in pictures])
            yield

    return loop


def graph_or_not_gcn(fixed: bool) -> Loop:
    from torch_geometric.nn import GCN

    nodes, width = size(2_000, 20), size(128, 8)
    model = GCN(width, width, 12, cached=True).to(DEVICE).eval()
    features = torch.randn(nodes, width, device=DEVICE)
    edges = torch.randint(nodes, (2, size(10_000, 60)), device=DEVICE)

    @torch.no_grad()
    def forward() -> torch.Tensor:
        return model(features, edges)

    forward()  # it keeps the normalized edges
    run = _graphed(forward, fixed)

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


# -- the program's own code -----------------------------------------------------------------------


def predictions_saved_resnet(fixed: bool) -> Loop:
    import io

    from PIL import Image

    model = torchvision.models.resnet50(num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = _images(64, 224).to(DEVICE)
    labels = _labels(images)
    shown = np.random.default_rng(0).integers(0, 255, (224, 448, 3), dtype=np.uint8)

    def loop(steps: int):
        for _ in range(steps):
            _trained(model, optimizer, images, labels)
            if not fixed:
                Image.fromarray(shown).save(io.BytesIO(), "PNG")
            yield

    return loop


def metrics_logged_fabric(fixed: bool) -> Loop:
    import tempfile

    from lightning.fabric.loggers import CSVLogger
    from with_lightning import _fabric

    fabric = _fabric()
    network = torchvision.models.resnet18(num_classes=10)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    images = _images(128, 192).to(DEVICE)
    labels = _labels(images)
    logger = CSVLogger(tempfile.mkdtemp(), flush_logs_every_n_steps=1)
    rates = {f"group_{n}/rate": 1e-3 * n for n in range(size(6_000, 10))}
    if not fixed:
        logger.log_metrics(rates)

    def loop(steps: int):
        for _ in range(steps):
            output = model(images)
            fabric.backward(torch.nn.functional.cross_entropy(output.float(), labels))
            optimizer.step()
            optimizer.zero_grad()
            if not fixed:
                logger.log_metrics(rates)
            yield

    return loop


# -- allocation -----------------------------------------------------------------------------------


def cache_emptied_training_timm(fixed: bool) -> Loop:
    model = timm.create_model("efficientnet_b0", num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = _images(128, 224).to(DEVICE)
    labels = _labels(images)

    def loop(steps: int):
        for _ in range(steps):
            _trained(model, optimizer, images, labels)
            if not fixed and has_gpu():
                torch.cuda.empty_cache()
            yield

    return loop


# -- input ----------------------------------------------------------------------------------------


class _Sounds(Dataset):
    """Spectra in steps of mel, made when they are asked for."""

    def __init__(self) -> None:
        import torchaudio

        self.spectrum = torchaudio.transforms.MelSpectrogram(16_000, n_fft=512, n_mels=64)

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        sound = torch.randn(size(48_000, 4_000), generator=generator)
        return self.spectrum(sound).log1p()[None], index % 10


def spectra_in_line_torchaudio(fixed: bool) -> Loop:
    batches = iter(_loader(_Sounds(), 48, 12 if fixed else 0))
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = torch.nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    model = model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(steps: int):
        for _ in range(steps):
            spectra, labels = next(batches)
            spectra = spectra.to(DEVICE, non_blocking=True)
            _trained(model, optimizer, spectra, labels.to(DEVICE, non_blocking=True))
            yield

    return loop


class _Molecules(Dataset):
    """Small graphs, made when they are asked for."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int):
        from torch_geometric.data import Data

        generator = torch.Generator().manual_seed(index)
        places = torch.rand(size(40, 6), 3, generator=generator)
        near = (torch.cdist(places, places) < 0.4).nonzero().t().contiguous()
        return Data(x=torch.cat([places, places**2], 1), edge_index=near, y=places[:1, 0])


def molecules_in_line_geometric(fixed: bool) -> Loop:
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GIN, global_add_pool

    workers = size(12 if fixed else 0, 0)
    molecules = _Molecules()
    loader = DataLoader(
        molecules,
        batch_size=size(128, 2),
        num_workers=workers,
        sampler=torch.utils.data.RandomSampler(molecules, True, 10_000_000),
        pin_memory=has_gpu(),
        persistent_workers=workers > 0,
    )
    batches = iter(loader)
    model = GIN(6, size(128, 8), 4, 1).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=has_gpu())
    count = size(128, 2)

    def loop(steps: int):
        for _ in range(steps):
            batch = next(batches).to(DEVICE, non_blocking=True)
            found = global_add_pool(model(batch.x, batch.edge_index), batch.batch, count)
            (found[:, 0] - batch.y).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop
