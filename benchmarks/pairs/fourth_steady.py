"""The fourth look: healthy programs on torch and libraries around it; models of random weights."""

from __future__ import annotations

import torch
import torchvision
from fourth_torch import _labels
from harness import Loop, size
from third_torch import HALF, _images, _loader, _trained
from torch.utils.data import Dataset
from with_torch import DEVICE
from with_transformers import _adamw, _tokens


def _llama(layers: int, hidden: int) -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=8_000,
        hidden_size=size(hidden, 32),
        intermediate_size=size(3 * hidden, 64),
        num_hidden_layers=size(layers, 1),
        num_attention_heads=size(hidden // 64, 2),
        num_key_value_heads=size(hidden // 64, 2),
        max_position_embeddings=512,
        use_cache=False,
    )
    return LlamaForCausalLM(config).to(DEVICE, HALF)


def steady_llama(fixed: bool) -> Loop:
    model, tokens = _llama(8, 1536), _tokens(32, 512)
    optimizer = _adamw(model)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_whisper(fixed: bool) -> Loop:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=size(768, 32),
        encoder_layers=size(8, 1),
        encoder_attention_heads=size(12, 2),
        encoder_ffn_dim=size(3072, 64),
        max_source_positions=size(1500, 20),
    )
    model = WhisperEncoder(config).to(DEVICE, HALF).eval()
    sounds = torch.randn(size(32, 1), 80, size(3000, 40), device=DEVICE, dtype=HALF)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(sounds)
            yield

    return loop


def _seen(model: torch.nn.Module, images: torch.Tensor) -> Loop:
    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(images)
            yield

    return loop


def steady_fcn(fixed: bool) -> Loop:
    made = torchvision.models.segmentation.fcn_resnet101(
        weights=None, weights_backbone=None, num_classes=21
    )
    return _seen(made.to(DEVICE, HALF).eval(), _images(32, 384).to(DEVICE))


class _Ready(Dataset):
    """Pictures that cost next to nothing."""

    def __init__(self) -> None:
        side = size(224, 64)
        self.pictures = [torch.randn(3, side, side).to(HALF) for _ in range(16)]

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pictures[index % 16], index % 10


def steady_loader_resnet(fixed: bool) -> Loop:
    batches = iter(_loader(_Ready(), 128, 8))
    model = torchvision.models.resnet152(num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(steps: int):
        for _ in range(steps):
            images, labels = next(batches)
            images = images.to(DEVICE, non_blocking=True)
            _trained(model, optimizer, images, labels.to(DEVICE, non_blocking=True))
            yield

    return loop


def steady_gcn(fixed: bool) -> Loop:
    from torch_geometric.nn import GCN

    nodes, width = size(400_000, 20), size(256, 8)
    model = GCN(width, width, 4, width, cached=True).to(DEVICE).eval()
    features = torch.randn(nodes, width, device=DEVICE)
    edges = torch.randint(nodes, (2, size(3_000_000, 60)), device=DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(features, edges)
            yield

    return loop


def steady_fabric_vit(fixed: bool) -> Loop:
    from with_lightning import _fabric

    fabric = _fabric()
    network = torchvision.models.vit_b_16(num_classes=10)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    side = 224
    images = torch.randn(size(160, 1), 3, side, side, device=DEVICE, dtype=HALF)
    labels = _labels(images)

    def loop(steps: int):
        for _ in range(steps):
            output = model(images)
            fabric.backward(torch.nn.functional.cross_entropy(output.float(), labels))
            optimizer.step()
            optimizer.zero_grad()
            yield

    return loop


def steady_spectra_torchaudio(fixed: bool) -> Loop:
    import torchaudio

    spectrum = torchaudio.transforms.MelSpectrogram(16_000, n_fft=1024, n_mels=80).to(DEVICE)
    sounds = torch.randn(size(256, 2), size(320_000, 4_000), device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            spectrum(sounds).log1p()
            yield

    return loop
