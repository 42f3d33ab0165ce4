"""The third look: pairs on transformers, torchvision, timm, Lightning and torch; models of random weights."""

# Long because it is a list of programs that were recorded as they stand.
from __future__ import annotations

import itertools
import json

import numpy as np
import timm
import torch
import torchvision
from harness import Loop, has_gpu, size
from torch.utils.data import DataLoader, Dataset, RandomSampler
from with_torch import DEVICE, _graphed
from with_transformers import _adamw, _bert, _bert_step, _gpt2, _tokens

HALF = torch.bfloat16


def _images(batch: int, side: int, dtype=HALF) -> torch.Tensor:
    return torch.randn(size(batch, 2), 3, size(side, 64), size(side, 64), dtype=dtype)


def _loader(dataset, batch: int, workers: int, collate=None) -> DataLoader:
    return DataLoader(
        dataset,
        batch_size=size(batch, 2),
        num_workers=size(workers, min(workers, 1)),
        sampler=RandomSampler(dataset, True, 10_000_000),
        pin_memory=has_gpu(),
        collate_fn=collate,
        persistent_workers=workers > 0,
    )


def _trained(model, optimizer, images, labels) -> None:
    torch.nn.functional.cross_entropy(model(images).float(), labels).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


# -- results that are waited for ------------------------------------------------------------------


def predictions_read_regnet(fixed: bool) -> Loop:
    model = torchvision.models.regnet_y_1_6gf(num_classes=10).to(DEVICE, HALF).eval()
    images = _images(96, 224).to(DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        kept = []
        for _ in range(steps):
            chosen = model(images).argmax(1)
            kept.append(chosen if fixed else chosen.cpu())
            yield

    return loop


def mask_checked_bert(fixed: bool) -> Loop:
    model, tokens = _bert(8, 768).eval(), _tokens(24, 256)
    mask = torch.ones_like(tokens)
    found = []

    def check(*_) -> None:
        padded = (mask == 0).any()
        if fixed:
            found[:] = [padded]
        elif padded:
            raise ValueError("no padding was expected")

    for layer in model.bert.encoder.layer:
        layer.register_forward_pre_hook(check)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens)
            yield

    return loop


# -- copies ---------------------------------------------------------------------------------------


def images_sent_timm(fixed: bool) -> Loop:
    model = timm.create_model("resnet26", num_classes=10).to(DEVICE, HALF).eval()
    batches = [_images(128, 224, torch.float32) for _ in range(3)]
    if fixed:
        batches = [batch.to(DEVICE) for batch in batches]

    @torch.no_grad()
    def loop(steps: int):
        for number in range(steps):
            model(batches[number % 3].to(DEVICE).to(HALF))
            yield

    return loop


def states_kept_bert(fixed: bool) -> Loop:
    model, tokens = _bert(6, 768).eval(), _tokens(64, 256)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            states = model(input_ids=tokens, output_hidden_states=True).hidden_states
            _kept = [state if fixed else state.cpu() for state in states]
            yield

    return loop


# -- launches -------------------------------------------------------------------------------------


def graph_or_not_efficientnet(fixed: bool) -> Loop:
    model = torchvision.models.efficientnet_b0(num_classes=10).to(DEVICE, HALF).eval()
    images = _images(1, 224).to(DEVICE)

    @torch.no_grad()
    def forward() -> torch.Tensor:
        return model(images)

    run = _graphed(forward, fixed)

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


def graph_or_not_vit(fixed: bool) -> Loop:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=384, num_hidden_layers=10, num_attention_heads=6, intermediate_size=1536)  # fmt: skip
    model = ViTModel(config).to(DEVICE, HALF).eval()
    images = torch.randn(2, 3, 224, 224, device=DEVICE, dtype=HALF)

    @torch.no_grad()
    def forward() -> torch.Tensor:
        return model(pixel_values=images).last_hidden_state

    run = _graphed(forward, fixed)

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


# -- the program's own code -----------------------------------------------------------------------


def _fabric():
    from with_lightning import _fabric as made

    return made()


