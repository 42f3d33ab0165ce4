"""The seventh look: pairs on transformers, accelerate, torchvision, torchmetrics, Lightning and torch; models of random weights."""

# Long because it is a list of programs that were recorded as they stand.
from __future__ import annotations

import os
import random
import string
import time

import numpy as np
import torch
import torchvision
from harness import Loop, has_gpu, size
from third_torch import HALF, _images, _loader, _trained
from torch.utils.data import Dataset
from with_torch import DEVICE
from with_transformers import VOCABULARY, _adamw, _tokens


def _classes(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.long, device=DEVICE)


# -- memory ---------------------------------------------------------------------------------------


def _segformer() -> torch.nn.Module:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(num_labels=20, hidden_dropout_prob=0.0, classifier_dropout_prob=0.0)
    return SegformerForSemanticSegmentation(config).to(DEVICE, HALF)


def tiles_emptied_segformer(fixed: bool) -> Loop:
    """Tiles of a large picture; accelerate empties the cache behind each batch of them."""
    from accelerate.utils.memory import clear_device_cache

    model = _segformer().eval()
    tiles = _images(32, 512).to(DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(pixel_values=tiles)
            if not fixed:
                clear_device_cache()
            yield

    return loop


# -- results that are waited for ------------------------------------------------------------------


def _pictures_made(width: int) -> torch.nn.Module:
    """The generator of DCGAN: 100 numbers make a picture of 64 x 64."""
    parts: list[torch.nn.Module] = []
    channels = [100, 8 * width, 4 * width, 2 * width, width]
    for number in range(4):
        stride, padding = (1, 0) if number == 0 else (2, 1)
        made = torch.nn.ConvTranspose2d(
            channels[number], channels[number + 1], 4, stride, padding, bias=False
        )
        parts += [made, torch.nn.BatchNorm2d(channels[number + 1]), torch.nn.ReLU(True)]
    return torch.nn.Sequential(
        *parts, torch.nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), torch.nn.Tanh()
    )


def _pictures_judged(width: int) -> torch.nn.Module:
    """The discriminator of DCGAN."""
    parts: list[torch.nn.Module] = [
        torch.nn.Conv2d(3, width, 4, 2, 1, bias=False),
        torch.nn.LeakyReLU(0.2, True),
    ]
    for wide in (width, 2 * width, 4 * width):
        parts += [
            torch.nn.Conv2d(wide, 2 * wide, 4, 2, 1, bias=False),
            torch.nn.BatchNorm2d(2 * wide),
            torch.nn.LeakyReLU(0.2, True),
        ]
    return torch.nn.Sequential(*parts, torch.nn.Conv2d(8 * width, 1, 4, 1, 0, bias=False))


