"""Pairs on transformers for the second look; models of random weights."""

from __future__ import annotations

import itertools
import random
import string

import torch
from harness import Loop, has_gpu, size
from with_transformers import DEVICE, VOCABULARY, _adamw, _bert, _bert_step, _gpt2, _tokens


def cache_emptied_decoding_gpt2(fixed: bool) -> Loop:
    model = _gpt2(6, 1024).eval()
    tokens = _tokens(32, 512)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens).logits[:, -1].argmax(-1)
            if not fixed:
                torch.cuda.empty_cache()
            yield

    return loop


def stop_token_read_gpt2(fixed: bool) -> Loop:
    model = _gpt2(4, 2048, size(16_000, 100)).eval()
    tokens = _tokens(48, 256, 100)

    @torch.no_grad()
    def loop(steps: int):
        ended = torch.zeros(len(tokens), dtype=torch.bool, device=DEVICE)
        for _ in range(steps):
            chosen = model(input_ids=tokens).logits[:, -1].argmax(-1)
            for row in range(len(tokens)):
                if fixed:
                    ended[row] |= chosen[row] < 0
                elif chosen[row].item() < 0:
                    ended[row] = True
            yield

    return loop


def moments_offloaded_gpt2(fixed: bool) -> Loop:
    model = _gpt2(8, 1024)
    optimizer, tokens = _adamw(model), _tokens(16, 256)

    def move(where: str) -> None:
        for state in optimizer.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                if name in state:
                    state[name] = state[name].to(where)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens, labels=tokens).loss.backward()
            if not fixed:
                move(DEVICE)
            optimizer.step()
            if not fixed:
                move("cpu")
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def forward_launched_gpt2(fixed: bool) -> Loop:
    from with_torch import _graphed

    model = _gpt2(12, 512).eval()
    tokens = _tokens(1, 32)

    @torch.no_grad()
    def forward() -> torch.Tensor:
        return model(input_ids=tokens).logits

    run = _graphed(forward, fixed)

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


def rewards_in_python_gpt2(fixed: bool) -> Loop:
    import numpy as np

    model = _gpt2(8, 1024).eval()
    tokens = _tokens(32, 256)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            chosen = model(input_ids=tokens).logits.argmax(-1).cpu().numpy()
            if fixed:
                _rewards = (chosen[:, 1:] != chosen[:, :-1]).sum(1) / chosen.shape[1]
            else:
                _rewards = []
                for row in chosen.tolist():
                    changed = 0
                    for a, b in itertools.pairwise(row):
                        if a != b:
                            changed += 1
                        changed += a == -1
                    _rewards.append(changed / len(row))
                np.array(_rewards)
            yield

    return loop


class _Texts(torch.utils.data.Dataset):
    """Texts that are cut into pairs of letters when they are asked for."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        choose = random.Random(index)
        text = "".join(choose.choices(string.ascii_lowercase, k=size(256, 8)))
        row = [hash(text[i : i + 2]) % VOCABULARY for i in range(len(text))]
        return torch.tensor(row)


def texts_cut_gpt2(fixed: bool) -> Loop:
    workers = {"num_workers": size(12, 1), "persistent_workers": True} if fixed else {}
    texts = _Texts()
    loader = torch.utils.data.DataLoader(
        texts,
        batch_size=size(64, 2),
        sampler=torch.utils.data.RandomSampler(texts, True, 10_000_000),
        pin_memory=has_gpu(),
        **workers,
    )
    batches = iter(loader)
    model = _gpt2(6, 1024)
    optimizer = _adamw(model)

    def loop(steps: int):
        for _ in range(steps):
            tokens = next(batches).to(DEVICE, non_blocking=True)
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def large_batches_gpt2(fixed: bool) -> Loop:
    model = _gpt2(6, 1536)
    optimizer, tokens = _adamw(model), _tokens(96, 512)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def large_batches_ddp(fixed: bool) -> Loop:
    import os

    from torch import distributed

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = "29523"
    distributed.init_process_group("nccl" if has_gpu() else "gloo", rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(_bert(6, 1536))
    optimizer, tokens = _adamw(model), _tokens(96, 512)
    labels = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            _bert_step(model, optimizer, tokens, labels)
            yield

    return loop
