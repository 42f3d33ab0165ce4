"""The third look: pairs on two GPUs, with DistributedDataParallel and FSDP; models of random weights."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext

import torch
import torchvision
from harness import Loop, has_gpu, size
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from with_transformers import VOCABULARY, _adamw, _bert, _gpt2

RANK = int(os.environ.get("RANK", "0"))
DEVICE = f"cuda:{RANK}" if has_gpu() else "cpu"


def _join() -> None:
    if has_gpu():
        torch.cuda.set_device(RANK)
    distributed.init_process_group("nccl" if has_gpu() else "gloo")


def _shared(model: torch.nn.Module, **more) -> DistributedDataParallel:
    model = model.to(DEVICE)
    return DistributedDataParallel(model, device_ids=[RANK] if has_gpu() else None, **more)


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(VOCABULARY, (size(batch, 2), size(length, 8)), device=DEVICE)


def _language_step(model, optimizer, tokens) -> torch.Tensor:
    output = model(input_ids=tokens, labels=tokens)
    output.loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return output.logits


def gradients_sent_gpt2(fixed: bool) -> Loop:
    _join()
    model = _shared(_gpt2(6, 1536))
    optimizer, tokens = _adamw(model), _tokens(4, 256)

    def loop(steps: int):
        for _ in range(steps):
            with model.no_sync() if fixed else nullcontext():
                _language_step(model, optimizer, tokens)
            yield

    return loop


def one_bucket_vgg(fixed: bool) -> Loop:
    _join()
    model = _shared(torchvision.models.vgg11(num_classes=1000), bucket_cap_mb=4000)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    images = torch.randn(size(16, 2), 3, 224, 224, device=DEVICE)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            with model.no_sync() if fixed else nullcontext():
                torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def logits_gathered_gpt2(fixed: bool) -> Loop:
    _join()
    model = _gpt2(6, 1024).to(DEVICE).eval()
    tokens = _tokens(32, 256)
    shape = (len(tokens), tokens.shape[1], VOCABULARY)
    everyone = torch.empty((2 * shape[0], *shape[1:]), device=DEVICE, dtype=torch.bfloat16)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            logits = model(input_ids=tokens).logits
            if not fixed:
                distributed.all_gather_into_tensor(everyone, logits)
            yield

    return loop


def longer_texts_rank1(fixed: bool) -> Loop:
    _join()
    model = _shared(_gpt2(6, 1024))
    optimizer = _adamw(model)
    tokens = _tokens(32, 256 if fixed or RANK == 0 else 512)

    def loop(steps: int):
        for _ in range(steps):
            _language_step(model, optimizer, tokens)
            yield

    return loop


def slow_texts_rank1(fixed: bool) -> Loop:
    _join()
    model = _shared(_bert(6, 768))
    optimizer, tokens = _adamw(model), _tokens(64, 256)
    labels = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            if RANK == 1 and not fixed:
                until = time.perf_counter() + 0.04  # a reader whose disk is slow
                while time.perf_counter() < until:
                    sum(range(1000))
            model(input_ids=tokens, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def checkpoint_rank0(fixed: bool) -> Loop:
    _join()
    model = _shared(torchvision.models.resnet50(num_classes=10).to(torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = torch.randn(size(64, 2), 3, 192, 192, device=DEVICE, dtype=torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if RANK == 0 and not fixed:
                _saved = {name: value.cpu().clone() for name, value in model.state_dict().items()}
            yield

    return loop


def steady_ddp_gpt2(fixed: bool) -> Loop:
    _join()
    model = _shared(_gpt2(8, 1024))
    optimizer, tokens = _adamw(model), _tokens(64, 512)

    def loop(steps: int):
        for _ in range(steps):
            _language_step(model, optimizer, tokens)
            yield

    return loop


def steady_ddp_convnext(fixed: bool) -> Loop:
    _join()
    model = _shared(torchvision.models.convnext_tiny(num_classes=10).to(torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = torch.randn(size(256, 2), 3, 224, 224, device=DEVICE, dtype=torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_ddp_bert(fixed: bool) -> Loop:
    _join()
    model = _shared(_bert(8, 1024))
    optimizer, tokens = _adamw(model), _tokens(128, 256)
    labels = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_fsdp(fixed: bool) -> Loop:
    from torch.distributed.fsdp import fully_shard

    _join()
    width = size(2048, 32)
    layer = torch.nn.TransformerEncoderLayer(
        width, width // 16, 4 * width, 0.0, batch_first=True, device=DEVICE, dtype=torch.bfloat16
    )
    model = torch.nn.TransformerEncoder(layer, 6)
    for part in model.layers:
        fully_shard(part)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(size(48, 1), size(512, 8), width, device=DEVICE, dtype=torch.bfloat16)

    def loop(steps: int):
        for _ in range(steps):
            model(inputs).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop
