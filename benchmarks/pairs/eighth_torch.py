"""The eighth look: programs on torch and libraries around it; models of random weights."""

# Long because it is a list of programs that were recorded as they stand.
from __future__ import annotations

import time

import numpy as np
import torch
import torchvision
from harness import Loop, has_gpu, size
from third_torch import HALF, _images, _loader, _trained
from torch.utils.data import Dataset
from with_torch import DEVICE, _graphed
from with_transformers import VOCABULARY, _adamw, _tokens


def _labels(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.long, device=DEVICE)


# -- results that are waited for ------------------------------------------------------------------


class _Molecules(torch.nn.Module):
    """GIN, with a sum for each graph behind each layer."""

    def __init__(self, width: int, layers: int) -> None:
        from torch_geometric.nn import GINConv

        super().__init__()
        self.layers = torch.nn.ModuleList(
            GINConv(
                torch.nn.Sequential(
                    torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width)
                )
            )
            for _ in range(layers)
        )

    def forward(self, x, edges, batch, graphs: int | None) -> torch.Tensor:
        from torch_geometric.nn import global_add_pool

        sums = []
        for layer in self.layers:
            x = layer(x, edges).relu()
            sums.append(global_add_pool(x, batch, graphs))
        return torch.stack(sums).sum(0)


def pools_unsized_geometric(fixed: bool) -> Loop:
    """Who does not say how many graphs there are has the host wait for the largest number of one."""
    graphs, nodes, width = size(4000, 3), 40, size(128, 8)
    random = np.random.default_rng(0)
    first = np.repeat(np.arange(graphs) * nodes, 4 * nodes)
    ends = first + random.integers(nodes, size=(2, len(first)))
    edges = torch.from_numpy(ends).to(DEVICE)
    batch = torch.arange(graphs, device=DEVICE).repeat_interleave(nodes)
    features = torch.randn(graphs * nodes, width, device=DEVICE)
    model = _Molecules(width, size(8, 2)).to(DEVICE).eval()

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(features, edges, batch, graphs if fixed else None)
            yield

    return loop


def _filters(count: int, side: int, factor) -> Loop:
    """Kalman filters, all at once: what is believed moves on, and is put right by what is seen."""
    turn = torch.linalg.qr(torch.randn(side, side, device=DEVICE))[0] * 0.95
    seen = torch.randn(side, side, device=DEVICE) / side**0.5
    noise = torch.eye(side, device=DEVICE)
    told = torch.randn(count, side, 1, device=DEVICE)
    state = [torch.zeros(count, side, 1, device=DEVICE), noise.expand(count, side, side).clone()]

    def moment(mean: torch.Tensor, spread: torch.Tensor) -> list[torch.Tensor]:
        mean, spread = turn @ mean, turn @ spread @ turn.T + noise
        across = seen @ spread
        lower = factor(across @ seen.T + noise)
        gain = torch.linalg.solve_triangular(lower, across, upper=False)
        error = torch.linalg.solve_triangular(lower, told - seen @ mean, upper=False)
        return [mean + gain.mT @ error, spread - gain.mT @ gain]

    @torch.no_grad()
    def loop(steps: int):
        """A step is ten moments."""
        for _ in range(steps):
            for _ in range(size(10, 2)):
                state[:] = moment(*state)
            yield

    return loop


def factors_checked_torch(fixed: bool) -> Loop:
    """cholesky() waits to see whether each matrix could be factored; cholesky_ex() does not."""
    unchecked = lambda matrix: torch.linalg.cholesky_ex(matrix)[0]  # noqa: E731
    return _filters(size(512, 2), size(32, 4), unchecked if fixed else torch.linalg.cholesky)


# -- copies and memory ----------------------------------------------------------------------------


def _llama(layers: int, hidden: int) -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=size(hidden, 32),
        num_hidden_layers=size(layers, 1),
        num_attention_heads=size(hidden // 128, 2),
        intermediate_size=size(2 * hidden, 64),
        max_position_embeddings=2048,
    )
    return LlamaModel(config).to(DEVICE, HALF)


def prefixes_kept_llama(fixed: bool) -> Loop:
    """Keys and values of each batch of prompts go to pinned memory on the stream that computes, or stay."""
    model, tokens = _llama(8, 2048).eval(), _tokens(8, 1024)
    with torch.no_grad():
        first = model(input_ids=tokens, use_cache=True).past_key_values
    kept = [
        torch.empty_like(part, device="cpu", pin_memory=has_gpu())
        for layer in first.layers
        for part in (layer.keys, layer.values)
    ]

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            made = model(input_ids=tokens, use_cache=True).past_key_values
            parts = [part for layer in made.layers for part in (layer.keys, layer.values)]
            if not fixed:
                for own, part in zip(kept, parts, strict=True):
                    own.copy_(part, non_blocking=True)
            yield

    return loop