def history_smoothed_fabric(fixed: bool) -> Loop:
    fabric = _fabric()
    network = torchvision.models.resnet34(num_classes=10)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    images = _images(64, 176).to(DEVICE)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)
    history = [float(n % 17) for n in range(size(250_000, 100))]

    def loop(steps: int):
        for _ in range(steps):
            output = model(images)
            fabric.backward(torch.nn.functional.cross_entropy(output.float(), labels))
            optimizer.step()
            optimizer.zero_grad()
            if not fixed:
                smooth = 0.0
                for value in history:
                    smooth = 0.99 * smooth + 0.01 * value
                json.dumps({"loss": smooth})
            yield

    return loop


# -- allocation -----------------------------------------------------------------------------------


def cache_emptied_by_layer_gpt2(fixed: bool) -> Loop:
    model, tokens = _gpt2(6, 1024).eval(), _tokens(16, 512)
    if not fixed and has_gpu():
        for block in model.transformer.h:
            block.register_forward_hook(lambda *_: torch.cuda.empty_cache())

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens)
            yield

    return loop


# -- compiled again -------------------------------------------------------------------------------


def batches_compiled_torchvision(fixed: bool) -> Loop:
    torch._dynamo.config.cache_size_limit = 1000
    torch._dynamo.config.recompile_limit = 1000
    block = torchvision.ops.MLP(size(512, 8), [size(1024, 8), size(512, 8)]).to(DEVICE).eval()
    run = torch.compile(block, dynamic=False)
    counts = itertools.count(17)
    inputs = torch.randn(4096, size(512, 8), device=DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            run(inputs if fixed else inputs[: next(counts)])
            yield

    return loop


# -- input ----------------------------------------------------------------------------------------


class _Lines(Dataset):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> str:
        return " ".join(str((index * 7919 + n * n) % 1009) for n in range(size(250, 10)))


def _cut(lines: list[str]) -> torch.Tensor:
    """Pieces of each word, as a tokenizer written in Python finds them."""
    rows = []
    for line in lines:
        pieces = []
        for word in line.split():
            pieces += [hash(word[at : at + 2]) % 8_000 for at in range(0, len(word), 2)]
        rows.append((pieces + [0] * 256)[: size(256, 8)])
    return torch.tensor(rows)


def lines_cut_bert(fixed: bool) -> Loop:
    batches = iter(_loader(_Lines(), 64, 12 if fixed else 0, _cut))
    model = _bert(4, 512)
    optimizer = _adamw(model)

    def loop(steps: int):
        for _ in range(steps):
            tokens = next(batches).to(DEVICE, non_blocking=True)
            _bert_step(
                model, optimizer, tokens, torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)
            )
            yield

    return loop


