"""A machine that counts: kernels written out in plain Python, where each operation on numbers and
each access to memory is noted.

It knows no formula. A kernel is a `with machine.kernel():` block; at its end each element of a tensor
that was read in it counts once, and each that was written. What a kernel keeps in Python variables
stays on chip.

    machine = Machine()
    x, y = machine.tensor(), machine.tensor()
    with machine.kernel():
        y[0] = x[0] * x[1] + x[0]
    machine.flops, machine.elements         # 2, 3
"""

# Long because each kind of written-out kernel has its own way of counting.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import product
from typing import Any

from grading.runner.computed_once import kept


class Number:
    """A number on chip; arithmetic with it is counted, its value is of no interest."""

    __slots__ = ("machine",)

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def _count(self, _other: Any = None) -> Number:
        self.machine.flops += 1
        return self

    __add__ = __sub__ = __mul__ = __truediv__ = _count
    larger = exp = sqrt = _count


class Tensor:
    """A tensor in memory, of any shape, indexed by what is wanted of it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __getitem__(self, index: Any) -> Number:
        self.machine.touched.add(("read", id(self), index))
        return self.machine.number

    def __setitem__(self, index: Any, value: Number) -> None:
        self.machine.touched.add(("write", id(self), index))


class Machine:
    """Counts operations (`flops`) and elements read from and written to memory (`elements`)."""

    def __init__(self) -> None:
        self.flops = 0
        self.elements = 0
        self.touched: set[tuple[str, int, Any]] = set()
        self.number = Number(self)
        self._tensors: list[Tensor] = []  # kept, so that no id is given twice

    def tensor(self) -> Tensor:
        """A new tensor."""
        self._tensors.append(Tensor(self))
        return self._tensors[-1]

    @contextmanager
    def kernel(self) -> Iterator[None]:
        """What runs in the block is one kernel."""
        self.touched = set()
        yield
        self.elements += len(self.touched)
        self.touched = set()

    def dot(self, pairs: Sequence[tuple[Number, Number]]) -> Number:
        """Multiply and add up, beginning with zero."""
        return reduce(lambda total, pair: total + pair[0] * pair[1], pairs, self.number)

    def sum(self, numbers: Sequence[Number]) -> Number:
        """Add up, beginning with the first."""
        return reduce(lambda a, b: a + b, numbers)


@kept
def matmul(m: int, k: int, n: int, batch: int = 1, shared_b: bool = False) -> Machine:
    """A batch of matrix products in one kernel."""
    machine = Machine()
    a, b, c = (machine.tensor() for _ in range(3))
    with machine.kernel():
        for which, row, column in product(range(batch), range(m), range(n)):
            matrix = 0 if shared_b else which
            c[which, row, column] = machine.dot(
                [(a[which, row, i], b[matrix, i, column]) for i in range(k)]
            )
    return machine


@kept
def elementwise(element_count: int, extra_inputs: Sequence[int], fused: bool) -> Machine:
    """A chain of elementwise operations."""
    machine = Machine()
    tensor = machine.tensor()
    others = [[machine.tensor() for _ in range(count)] for count in extra_inputs]

    def operate(value: Number, inputs: Sequence[Tensor], element: int) -> Number:
        for other in inputs:
            other[element]
        return value + value

    if fused:
        result = machine.tensor()
        with machine.kernel():
            for element in range(element_count):
                value = tensor[element]
                for inputs in others:
                    value = operate(value, inputs, element)
                result[element] = value
        return machine
    for inputs in others:
        result = machine.tensor()
        with machine.kernel():
            for element in range(element_count):
                result[element] = operate(tensor[element], inputs, element)
        tensor = result
    return machine


@kept
def layer_norm(rows: int, width: int, affine: bool) -> Machine:
    """A layer norm in one kernel."""
    machine = Machine()
    x, weight, bias, y = (machine.tensor() for _ in range(4))
    constant = machine.number
    with machine.kernel():
        for row in range(rows):
            values = [x[row, i] for i in range(width)]
            mean = machine.sum(values) / constant
            differences = [value - mean for value in values]
            variance = machine.sum([d * d for d in differences]) / constant
            spread = (variance + constant).sqrt()
            for i, difference in enumerate(differences):
                result = difference / spread
                y[row, i] = result * weight[i] + bias[i] if affine else result
    return machine


@kept
def softmax(rows: int, width: int, fused: bool) -> Machine:
    """A softmax, in one kernel or in five."""
    machine = Machine()
    everything = list(range(rows))
    if fused:
        x, y = machine.tensor(), machine.tensor()
        with machine.kernel():
            for row in everything:
                values = [x[row, i] for i in range(width)]
                largest = reduce(lambda a, b: a.larger(b), values)
                powers = [(value - largest).exp() for value in values]
                total = machine.sum(powers)
                for i, power in enumerate(powers):
                    y[row, i] = power / total
        return machine
    x, largest, shifted, powers, totals, y = (machine.tensor() for _ in range(6))
    with machine.kernel():
        for row in everything:
            largest[row] = reduce(lambda a, b: a.larger(b), [x[row, i] for i in range(width)])
    with machine.kernel():
        for row, i in product(everything, range(width)):
            shifted[row, i] = x[row, i] - largest[row]
    with machine.kernel():
        for row, i in product(everything, range(width)):
            powers[row, i] = shifted[row, i].exp()
    with machine.kernel():
        for row in everything:
            totals[row] = machine.sum([powers[row, i] for i in range(width)])
    with machine.kernel():
        for row, i in product(everything, range(width)):
            y[row, i] = powers[row, i] / totals[row]
    return machine


@kept
def attention(
    batch: int,
    heads: int,
    query_tokens: int,
    key_tokens: int,
    head_dim: int,
    kv_heads: int,
    causal: bool,
    fused: bool,
) -> Machine:
    """Attention in one kernel, or in three that hand scores and probabilities over in memory."""
    machine = Machine()
    q, k, v, scores, probabilities, y = (machine.tensor() for _ in range(6))
    everywhere = list(product(range(batch), range(heads), range(query_tokens)))

    def seen(query: int) -> range:
        return range(key_tokens - query_tokens + query + 1 if causal else key_tokens)

    def score(which: int, head: int, query: int, key: int) -> Number:
        shared = head * kv_heads // heads
        return machine.dot(
            [(q[which, head, query, i], k[which, shared, key, i]) for i in range(head_dim)]
        )

    def mix(which: int, head: int, query: int, row: Sequence[Number]) -> None:
        shared = head * kv_heads // heads
        for i in range(head_dim):
            y[which, head, query, i] = machine.dot(
                [(weight, v[which, shared, key, i]) for key, weight in enumerate(row)]
            )

    if fused:
        with machine.kernel():
            for which, head, query in everywhere:
                mix(which, head, query, [score(which, head, query, key) for key in seen(query)])
        return machine
    keys = range(key_tokens)
    with machine.kernel():
        for which, head, query in everywhere:
            for key in keys:
                scores[which, head, query, key] = score(which, head, query, key)
    with machine.kernel():
        for which, head, query in everywhere:
            for key in keys:  # what the mask forbids is read all the same, and becomes 0
                probabilities[which, head, query, key] = scores[which, head, query, key]
    with machine.kernel():
        for which, head, query in everywhere:
            mix(which, head, query, [probabilities[which, head, query, key] for key in keys])
    return machine


@kept
def conv2d(
    batch: int,
    in_channels: int,
    height: int,
    width: int,
    out_channels: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Machine:
    """A convolution that walks a filter over the padded input. Every input element is loaded."""
    machine = Machine()
    x, weight, y = (machine.tensor() for _ in range(3))
    reach = [dilation[i] * (kernel[i] - 1) for i in range(2)]
    tops = range(-padding[0], height + padding[0] - reach[0], stride[0])
    lefts = range(-padding[1], width + padding[1] - reach[1], stride[1])
    a_group, filters = in_channels // groups, out_channels // groups
    with machine.kernel():
        for index in product(range(batch), range(in_channels), range(height), range(width)):
            x[index]
        for which, out, top, left in product(range(batch), range(out_channels), tops, lefts):
            pairs = []
            for channel, i, j in product(range(a_group), range(kernel[0]), range(kernel[1])):
                row, column = top + i * dilation[0], left + j * dilation[1]
                inside = 0 <= row < height and 0 <= column < width
                source = (which, out // filters * a_group + channel, row, column)
                pairs.append((x[source] if inside else machine.number, weight[out, channel, i, j]))
            y[which, out, top, left] = machine.dot(pairs)
    return machine


@kept
def transformer(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn: int,
    ffn_matrices: int,
    batch: int,
    new_tokens: int,
    cached_tokens: int,
) -> Machine:
    """A forward pass in one kernel: what is neither input, result, matrix nor cache stays on chip."""
    machine = Machine()
    x, y = machine.tensor(), machine.tensor()
    matrices = [{name: machine.tensor() for name in range(4 + ffn_matrices)} for _ in range(layers)]
    caches = [(machine.tensor(), machine.tensor()) for _ in range(layers)]

    def linear(matrix: Tensor, inputs: int, outputs: int) -> list[Number]:
        return [
            machine.dot([(machine.number, matrix[i, j]) for i in range(inputs)])
            for j in range(outputs)
        ]

    with machine.kernel():
        for which, token in product(range(batch), range(new_tokens)):
            for i in range(hidden):
                x[which, token, i]
            for layer in range(layers):
                own = matrices[layer]
                linear(own[0], hidden, heads * head_dim)
                for part in range(2):
                    new = linear(own[1 + part], hidden, kv_heads * head_dim)
                    for place, value in enumerate(new):
                        caches[layer][part][which, cached_tokens + token, place] = value
                for _head in range(heads):
                    for _part in range(2):  # Q @ K.T, then the probabilities @ V
                        for _key in range(cached_tokens + token + 1):
                            machine.dot([(machine.number, machine.number)] * head_dim)
                linear(own[3], heads * head_dim, hidden)
                for matrix in range(ffn_matrices):
                    linear(own[4 + matrix], hidden, ffn)
            for i in range(hidden):
                y[which, token, i] = machine.number
        for which, layer, part in product(range(batch), range(layers), range(2)):
            for token, place in product(range(cached_tokens), range(kv_heads * head_dim)):
                caches[layer][part][which, token, place]
    return machine


def torch_flops(run: Callable[[], Any]) -> int:
    """What torch's own counter counts while `run` runs (matrix products, convolutions, attention).

    Tensors of the device "meta" have shapes and no data: nothing is computed.
    """
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter:
        run()
    return counter.get_total_flops()


# -- closed forms for shapes that are too large to walk; a harness test holds them against the above ---


def triangle(query_tokens: int, key_tokens: int) -> int:
    """Pairs of query and key that a causal mask allows, row by row."""
    first, last = key_tokens - query_tokens + 1, key_tokens
    return (first + last) * query_tokens // 2


def closed(op: str, given: dict[str, Any]) -> tuple[int, int]:
    """Operations and elements moved of an operation, by its arguments."""
    a = dict(given)
    if op == "matmul":
        many = a.get("batch", 1)
        inputs = a["m"] * a["k"] * many + a["k"] * a["n"] * (1 if a.get("shared_b") else many)
        results = a["m"] * a["n"] * many
        return results * (a["k"] + a["k"]), inputs + results
    if op == "elementwise":
        steps = a["extra_inputs"]
        moved = sum(steps) + 2 if a["fused"] else sum(2 + step for step in steps)
        return len(steps) * a["element_count"], moved * a["element_count"]
    if op == "layer_norm":
        area, width = a["rows"] * a["width"], a["width"]
        if a.get("affine", True):
            return 7 * area + 2 * a["rows"], 2 * (area + width)
        return 5 * area + 2 * a["rows"], 2 * area
    if op == "softmax":
        area = a["rows"] * a["width"]
        return 5 * area - 2 * a["rows"], 2 * area if a["fused"] else 8 * area + 4 * a["rows"]
    if op == "attention":
        many, heads, queries, keys = a["batch"], a["heads"], a["query_tokens"], a["key_tokens"]
        full = queries * keys
        pairs = triangle(queries, keys) if a.get("causal") and a["fused"] else full
        own = (heads * queries + (a.get("kv_heads") or heads) * keys) * 2 * a["head_dim"]
        between = 0 if a["fused"] else 4 * heads * full
        return many * heads * pairs * 4 * a["head_dim"], many * (own + between)
    if op == "conv2d":
        places = 1
        for i, extent in enumerate((a["height"], a["width"])):
            reach = a.get("dilation", (1, 1))[i] * (a["kernel"][i] - 1)
            padded = extent + 2 * a.get("padding", (0, 0))[i]
            places *= len(range(0, padded - reach, a.get("stride", (1, 1))[i]))
        a_filter = a["in_channels"] // a.get("groups", 1) * a["kernel"][0] * a["kernel"][1]
        inputs = a["batch"] * a["in_channels"] * a["height"] * a["width"]
        results = a["batch"] * a["out_channels"] * places
        return 2 * a_filter * results, inputs + results + a_filter * a["out_channels"]
    if op == "transformer":
        query_width, key_width = (a["head_dim"] * a[name] for name in ("heads", "kv_heads"))
        matrices = a["hidden"] * (2 * query_width + 2 * key_width + a["ffn_matrices"] * a["ffn"])
        tokens, whole = a["batch"] * a["new_tokens"], a["cached_tokens"] + a["new_tokens"]
        pairs = a["batch"] * triangle(a["new_tokens"], whole)
        a_layer = 2 * tokens * matrices + 4 * query_width * pairs
        moved = matrices + 2 * key_width * a["batch"] * whole
        return a["layers"] * a_layer, a["layers"] * moved + 2 * tokens * a["hidden"]
    raise ValueError(f"no closed form for {op!r}")


def training_step(
    matrices: Sequence[tuple[int, int]],
    layers: int,
    hidden: int,
    batch: int,
    sequence: int,
    recompute: bool,
) -> int:
    """Operations of the matrix products of one training step, product by product.

    Forward each token goes through all matrices, and each sequence in each layer through Q @ K.T and
    the probabilities @ V, without a mask. Backward each product has two more of its size: one for the
    gradient of each factor.
    """
    shapes = [(batch * sequence, rows, columns) for rows, columns in matrices]
    shapes += [(sequence, hidden, sequence), (sequence, sequence, hidden)] * (layers * batch)
    forward = sum(closed("matmul", dict(zip("mkn", shape, strict=True)))[0] for shape in shapes)
    return forward * (4 if recompute else 3)