def buffers_registered_torch(fixed: bool) -> Loop:
    """A buffer of the host is registered with the driver for each batch that it sends, or once for all."""
    width = size(2048, 16)
    rows = torch.randn(size(8192, 4), width)
    model = torchvision.ops.MLP(width, [2 * width] * 12 + [16]).to(DEVICE, HALF).eval()
    bytes_count = rows.numel() * rows.element_size()

    def register() -> None:
        if has_gpu() and int(torch.cuda.cudart().cudaHostRegister(rows.data_ptr(), bytes_count, 0)):
            raise RuntimeError("the buffer could not be registered")

    def unregister() -> None:
        if has_gpu():
            torch.cuda.cudart().cudaHostUnregister(rows.data_ptr())

    there = torch.empty_like(rows, device=DEVICE)
    if fixed:
        register()

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            if not fixed:
                register()
            there.copy_(rows, non_blocking=True)
            model(there.to(HALF)).argmax(1).cpu()
            if not fixed:
                unregister()
            yield

    return loop


# -- launches -------------------------------------------------------------------------------------


def graph_or_not_convtasnet(fixed: bool) -> Loop:
    """Voices of one short sound at a time are parted."""
    from torchaudio.models import ConvTasNet

    model = ConvTasNet(msk_num_stacks=size(3, 1)).to(DEVICE).eval()
    sound = torch.randn(1, 1, size(8000, 800), device=DEVICE)

    @torch.no_grad()
    def parted() -> None:
        model(sound)

    run = _graphed(parted, fixed)

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


# -- the program's own code -----------------------------------------------------------------------


def errors_counted_torchaudio(fixed: bool) -> Loop:
    """The likeliest letters are read in both versions; then the faulty one counts the errors of 16 texts."""
    from torchaudio.functional import edit_distance
    from torchaudio.models import Wav2Letter

    model = Wav2Letter(size(40, 5), "mfcc", 128).to(DEVICE, HALF).eval()
    sounds = torch.randn(size(128, 2), 128, size(1000, 60), device=DEVICE, dtype=HALF)
    truth = torch.randint(5, (len(sounds), 40)).tolist()

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            letters = model(sounds).argmax(1).to(torch.uint8).cpu()
            if not fixed:
                for text, wanted in zip(letters[:16, ::10].tolist(), truth, strict=False):
                    edit_distance(text, wanted)
            yield

    return loop


# -- input ----------------------------------------------------------------------------------------


class _Drawn(Dataset):
    """Pictures whose objects are polygons; where each object is gets drawn when it is asked for."""

    def __init__(self) -> None:
        self.side = size(224, 64)
        random = np.random.default_rng(0)
        self.pictures = torch.randn(16, 3, self.side, self.side, dtype=HALF)
        self.objects = random.integers(self.side, size=(16, size(12, 3), 30, 2)).tolist()

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        from PIL import Image, ImageDraw

        drawn = Image.new("L", (self.side, self.side))
        draw = ImageDraw.Draw(drawn)
        for number, places in enumerate(self.objects[index % 16]):
            draw.polygon([tuple(place) for place in places], fill=number % 10)
        return self.pictures[index % 16], torch.from_numpy(np.array(drawn, dtype=np.int64))


def masks_drawn_accelerate(fixed: bool) -> Loop:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    accelerator = Accelerator(
        cpu=not has_gpu(), dataloader_config=DataLoaderConfiguration(non_blocking=True)
    )
    network = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=10
    )
    network = network.to(HALF)
    loader = _loader(_Drawn(), 48, 8 if fixed else 0)
    model, optimizer, loader = accelerator.prepare(network, _adamw(network.to(DEVICE)), loader)
    batches = iter(loader)

    def loop(steps: int):
        for _ in range(steps):
            pictures, drawn = next(batches)
            scores = model(pictures)["out"].float()
            accelerator.backward(torch.nn.functional.cross_entropy(scores, drawn))
            optimizer.step()
            optimizer.zero_grad()
            yield

    return loop


# -- compiling ------------------------------------------------------------------------------------


