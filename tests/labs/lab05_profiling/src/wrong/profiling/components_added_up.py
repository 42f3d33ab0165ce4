from __future__ import annotations

CAUGHT_BY = "test_components"
SAYS = "all products together did"


def profile_attention_components(
    seq_len, d_model, num_heads, *, batch=1, dtype="float32", device="cpu", warmup=3, iterations=10
):
    _check_counts(
        seq_len=seq_len, d_model=d_model, num_heads=num_heads, batch=batch,
        warmup=warmup, iterations=iterations,
    )  # fmt: skip
    if d_model % num_heads:
        raise ValueError(f"d_model is {d_model}, which {num_heads} heads do not divide")
    name = devices.dtype(dtype).name
    head_dim = d_model // num_heads

    def run():
        import torch

        chance = torch.Generator().manual_seed(0)

        def random(*shape):
            return torch.randn(*shape, generator=chance).to(device, getattr(torch, name))

        def split(qkv):
            qkv = qkv.view(batch, seq_len, 3, num_heads, head_dim)
            return qkv.permute(2, 0, 3, 1, 4).unbind()

        x, w_qkv, w_out = (
            random(batch, seq_len, d_model), random(d_model, 3 * d_model), random(d_model, d_model)
        )  # fmt: skip
        with torch.no_grad():
            q, k, v = split(x @ w_qkv)
            scores = (q * head_dim**-0.5) @ k.mT
            weights = torch.softmax(scores, dim=-1)
            summed = weights @ v
            calls = {
                "qkv_projection": lambda: split(x @ w_qkv),
                "score_computation": lambda: (q * head_dim**-0.5) @ k.mT,
                "softmax": lambda: torch.softmax(scores, dim=-1),
                "weighted_sum": lambda: weights @ v,
                "output_projection": lambda: summed.transpose(1, 2).reshape(x.shape) @ w_out,
                "call_floor": lambda: torch.relu(x[:1, :1, :1]),
            }
            return {
                key: benchmark_function(fn, (), warmup, iterations) for key, fn in calls.items()
            }

    times = _with_room(run, f"profiling attention with {seq_len}, {d_model}, {num_heads}, {batch}")
    rows, pairs = batch * num_heads * seq_len, batch * num_heads * seq_len * seq_len
    inputs, product = batch * seq_len * d_model, 2 * batch * seq_len * seq_len * d_model
    counted = {
        "qkv_projection": (6 * inputs * d_model, 4 * inputs + 3 * d_model * d_model),
        "score_computation": (product, 2 * inputs + pairs),
        "softmax": (5 * pairs - 2 * rows, 2 * pairs),
        "weighted_sum": (product, 2 * inputs + pairs),
        "output_projection": (2 * inputs * d_model, 2 * inputs + d_model * d_model),
    }
    size = devices.dtype(name).bytes
    sum_s = sum(times[component] for component in COMPONENTS)
    return {
        "device": device, "dtype": name, "batch": batch, "seq_len": seq_len, "d_model": d_model,
        "num_heads": num_heads,
        "components": [
            {
                "name": component, "time_s": times[component], "share": times[component] / sum_s,
                "flops": counted[component][0], "bytes": counted[component][1] * size,
            }
            for component in COMPONENTS
        ],
        "sum_s": sum_s, "whole_s": sum_s, "call_floor_s": times["call_floor"],
    }  # fmt: skip
