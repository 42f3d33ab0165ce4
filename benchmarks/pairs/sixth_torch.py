"""The sixth look: pairs on transformers, torchvision, timm, Lightning and torch; models of random weights."""

from __future__ import annotations

import io

import numpy as np
import torch
import torchvision
from harness import Loop, size
from third_torch import HALF, _images, _loader, _trained
from torch.utils.data import Dataset
from with_torch import DEVICE, _graphed
from with_transformers import VOCABULARY, _adamw, _tokens


def _roberta(layers: int, hidden: int, labels: int = 8) -> torch.nn.Module:
    from transformers import RobertaConfig, RobertaForSequenceClassification

    config = RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=size(hidden, 32),
        num_hidden_layers=size(layers, 1),
        num_attention_heads=size(hidden // 64, 2),
        intermediate_size=size(4 * hidden, 64),
        max_position_embeddings=514,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=labels,
    )
    return RobertaForSequenceClassification(config).to(DEVICE, HALF)


def _classes(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.long, device=DEVICE)


def _classified(model, optimizer, tokens, labels) -> None:
    model(input_ids=tokens, labels=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


# -- results that are waited for ------------------------------------------------------------------


def losses_read_roberta(fixed: bool) -> Loop:
    model, tokens = _roberta(8, 768).eval(), _tokens(32, 128)
    labels = _classes(len(tokens))

    @torch.no_grad()
    def loop(steps: int):
        kept = []
        for _ in range(steps):
            loss = model(input_ids=tokens, labels=labels).loss
            kept.append(loss if fixed else loss.item())
            yield

    return loop


# -- copies ---------------------------------------------------------------------------------------


def _clips(batch: int) -> torch.Tensor:
    side = size(112, 16)
    return torch.randn(size(batch, 1), 3, size(16, 4), side, side)


def clips_sent_r3d(fixed: bool) -> Loop:
    model = torchvision.models.video.r3d_18(num_classes=10).to(DEVICE, HALF).eval()
    clips = _clips(24)
    there = clips.to(DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            own = there if fixed else clips.to(DEVICE)
            model(own.to(HALF))
            yield

    return loop


# -- launches -------------------------------------------------------------------------------------


def graph_or_not_mixer(fixed: bool) -> Loop:
    import timm

    model = timm.create_model("mixer_s16_224", num_classes=10).to(DEVICE, HALF).eval()
    images = torch.randn(1, 3, 224, 224, device=DEVICE, dtype=HALF)

    @torch.no_grad()
    def forward() -> torch.Tensor:
        return model(images)

    run = _graphed(forward, fixed)

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


# -- the program's own code -----------------------------------------------------------------------


def answers_ranked_roberta(fixed: bool) -> Loop:
    """What the model says is read in both versions; then the faulty one ranks and counts in Python."""
    model, tokens = _roberta(12, 768, labels=128).eval(), _tokens(64, 256)

    def ranked(scores: list[list[float]]) -> list[tuple[int, float]]:
        best: dict[int, float] = {}
        for row in scores:
            for place, score in sorted(enumerate(row), key=lambda pair: -pair[1])[:64]:
                best[place] = best.get(place, 0.0) + score
        return sorted(best.items(), key=lambda pair: -pair[1])

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            scores = model(input_ids=tokens).logits.float().tolist()
            if not fixed:
                for _ in range(size(8, 1)):
                    ranked(scores)
            yield

    return loop


# -- memory ---------------------------------------------------------------------------------------


def cache_emptied_roberta(fixed: bool) -> Loop:
    model, tokens = _roberta(12, 768), _tokens(48, 256)
    optimizer, labels = _adamw(model), _classes(len(tokens))

    def loop(steps: int):
        for _ in range(steps):
            _classified(model, optimizer, tokens, labels)
            if not fixed:
                torch.cuda.empty_cache()
            yield

    return loop


# -- input ----------------------------------------------------------------------------------------


class _Scans(Dataset):
    """Pictures that scipy rotates when they are asked for."""

    def __init__(self) -> None:
        side = size(192, 64)
        self.scans = np.random.default_rng(0).random((16, side, side), dtype=np.float32)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from scipy import ndimage

        turned = ndimage.rotate(self.scans[index % 16], index % 360, reshape=False, order=1)
        return torch.from_numpy(turned)[None], index % 10


def scans_rotated_timm(fixed: bool) -> Loop:
    import timm

    batches = iter(_loader(_Scans(), 64, 12 if fixed else 0))
    model = timm.create_model("resnet50d", num_classes=10, in_chans=1).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(steps: int):
        for _ in range(steps):
            scans, labels = next(batches)
            scans = scans.to(DEVICE, non_blocking=True).to(HALF)
            _trained(model, optimizer, scans, labels.to(DEVICE, non_blocking=True))
            yield

    return loop


class _Tables(Dataset):
    """Tables of text that pandas reads when they are asked for."""

    def __init__(self) -> None:
        made = np.random.default_rng(0).random((16, size(64, 4), size(32, 4)))
        self.texts = ["\n".join(",".join(f"{v:.5f}" for v in row) for row in one) for one in made]

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        import pandas

        table = pandas.read_csv(io.StringIO(self.texts[index % 16]), header=None)
        return torch.from_numpy(table.to_numpy(np.float32).ravel())


def tables_read_fabric(fixed: bool) -> Loop:
    from with_lightning import _fabric

    fabric = _fabric()
    loader = _loader(_Tables(), 64, 12 if fixed else 0)
    batches = iter(fabric.setup_dataloaders(loader, use_distributed_sampler=False))
    width = size(4096, 16)
    network = torchvision.ops.MLP(size(64, 4) * size(32, 4), [width] * 6)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-4))

    def loop(steps: int):
        for _ in range(steps):
            rows = next(batches)
            fabric.backward(model(rows.to(HALF)).float().square().mean())
            optimizer.step()
            optimizer.zero_grad()
            yield

    return loop