class _Sometimes(torch.nn.Module):
    """A block that only a share of the rows goes through: a number of Python, or a tensor."""

    def __init__(self, width: int, fixed: bool) -> None:
        super().__init__()
        self.wide = torch.nn.Linear(width, 2 * width)
        self.narrow = torch.nn.Linear(2 * width, width)
        self.share: float | torch.Tensor = torch.tensor(0.9, device=DEVICE) if fixed else 0.9

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = torch.rand(len(x), 1, device=x.device) < self.share
        change = self.narrow(torch.nn.functional.gelu(self.wide(x)))
        return x + torch.where(chosen, change / self.share, 0.0).to(x.dtype)


def share_compiled_torch(fixed: bool) -> Loop:
    """A step is an epoch of a compiled model, with a share of its own."""
    torch._dynamo.config.cache_size_limit = 1000
    torch._dynamo.config.recompile_limit = 1000
    width = size(2048, 16)
    model = torch.nn.Sequential(*(_Sometimes(width, fixed) for _ in range(3))).to(DEVICE, HALF)
    inputs = torch.randn(size(8192, 4), width, device=DEVICE, dtype=HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    run = torch.compile(model, dynamic=False)
    # Another process finds on disk what one has compiled: each begins elsewhere.
    share = [0.9 - time.time_ns() // 1_000_000 % 1_000_000 * 1e-7]

    def loop(steps: int):
        for _ in range(steps):
            share[0] *= 0.999
            for block in model:
                if isinstance(block.share, torch.Tensor):
                    block.share.fill_(share[0])
                else:
                    block.share = share[0]
            for _ in range(size(40, 1)):
                run(inputs).float().square().mean().backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            yield

    return loop


# -- healthy --------------------------------------------------------------------------------------


def steady_filters_torch(fixed: bool) -> Loop:
    unchecked = lambda matrix: torch.linalg.cholesky_ex(matrix)[0]  # noqa: E731
    return _filters(size(65_536, 2), size(32, 4), unchecked)


def steady_lora_peft(fixed: bool) -> Loop:
    from peft import LoraConfig, get_peft_model

    base, tokens = _llama(8, 2048), _tokens(16, 1024)
    model = get_peft_model(base, LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))
    optimizer = _adamw(model)

    def loop(steps: int):
        for _ in range(steps):
            out = model(input_ids=tokens, use_cache=False).last_hidden_state
            out.float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_averaged_timm(fixed: bool) -> Loop:
    """timm keeps a running average of the weights behind each step."""
    import timm
    from timm.utils import ModelEmaV3

    model = timm.create_model("convnextv2_tiny", num_classes=10).to(DEVICE, HALF)
    images = _images(256, 224).to(DEVICE)
    optimizer, average = _adamw(model), ModelEmaV3(model, decay=0.999)

    def loop(steps: int):
        for _ in range(steps):
            _trained(model, optimizer, images, _labels(len(images)))
            average.update(model)
            yield

    return loop


def steady_scores_torchmetrics(fixed: bool) -> Loop:
    """Scores of large batches are counted on the device, and read by nobody."""
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

    scores = MetricCollection(
        {
            "accuracy": MulticlassAccuracy(10, average="micro", validate_args=False),
            "confusion": MulticlassConfusionMatrix(10, validate_args=False),
        }
    ).to(DEVICE)
    model = torchvision.models.resnet101(num_classes=10).to(DEVICE, HALF).eval()
    images, labels = _images(384, 224).to(DEVICE), _labels(size(384, 2))

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            scores.update(model(images).float(), labels)
            yield

    return loop


def steady_accumulated_accelerate(fixed: bool) -> Loop:
    """Each step is two large parts; what the backward pass needs is computed again."""
    from accelerate import Accelerator
    from transformers import GPTNeoXConfig, GPTNeoXModel

    accelerator = Accelerator(cpu=not has_gpu(), gradient_accumulation_steps=2)
    config = GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=size(2048, 32),
        num_hidden_layers=size(8, 1),
        num_attention_heads=size(16, 2),
        intermediate_size=size(8192, 64),
        use_cache=False,
    )
    network = GPTNeoXModel(config).to(DEVICE, HALF)
    network.gradient_checkpointing_enable()
    model, optimizer = accelerator.prepare(network, _adamw(network))
    model.train()
    tokens = _tokens(16, 1024)

    def loop(steps: int):
        for _ in range(steps):
            for _ in range(2):
                with accelerator.accumulate(model):
                    out = model(input_ids=tokens).last_hidden_state
                    accelerator.backward(out.float().square().mean())
                    optimizer.step()
                    optimizer.zero_grad()
            yield

    return loop