def _gan(batch: int, keep) -> Loop:
    """Training of DCGAN; `keep` takes the five scores of each step, each when it is made."""
    from with_lightning import _fabric

    fabric = _fabric()
    width = size(64, 4)
    made, judged = _pictures_made(width), _pictures_judged(width)
    maker, to_make = fabric.setup(made, torch.optim.Adam(made.parameters(), 2e-4, (0.5, 0.999)))
    judge, to_judge = fabric.setup(
        judged, torch.optim.Adam(judged.parameters(), 2e-4, (0.5, 0.999))
    )
    batch = size(batch, 2)
    real = torch.randn(batch, 3, 64, 64, device=fabric.device, dtype=HALF)
    lost = torch.nn.functional.binary_cross_entropy_with_logits

    def scored(pictures: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        out = judge(pictures).view(-1).float()
        keep(out.detach().sigmoid().mean())
        return lost(out, target)

    def loop(steps: int):
        yes, no = torch.ones(batch, device=real.device), torch.zeros(batch, device=real.device)
        for _ in range(steps):
            to_judge.zero_grad()
            loss = scored(real, yes)
            fabric.backward(loss)
            keep(loss.detach())
            pictures = maker(torch.randn(batch, 100, 1, 1, device=real.device, dtype=HALF))
            fabric.backward(scored(pictures.detach(), no))
            to_judge.step()
            to_make.zero_grad()
            loss = scored(pictures, yes)
            fabric.backward(loss)
            keep(loss.detach())
            to_make.step()
            yield

    return loop


def gan_scores_read_fabric(fixed: bool) -> Loop:
    kept: list = []

    def keep(score: torch.Tensor) -> None:
        kept[:] = [*kept[-100:], score if fixed else score.item()]

    return _gan(256, keep)


def courant_read_torch(fixed: bool) -> Loop:
    """Something is carried along by a flow; the fastest part of it limits the step in time."""
    side = size(2048, 16)
    height, across, down = (torch.randn(side, side, device=DEVICE) for _ in range(3))

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            fastest = torch.maximum(across.amax(), down.amax())
            duration = 0.4 / (fastest if fixed else fastest.item())
            change = torch.roll(height, 1, 1).sub_(height).mul_(across)
            change.addcmul_(torch.roll(height, 1, 0).sub_(height), down)
            height.add_(change.mul_(duration)).clamp_(-4, 4)
            yield

    return loop


# -- copies ---------------------------------------------------------------------------------------


def _qwen2(layers: int, hidden: int) -> torch.nn.Module:
    from transformers import Qwen2Config, Qwen2Model

    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=size(hidden, 32),
        num_hidden_layers=size(layers, 1),
        num_attention_heads=size(hidden // 64, 2),
        num_key_value_heads=size(hidden // 256, 1),
        intermediate_size=size(4 * hidden, 64),
        max_position_embeddings=2048,
        use_cache=False,
    )
    return Qwen2Model(config).to(DEVICE, HALF)


def masks_sent_qwen2(fixed: bool) -> Loop:
    """Several texts share a row; the mask that keeps them apart was made on the host."""
    model, tokens = _qwen2(8, 1024).eval(), _tokens(16, 1024)
    batch, length = tokens.shape
    part = torch.arange(length) * 4 // length
    seen = (part[:, None] == part[None, :]).tril()
    mask = torch.full((batch, 1, length, length), -1e9).masked_fill_(seen, 0.0)
    there = mask.to(DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            own = there if fixed else mask.to(DEVICE)
            model(input_ids=tokens, attention_mask=own.to(HALF))
            yield

    return loop


def _raft(batch: int) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    model = torchvision.models.optical_flow.raft_small(weights=None).to(DEVICE).eval()
    high, wide = size(384, 128), size(512, 128)
    first, second = (torch.randn(size(batch, 1), 3, high, wide, device=DEVICE) for _ in range(2))
    return model, first, second


def flows_fetched_raft(fixed: bool) -> Loop:
    """RAFT makes its flow better and better; the faulty version brings each of the flows to the host."""
    model, first, second = _raft(6)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            flows = model(first, second, num_flow_updates=size(12, 2))
            _kept = flows if fixed else [flow.cpu() for flow in flows]
            yield

    return loop


def samples_sent_resnext(fixed: bool) -> Loop:
    """Pictures are sent one by one, as a list of samples comes from a dataset, and joined on the device."""
    model = torchvision.models.resnext50_32x4d(num_classes=10).to(DEVICE, HALF).eval()
    samples = list(_images(64, 224, torch.float32).unbind())
    samples = [sample.clone() for sample in samples]
    there = [sample.to(DEVICE) for sample in samples]

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            own = there if fixed else [sample.to(DEVICE) for sample in samples]
            model(torch.stack(own).to(HALF))
            yield

    return loop


# -- launches -------------------------------------------------------------------------------------


def _encoder(layers: int, width: int, heads: int) -> torch.nn.Module:
    layer = torch.nn.TransformerEncoderLayer(
        size(width, 16), size(heads, 2), size(4 * width, 32), 0.0, batch_first=True
    )
    model = torch.nn.TransformerEncoder(layer, size(layers, 1), enable_nested_tensor=False)
    return model.to(DEVICE, HALF)


def training_captured_torch(fixed: bool) -> Loop:
    """A small encoder of tables is trained; the fixed version replays a CUDA graph of the whole step."""
    model = _encoder(6, 256, 4)
    rows = torch.randn(size(128, 2), size(32, 4), size(256, 16), device=DEVICE, dtype=HALF)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def forth_and_back() -> None:
        model(rows).float().square().mean().backward()
        optimizer.step()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        forth_and_back()

    run = step
    if fixed and has_gpu():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            forth_and_back()
        run = graph.replay

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


def _turned(body: tuple[torch.Tensor, ...], spin: tuple[torch.Tensor, ...]):
    """How bodies are turned a moment later: a product of quaternions, kept at length one."""
    w, x, y, z = body
    a, b, c = spin
    half = 0.0005
    made = (
        w - half * (a * x + b * y + c * z),
        x + half * (a * w + c * y - b * z),
        y + half * (b * w + a * z - c * x),
        z + half * (c * w + b * x - a * y),
    )
    length = torch.sqrt(made[0] ** 2 + made[1] ** 2 + made[2] ** 2 + made[3] ** 2)
    return tuple(part / length for part in made)


def bodies_turned_torch(fixed: bool) -> Loop:
    """Ten moments of a simulation make a step."""
    count = size(8192, 8)
    start = tuple(torch.randn(count, device=DEVICE) for _ in range(4))
    spin = tuple(torch.randn(count, device=DEVICE) for _ in range(3))
    turned = torch.compile(_turned, dynamic=False) if fixed else _turned

    @torch.no_grad()
    def loop(steps: int):
        body = start
        for _ in range(steps):
            for _ in range(10):
                body = turned(body, spin)
            yield

    return loop


# -- the program's own code -----------------------------------------------------------------------


def overlap_on_host_torchmetrics(fixed: bool) -> Loop:
    """Labels of all pixels are read in both versions; then the faulty one scores a hundredth of them on the host."""
    from torchmetrics.classification import MulticlassJaccardIndex

    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=20
    )
    model = model.to(DEVICE, HALF).eval()
    images = _images(64, 320).to(DEVICE)
    truth = torch.randint(20, (len(images), *images.shape[2:]))
    score = MulticlassJaccardIndex(20)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            found = model(images)["out"].argmax(1).to(torch.uint8).cpu()
            if not fixed:
                score.update(found[:, ::10, ::10], truth[:, ::10, ::10])
            yield

    return loop


class _Detector(torch.nn.Module):
    """The short form of DETR: a ResNet, an encoder and decoder, and queries."""

    def __init__(self, queries: int, width: int) -> None:
        super().__init__()
        made = torchvision.models.resnet50(weights=None)
        self.seen = torch.nn.Sequential(*list(made.children())[:-2])
        self.narrow = torch.nn.Conv2d(2048, width, 1)
        self.attend = torch.nn.Transformer(width, 4, 4, 4, 4 * width, 0.0, batch_first=True)
        self.queries = torch.nn.Parameter(torch.rand(queries, width))
        self.box = torch.nn.Linear(width, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        places = self.narrow(self.seen(images)).flatten(2).transpose(1, 2)
        asked = self.queries.expand(len(images), -1, -1)
        return self.box(self.attend(places, asked)).sigmoid()


def boxes_matched_scipy(fixed: bool) -> Loop:
    """How well boxes fit is read in both versions; then the faulty one matches them one to one."""
    from scipy.optimize import linear_sum_assignment

    model = _Detector(size(200, 10), size(256, 16)).to(DEVICE, HALF).eval()
    images = _images(48, 384).to(DEVICE)
    truth = torch.rand(len(images), size(32, 4), 4, device=DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            costs = torch.cdist(model(images).float(), truth, p=1).cpu().numpy()
            if not fixed:
                for cost in costs:
                    linear_sum_assignment(cost)
            yield

    return loop


def _wav2vec2(layers: int, hidden: int) -> torch.nn.Module:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=size(hidden, 32),
        num_hidden_layers=size(layers, 1),
        num_attention_heads=size(hidden // 64, 2),
        intermediate_size=size(4 * hidden, 64),
        conv_dim=[size(512, 32)] * 7,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        mask_time_prob=0.0,
        num_conv_pos_embedding_groups=size(16, 2),
    )
    return Wav2Vec2ForCTC(config).to(DEVICE, HALF)


def _sounds(batch: int, samples: int) -> torch.Tensor:
    return torch.randn(size(batch, 1), size(samples, 2000), device=DEVICE, dtype=HALF)


def _best(frames: list[list[float]]) -> str:
    """The likeliest letters: of each frame the two best beginnings and the two best letters are followed."""
    beginnings = {"": 0.0}
    for scores in frames:
        order = sorted(range(len(scores)), key=scores.__getitem__)[-2:]
        longer: dict[str, float] = {}
        for text, score in beginnings.items():
            for letter in order:
                mark = chr(97 + letter)
                new = text if text.endswith(mark) else text + mark
                longer[new] = max(longer.get(new, -1e30), score + scores[letter])
        beginnings = dict(sorted(longer.items(), key=lambda item: -item[1])[:2])
    return max(beginnings, key=beginnings.__getitem__)


def letters_followed_wav2vec2(fixed: bool) -> Loop:
    """Scores of all frames are read in both versions; then the faulty one looks for the likeliest letters of half of them."""
    model, sounds = _wav2vec2(8, 768).eval(), _sounds(32, 64_000)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            scores = model(sounds).logits.float().log_softmax(-1).cpu()
            if not fixed:
                for frames in scores[::2].tolist():
                    _best(frames)
            yield

    return loop


# -- input ----------------------------------------------------------------------------------------


class _Texts(Dataset):
    """Texts of words that nobody knows."""

    def __init__(self) -> None:
        chance = random.Random(0)
        words = [
            "".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 11)))
            for _ in range(4000)
        ]
        self.texts = [" ".join(chance.choices(words, k=size(120, 8))) for _ in range(256)]

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> str:
        return self.texts[index % 256]


def _tokenizer():
    """A WordPiece tokenizer that knows all letters and pairs of letters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = string.ascii_lowercase
    pairs = [a + b for a in letters for b in letters]
    begin = ["[PAD]", "[UNK]", *letters, *pairs]
    known = [*begin, *(f"##{piece}" for piece in [*letters, *pairs])]
    made = Tokenizer(
        models.WordPiece({piece: n for n, piece in enumerate(known)}, unk_token="[UNK]")  # noqa: S106
    )
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]")  # noqa: S106


def texts_tokenized_distilbert(fixed: bool) -> Loop:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = _tokenizer()

    def collate(texts: list[str]) -> torch.Tensor:
        told = tokenizer(
            texts, padding="max_length", truncation=True, max_length=256, return_tensors="pt"
        )
        return told["input_ids"]

    batches = iter(_loader(_Texts(), 64, 8 if fixed else 0, collate))
    config = DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=size(768, 32),
        hidden_dim=size(3072, 64),
        n_layers=size(6, 1),
        n_heads=size(12, 2),
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
    )
    model = DistilBertForSequenceClassification(config).to(DEVICE, HALF)
    optimizer = _adamw(model)

    def loop(steps: int):
        for _ in range(steps):
            tokens = next(batches).to(DEVICE, non_blocking=True)
            model(input_ids=tokens, labels=_classes(len(tokens))).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


class _Clouds(Dataset):
    """Clouds of points; of each, points are chosen that lie far apart."""

    def __init__(self) -> None:
        shape = (16, size(1024, 32), 3)
        self.clouds = np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        cloud = self.clouds[index % 16]
        chosen = [index % len(cloud)]
        away = np.full(len(cloud), np.inf, dtype=np.float32)
        for _ in range(size(24, 3)):
            np.minimum(away, np.square(cloud - cloud[chosen[-1]]).sum(axis=1), out=away)
            chosen.append(int(away.argmax()))
        return torch.from_numpy(cloud - cloud[chosen].mean(axis=0)).T.contiguous()


def _pointwise(width: int) -> torch.nn.Module:
    parts: list[torch.nn.Module] = []
    for before, after in ((3, width // 4), (width // 4, width), (width, width), (width, width)):
        parts += [
            torch.nn.Conv1d(before, after, 1),
            torch.nn.BatchNorm1d(after),
            torch.nn.ReLU(True),
        ]
    parts += [torch.nn.AdaptiveMaxPool1d(1), torch.nn.Flatten(), torch.nn.Linear(width, 10)]
    return torch.nn.Sequential(*parts).to(DEVICE, HALF)


def clouds_thinned_torch(fixed: bool) -> Loop:
    batches = iter(_loader(_Clouds(), 48, 12 if fixed else 0))
    model = _pointwise(size(2048, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(steps: int):
        for _ in range(steps):
            clouds = next(batches).to(DEVICE, HALF, non_blocking=True)
            _trained(model, optimizer, clouds, _classes(len(clouds)))
            yield

    return loop


class _Fetched(Dataset):
    """Pictures of a store that takes its time to answer."""

    def __init__(self, answers_after_s: float) -> None:
        side = size(224, 64)
        self.answers_after_s = answers_after_s
        self.pictures = torch.randn(16, 3, side, side, dtype=HALF)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(self.answers_after_s)
        return self.pictures[index % 16], index % 10


def _fetching(workers: int, batch: int) -> Loop:
    from with_lightning import _fabric

    fabric = _fabric()
    loader = _loader(_Fetched(0.0008), batch, workers)
    batches = iter(fabric.setup_dataloaders(loader, use_distributed_sampler=False))
    network = torchvision.models.wide_resnet50_2(num_classes=10)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))

    def loop(steps: int):
        for _ in range(steps):
            images, labels = next(batches)
            fabric.backward(torch.nn.functional.cross_entropy(model(images).float(), labels))
            optimizer.step()
            optimizer.zero_grad()
            yield

    return loop


def pictures_fetched_fabric(fixed: bool) -> Loop:
    return _fetching(8 if fixed else 1, 32)


# -- compiling ------------------------------------------------------------------------------------


def rate_compiled_torch(fixed: bool) -> Loop:
    """A step is an epoch: the learning rate changes, and a compiled optimizer works with it."""
    torch._dynamo.config.cache_size_limit = 1000
    torch._dynamo.config.recompile_limit = 1000
    width = size(4096, 16)
    model = torchvision.ops.MLP(width, [width] * 4).to(DEVICE, HALF)
    inputs = torch.randn(size(8192, 4), width, device=DEVICE, dtype=HALF)
    rate = torch.tensor(1e-3, device=DEVICE) if fixed else 1e-3
    optimizer = torch.optim.Adam(
        model.parameters(), lr=rate, foreach=has_gpu(), capturable=has_gpu()
    )
    slower = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9999)

    @torch.compile(fullgraph=False, dynamic=False)
    def update() -> None:
        optimizer.step()

    def loop(steps: int):
        for _ in range(steps):
            for _ in range(size(40, 1)):
                model(inputs).float().square().mean().backward()
                update()
                optimizer.zero_grad(set_to_none=True)
            slower.step()
            yield

    return loop


# -- healthy --------------------------------------------------------------------------------------


def steady_segformer(fixed: bool) -> Loop:
    model = _segformer()
    optimizer = _adamw(model)
    images = _images(32, 512).to(DEVICE)
    labels = torch.zeros(len(images), *images.shape[2:], dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            logits = model(pixel_values=images).logits
            wide = torch.nn.functional.interpolate(logits, labels.shape[1:], mode="bilinear")
            torch.nn.functional.cross_entropy(wide, labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_qwen2(fixed: bool) -> Loop:
    model, tokens = _qwen2(12, 1536), _tokens(16, 1024)
    optimizer = _adamw(model)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens).last_hidden_state.float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_raft(fixed: bool) -> Loop:
    model, first, second = _raft(24)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(first, second, num_flow_updates=size(12, 2))
            yield

    return loop


def steady_gan_fabric(fixed: bool) -> Loop:
    return _gan(2048, lambda score: None)


def steady_wav2vec2(fixed: bool) -> Loop:
    model, sounds = _wav2vec2(12, 768), _sounds(32, 80_000)
    optimizer = _adamw(model)

    def loop(steps: int):
        for _ in range(steps):
            model(sounds).logits.float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_encoder_compiled(fixed: bool) -> Loop:
    model = _encoder(6, 1024, 16)
    run = torch.compile(model, dynamic=False)
    optimizer = _adamw(model)
    rows = torch.randn(size(32, 2), size(512, 4), size(1024, 16), device=DEVICE, dtype=HALF)

    def loop(steps: int):
        for _ in range(steps):
            run(rows).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_fetching_fabric(fixed: bool) -> Loop:
    return _fetching(10, 128)