class _Recordings(Dataset):
    """Recordings brought to another rate when they are asked for."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random = np.random.default_rng(index)
        spectrum = np.fft.rfft(random.standard_normal(size(60_000, 400)))
        sound = np.fft.irfft(spectrum[: len(spectrum) * 2 // 3], size(40_000, 300))
        side = size(192, 16)
        return torch.from_numpy(sound[: side * side].astype(np.float32)).view(
            1, side, side
        ), index % 10


def recordings_resampled_fabric(fixed: bool) -> Loop:
    fabric = _fabric()
    loader = _loader(_Recordings(), 48, 12 if fixed else 0)
    batches = iter(fabric.setup_dataloaders(loader, use_distributed_sampler=False))
    network = torchvision.models.resnet18(num_classes=10)
    network.conv1 = torch.nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))

    def loop(steps: int):
        for _ in range(steps):
            sounds, labels = next(batches)
            output = model(sounds.to(HALF))
            fabric.backward(torch.nn.functional.cross_entropy(output.float(), labels))
            optimizer.step()
            optimizer.zero_grad()
            yield

    return loop


class _Drawn(Dataset):
    """Pictures changed at random, as timm does in training."""

    def __init__(self) -> None:
        from PIL import Image

        random = np.random.default_rng(0)
        self.pictures = [
            Image.fromarray(random.integers(0, 255, (256, 256, 3), dtype=np.uint8))
            for _ in range(8)
        ]
        self.change = timm.data.create_transform(
            (3, size(192, 64), size(192, 64)), is_training=True, auto_augment="rand-m9-mstd0.5"
        )

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.change(self.pictures[index % 8]), index % 10


def pictures_changed_timm(fixed: bool) -> Loop:
    batches = iter(_loader(_Drawn(), 48, 14 if fixed else 1))
    model = timm.create_model("resnet26", num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(steps: int):
        for _ in range(steps):
            images, labels = next(batches)
            images = images.to(DEVICE, HALF, non_blocking=True)
            _trained(model, optimizer, images, labels.to(DEVICE, non_blocking=True))
            yield

    return loop


# -- streams --------------------------------------------------------------------------------------


def products_on_streams_torch(fixed: bool) -> Loop:
    import cupy

    made = [cupy.cuda.Stream(non_blocking=fixed) for _ in range(3)]
    streams = [torch.cuda.ExternalStream(stream.ptr) for stream in made]
    sides = [torch.randn(size(128, 8), size(16_384, 8), device=DEVICE) for _ in streams]
    outputs = [torch.empty(size(128, 8), size(128, 8), device=DEVICE) for _ in streams]
    total = torch.zeros(1, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            for side, output, stream in zip(sides, outputs, streams, strict=True):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(500_000)
                    torch.mul(side[:, :128], 2.0, out=output)
                total.mul_(1.0)
            yield
        assert made

    return loop


# -- nothing wrong --------------------------------------------------------------------------------


def steady_bert(fixed: bool) -> Loop:
    model, tokens = _bert(8, 1024), _tokens(128, 256)
    optimizer = _adamw(model)
    labels = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            _bert_step(model, optimizer, tokens, labels)
            yield

    return loop


def steady_reading_gpt2(fixed: bool) -> Loop:
    model, tokens = _gpt2(8, 1536).eval(), _tokens(64, 512)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens).logits[:, -1].argmax(-1)
            yield

    return loop


def steady_convnext(fixed: bool) -> Loop:
    model = torchvision.models.convnext_base(num_classes=10).to(DEVICE, HALF).eval()
    images = _images(256, 224).to(DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(images)
            yield

    return loop


def steady_swin_timm(fixed: bool) -> Loop:
    model = timm.create_model("swin_small_patch4_window7_224", num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = torch.randn(size(128, 2), 3, 224, 224, device=DEVICE, dtype=HALF)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            _trained(model, optimizer, images, labels)
            yield

    return loop


def steady_compiled_torch(fixed: bool) -> Loop:
    width = size(4096, 16)
    block = torchvision.ops.MLP(width, [4 * width, width]).to(DEVICE, HALF).eval()
    run = torch.compile(block)
    inputs = torch.randn(size(16_384, 8), width, device=DEVICE, dtype=HALF)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            run(inputs)
            yield

    return loop


def steady_fabric(fixed: bool) -> Loop:
    fabric = _fabric()
    network = torchvision.models.resnet101(num_classes=10)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    images = _images(256, 224).to(DEVICE)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            output = model(images)
            fabric.backward(torch.nn.functional.cross_entropy(output.float(), labels))
            optimizer.step()
            optimizer.zero_grad()
            yield

    return loop


def two_streams_of_size(fixed: bool) -> Loop:
    streams = [torch.cuda.Stream(), torch.cuda.Stream()] if has_gpu() else []
    side = size(6144, 16)
    matrices = [torch.randn(side, side, device=DEVICE, dtype=HALF) for _ in range(2)]
    outputs = [torch.empty_like(matrix) for matrix in matrices]

    def loop(steps: int):
        for _ in range(steps):
            for matrix, output, stream in zip(matrices, outputs, streams, strict=True):
                with torch.cuda.stream(stream):
                    for _ in range(4):
                        torch.mm(matrix, matrix, out=output)
            yield

    return loop
