from __future__ import annotations

CAUGHT_BY = "test_a_report_asks_for_each_size"
SAYS = "every size in elements"


def size_benchmark(exponents: Iterable[int], providers: dict[str, str]) -> Benchmark:
    from triton.testing import Benchmark

    sizes = list(exponents)
    if not sizes or not providers:
        raise ValueError("a benchmark needs sizes and providers")
    return Benchmark(
        x_names=["n"],
        x_vals=sizes,
        x_log=True,
        line_arg="provider",
        line_vals=list(providers),
        line_names=list(providers.values()),
        ylabel="GB/s",
        plot_name="vector-add",
        args={},
    )