# -- compiling ------------------------------------------------------------------------------------


class _Powers(torch.nn.Module):
    """A series whose number of terms is an attribute: each new value is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.terms = 3
        self.weight = torch.nn.Linear(size(512, 8), size(512, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.weight(x)
        for power in range(1, self.terms):
            made = made + torch.tanh(x * power)
        return made


def terms_compiled_torch(fixed: bool) -> Loop:
    torch._dynamo.config.cache_size_limit = 1000
    torch._dynamo.config.recompile_limit = 1000
    module = _Powers().to(DEVICE)
    run = torch.compile(module, dynamic=False)
    inputs = torch.randn(size(4096, 8), size(512, 8), device=DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            module.terms += 0 if fixed else 1
            run(inputs)
            yield

    return loop


# -- healthy --------------------------------------------------------------------------------------


def steady_roberta(fixed: bool) -> Loop:
    model, tokens = _roberta(12, 1024), _tokens(64, 256)
    optimizer, labels = _adamw(model), _classes(len(tokens))

    def loop(steps: int):
        for _ in range(steps):
            _classified(model, optimizer, tokens, labels)
            yield

    return loop


def steady_mixer_timm(fixed: bool) -> Loop:
    import timm

    model = timm.create_model("mixer_b16_224", num_classes=10).to(DEVICE, HALF).eval()
    images = torch.randn(size(384, 1), 3, 224, 224, device=DEVICE, dtype=HALF)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(images)
            yield

    return loop


def steady_clips_r3d(fixed: bool) -> Loop:
    model = torchvision.models.video.r3d_18(num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clips = _clips(48).to(DEVICE, HALF)
    labels = _classes(len(clips))

    def loop(steps: int):
        for _ in range(steps):
            _trained(model, optimizer, clips, labels)
            yield

    return loop


def steady_fabric_regnet(fixed: bool) -> Loop:
    from with_lightning import _fabric

    fabric = _fabric()
    network = torchvision.models.regnet_y_3_2gf(num_classes=10)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    images = _images(192, 224).to(fabric.device)
    labels = torch.zeros(len(images), dtype=torch.long, device=fabric.device)

    def loop(steps: int):
        for _ in range(steps):
            fabric.backward(torch.nn.functional.cross_entropy(model(images).float(), labels))
            optimizer.step()
            optimizer.zero_grad()
            yield

    return loop


class _Noise(Dataset):
    """Pictures that cost little to make."""

    def __init__(self) -> None:
        side = size(224, 64)
        self.pictures = torch.randn(16, 3, side, side, dtype=HALF)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pictures[index % 16], index % 10


def steady_reader_timm(fixed: bool) -> Loop:
    import timm

    batches = iter(_loader(_Noise(), 192, 8))
    model = timm.create_model("resnet101d", num_classes=10).to(DEVICE, HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(steps: int):
        for _ in range(steps):
            images, labels = next(batches)
            images = images.to(DEVICE, non_blocking=True)
            _trained(model, optimizer, images, labels.to(DEVICE, non_blocking=True))
            yield

    return loop
