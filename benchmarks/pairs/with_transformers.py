"""Pairs on transformers and peft, models of random weights."""

from __future__ import annotations

import gc
import random
import string

import torch
from harness import Loop, has_gpu, size
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

DEVICE = "cuda" if has_gpu() else "cpu"
VOCABULARY = 8_000


def _bert(layers: int, hidden: int) -> BertForSequenceClassification:
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=size(hidden, 32),
        num_hidden_layers=size(layers, 1),
        num_attention_heads=size(hidden // 64, 2),
        intermediate_size=size(4 * hidden, 64),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config).to(DEVICE, torch.bfloat16)


def _gpt2(layers: int, hidden: int, vocabulary: int = VOCABULARY) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=vocabulary,
        n_embd=size(hidden, 32),
        n_layer=size(layers, 1),
        n_head=size(hidden // 64, 2),
        n_positions=512,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
    )
    return GPT2LMHeadModel(config).to(DEVICE, torch.bfloat16)


def _tokens(batch: int, length: int, vocabulary: int = VOCABULARY) -> torch.Tensor:
    return torch.randint(vocabulary, (size(batch, 2), size(length, 8)), device=DEVICE)


def _adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(parameters, lr=1e-4, fused=has_gpu())


def _bert_step(model, optimizer, tokens, labels) -> torch.Tensor:
    loss = model(input_ids=tokens, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def cache_emptied_bert(fixed: bool) -> Loop:
    model = _bert(6, 768)
    optimizer, tokens = _adamw(model), _tokens(32, 256)
    labels = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            _bert_step(model, optimizer, tokens, labels)
            if not fixed:
                torch.cuda.empty_cache()
            yield

    return loop


def garbage_collected_bert(fixed: bool) -> Loop:
    model = _bert(4, 768)
    optimizer, tokens = _adamw(model), _tokens(32, 256)
    labels = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            _bert_step(model, optimizer, tokens, labels)
            if not fixed:
                gc.collect()
            yield

    return loop


def padding_bert(fixed: bool) -> Loop:
    words = {
        "".join(random.Random(n).choices(string.ascii_lowercase, k=6)): n for n in range(VOCABULARY)
    }
    known = list(words)
    choose = random.Random(1)
    texts = [" ".join(choose.choices(known, k=choose.randint(200, 256))) for _ in range(4096)]

    def collate(batch: list[str]) -> torch.Tensor:
        rows = []
        for text in batch:
            row = [words.get(word.lower().strip(",.;"), 0) for word in text.split()]
            rows.append(row[:256] + [0] * (256 - len(row)))
        return torch.tensor(rows)

    workers = {"num_workers": size(6, 1), "persistent_workers": True} if fixed else {}
    loader = torch.utils.data.DataLoader(
        texts,
        batch_size=size(64, 2),
        sampler=torch.utils.data.RandomSampler(texts, True, 1_000_000),
        collate_fn=collate,
        pin_memory=has_gpu(),
        **workers,
    )
    batches = iter(loader)
    model = _bert(4, 512)
    optimizer = _adamw(model)
    labels = torch.zeros(size(64, 2), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            tokens = next(batches).to(DEVICE, non_blocking=True)
            _bert_step(model, optimizer, tokens, labels)
            yield

    return loop


def gradient_norms_gpt2(fixed: bool) -> Loop:
    model = _gpt2(12, 768)
    optimizer, tokens = _adamw(model), _tokens(16, 256)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens, labels=tokens).loss.backward()
            total = 0.0
            for parameter in model.parameters():
                norm = parameter.grad.norm() ** 2
                total = total + (norm if fixed else norm.item())
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def logits_kept_gpt2(fixed: bool) -> Loop:
    model = _gpt2(4, 768, size(50_304, 100))
    tokens = _tokens(8, 256, 100)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            logits = model(input_ids=tokens).logits
            chosen = logits.argmax(-1)
            _kept = chosen.cpu() if fixed else logits.cpu()
            yield

    return loop


def optimizer_by_parameter_gpt2(fixed: bool) -> Loop:
    model = _gpt2(12, 512)
    tokens = _tokens(8, 128)
    how = {"fused": has_gpu()} if fixed else {"foreach": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **how)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def phases_timed_lora(fixed: bool) -> Loop:
    from peft import LoraConfig, get_peft_model

    model = _gpt2(12, 1024)
    config = LoraConfig(r=8, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    model = get_peft_model(model, config)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, foreach=False)
    tokens = _tokens(24, 256)

    def timed() -> None:
        if not fixed and has_gpu():
            torch.cuda.synchronize()

    def loop(steps: int):
        for _ in range(steps):
            loss = model(input_ids=tokens, labels=tokens).loss
            timed()
            loss.backward()
            timed()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            timed()
            yield

    return loop


def lengths_compiled_bert(fixed: bool) -> Loop:
    torch._dynamo.config.cache_size_limit = 1000
    torch._dynamo.config.recompile_limit = 1000
    model = _bert(1, 512).eval()
    compiled = torch.compile(model, dynamic=fixed)
    lengths = iter(range(64, 512, 8))

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            compiled(input_ids=_tokens(16, 1)[:, :1].repeat(1, next(lengths)))
            yield

    return loop


def losses_kept_gpt2(fixed: bool) -> Loop:
    model = _gpt2(4, 512)
    optimizer, tokens = torch.optim.SGD(model.parameters(), lr=1e-3), _tokens(8, 128)

    def loop(steps: int):
        total = torch.zeros((), device=DEVICE)
        for _ in range(steps):
            loss = model(input_ids=tokens, labels=tokens).loss
            total = total + (loss.detach() if fixed else loss)
            torch.autograd.grad(loss, list(model.parameters())[:4], retain_graph=not fixed)
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop
