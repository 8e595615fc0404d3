"""The network of BERT and its kin in plain torch: the numbers of transformers' classes, without importing them.

BERT, RoBERTa, XLM-R, MPNet and DistilBERT are one network under different names. Sentences stand in one row without
padding; query, key and value are one product; weights are transposed once; element-wise work is done in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from sen2pro.encoder.backend import Site
from sen2pro.encoder.dropout import KeyedDropout
from sen2pro.encoder.packing import Layout

_SHORT = 48  # tokens: up to here, two small products are faster than the fused kernel
_NARROW = 24  # tokens: up to here, a softmax of our own is faster than torch's
_SAFE = 80.0  # the exponential of a score up to here, either way, is far from the ends of float32


@dataclass(frozen=True)
class Family:
    """How a family names its weights and settings, and the little in which its network differs."""

    prefix: str  # of the weights, in a checkpoint with a task head
    layers: str = "encoder.layer"
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    mixed: str = "attention.output.dense"
    first_norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    second_norm: str = "output.LayerNorm"
    settings: tuple[str, ...] = (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
        "hidden_dropout_prob", "attention_probs_dropout_prob",
    )  # fmt: skip
    epsilon: float | None = None  # of the layer norms, where it is no setting
    has_types: bool = True  # token types: all 0 here
    counts_from_padding: bool = False  # positions begin after the padding's number
    has_bias: bool = False  # of relative positions, in the attention
    drops_mixed: bool = True  # dropout after the attention's output


_ROBERTA = Family("roberta.", counts_from_padding=True)
FAMILIES = {
    "bert": Family("bert."),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "mpnet": Family(
        "mpnet.", query="attention.attn.q", key="attention.attn.k", value="attention.attn.v", mixed="attention.attn.o",
        first_norm="attention.LayerNorm", has_types=False, counts_from_padding=True, has_bias=True,
    ),
    "distilbert": Family(
        "distilbert.", layers="transformer.layer", query="attention.q_lin", key="attention.k_lin",
        value="attention.v_lin", mixed="attention.out_lin", first_norm="sa_layer_norm", up="ffn.lin1", down="ffn.lin2",
        second_norm="output_layer_norm", epsilon=1e-12, has_types=False, drops_mixed=False,
        settings=("dim", "n_layers", "n_heads", "hidden_dim", "activation", "dropout", "attention_dropout"),
    ),
}  # fmt: skip


class Layer(NamedTuple):
    """The weights of one layer; a matrix is (in, out)."""

    inputs: tuple[Tensor, Tensor]  # query, key and value side by side; query is scaled already
    mixed: tuple[Tensor, Tensor]
    first_norm: tuple[Tensor, Tensor]
    up: tuple[Tensor, Tensor]
    down: tuple[Tensor, Tensor]
    second_norm: tuple[Tensor, Tensor]


class Network:
    """A network for packed batches on a CPU.

    Parameters
    ----------
    family
        Which of the families it is.
    config
        What `config.json` says.
    weights
        By their names in transformers, without prefix. Raises an error if one is missing, unknown or of another shape.
    """

    def __init__(self, family: Family, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        self.family = family
        sizes, rates = family.settings[:3], family.settings[-2:]
        self.width, self.depth, self.heads = (int(config[name]) for name in sizes)
        self.hidden_rate, self.attention_rate = (float(config[name]) for name in rates)
        self.epsilon = family.epsilon if family.epsilon is not None else float(config["layer_norm_eps"])
        self.first = config["pad_token_id"] + 1 if family.counts_from_padding else 0
        self.parameters = sum(tensor.numel() for tensor in weights.values())
        inner = family.settings[3]
        left = dict(weights)

        def take(name: str, *shape: int) -> Tensor:
            if tuple((tensor := left.pop(name)).shape) != shape:
                raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not {shape}")
            return tensor

        def pair(name: str, *shape: int) -> tuple[Tensor, Tensor]:
            return take(f"{name}.weight", *shape), take(f"{name}.bias", shape[0])

        self._words = take("embeddings.word_embeddings.weight", config["vocab_size"], self.width)
        self._positions = take("embeddings.position_embeddings.weight", config["max_position_embeddings"], self.width)
        if family.has_types:
            types = take("embeddings.token_type_embeddings.weight", config["type_vocab_size"], self.width)
            self._positions = self._positions + types[0]
        self._norm = pair("embeddings.LayerNorm", self.width)
        self._bias = None
        if family.has_bias:
            buckets = config["relative_attention_num_buckets"]
            self._bias = take("encoder.relative_attention_bias.weight", buckets, self.heads)
        self.layers = [self._layer(pair, f"{family.layers}.{i}.", config[inner]) for i in range(self.depth)]
        if left:
            raise ValueError(f"unknown weights: {list(left)[:3]}")

    def _layer(self, pair: Callable[..., tuple[Tensor, Tensor]], prefix: str, inner: int) -> Layer:
        names, width, scale = self.family, self.width, (self.width // self.heads) ** -0.5

        def transposed(name: str, *shape: int) -> tuple[Tensor, Tensor]:
            weight, bias = pair(prefix + name, *shape)
            return weight.t().contiguous(), bias

        query, *others = (pair(prefix + name, width, width) for name in (names.query, names.key, names.value))
        parts = [tuple(tensor * scale for tensor in query), *others]
        return Layer(
            (torch.cat([weight for weight, _ in parts]).t().contiguous(), torch.cat([bias for _, bias in parts])),
            transposed(names.mixed, width, width),
            pair(prefix + names.first_norm, width),
            transposed(names.up, inner, width),
            transposed(names.down, width, inner),
            pair(prefix + names.second_norm, width),
        )

    def sites(self, rate: float | None) -> list[Site]:
        """Return where dropout is applied, in the order of a pass; `rate` stands for the network's own rates."""
        hidden, attention = (own if rate is None else rate for own in (self.hidden_rate, self.attention_rate))
        layer = [Site("attention", attention), *[Site("hidden", hidden)] * (1 + self.family.drops_mixed)]
        return [Site("hidden", hidden), *layer * self.depth]

    def __call__(
        self, ids: Sequence[Sequence[int]], layout: Layout, dropout: KeyedDropout | None, wanted: Collection[int]
    ) -> dict[int, Tensor]:
        """Run one batch, and return the hidden states `wanted`, (tokens, width) each; the embeddings are number 0."""

        def mask(states: Tensor) -> Tensor | None:
            return None if dropout is None else dropout.mask(torch.Size((1, *states.shape)), self.hidden_rate)

        def added(states: Tensor, new: Tensor, layer: tuple[Tensor, Tensor], drops: bool = True) -> Tensor:
            """Add what a linear layer makes of `new`: the product itself adds to the states where nothing drops out."""
            kept = mask(states) if drops else None
            if kept is None:
                return (states + layer[1]).addmm_(new, layer[0])
            return torch.addcmul(states, torch.addmm(layer[1], new, layer[0]), kept[0])

        def norm(states: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
            return functional.layer_norm(states, (self.width,), *weights, self.epsilon)

        states = self.embedded(ids)
        first = mask(states)
        states = states if first is None else states.mul_(first[0])
        kept = {0: states} if 0 in wanted else {}
        for number, layer in enumerate(self.layers, start=1):
            mixed = self._attention(torch.mm(states, layer.inputs[0]), layer.inputs[1], layout, dropout)
            states = norm(added(states, mixed, layer.mixed, self.family.drops_mixed), layer.first_norm)
            inner = torch.ops.aten.gelu_(torch.addmm(layer.up[1], states, layer.up[0]))
            states = norm(added(states, inner, layer.down), layer.second_norm)
            if number in wanted:
                kept[number] = states
        return kept

    def embedded(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """Return the states of all tokens before the first layer, (tokens, width)."""
        words, places = torch.tensor(list(chain.from_iterable(ids))), torch.tensor(self._positions_of(ids))
        embedded = functional.embedding(words, self._words).add_(functional.embedding(places, self._positions))
        return functional.layer_norm(embedded, (self.width,), *self._norm, self.epsilon)

    def _positions_of(self, ids: Sequence[Sequence[int]]) -> list[int]:
        if not self.family.has_bias:
            return [self.first + i for row in ids for i in range(len(row))]
        # MPNet gives a padding token the padding's position, even inside a sentence.
        padding, positions = self.first - 1, []
        for row in ids:
            position = padding
            for number in row:
                position += number != padding
                positions.append(padding if number == padding else position)
        return positions

    def _attention(self, inputs: Tensor, bias: Tensor, layout: Layout, dropout: KeyedDropout | None) -> Tensor:
        """Attend within each sentence: (tokens, 3 width), which still lack their bias, give (tokens, width)."""
        size = self.width // self.heads
        result = torch.empty(len(inputs), self.width)
        for _, rows, length in layout.groups:
            three = inputs[rows].view(-1, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
            # One pass adds the bias and puts the tokens of a head side by side.
            three = torch.add(three, bias.view(3, 1, -1, 1, size), out=torch.empty(three.shape))
            if dropout is None and length > _SHORT:
                query, key, value = three
                relative = None if self._bias is None else self._relative(length)
                mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=relative, scale=1.0)
            else:
                query, key, value = three.flatten(1, 2)  # (sentences and heads, length, size)
                scores = self.weights(query, key)
                if dropout is not None and (kept := dropout.mask(scores.shape, self.attention_rate)) is not None:
                    scores *= kept
                mixed = torch.bmm(scores.flatten(0, 1), value).view(-1, self.heads, length, query.shape[2])
            result[rows].view(-1, length, self.heads, size).copy_(mixed.transpose(1, 2))
        return result

    def weights(self, query: Tensor, key: Tensor) -> Tensor:
        """Return how much each token attends to each other: (sentences and heads, length, size) of both are taken."""
        length = query.shape[1]
        scores = torch.bmm(query, key.mT).view(-1, self.heads, length, length)
        if self._bias is not None:
            scores += self._relative(length)
        return _softmax(scores)

    def _relative(self, length: int) -> Tensor:
        """Return MPNet's bias of relative positions, (heads, length, length)."""
        assert self._bias is not None
        return self._bias[_buckets(length)].permute(2, 0, 1)


def _softmax(scores: Tensor) -> Tensor:
    """Return the softmax over the last axis; the scores may be overwritten.

    torch's own takes one number at a time where a row is shorter than a vector register (16 numbers with AVX-512). It
    also takes the greatest number of each row away first, which only scores beyond `_SAFE` need.
    """
    if scores.shape[-1] <= _NARROW:
        low, high = torch.aminmax(scores)
        if low.item() > -_SAFE and high.item() < _SAFE:  # no if one is not a number
            scores = scores.exp_()
            return scores.div_(scores.sum(dim=-1, keepdim=True))
    return torch.softmax(scores, dim=-1)


@lru_cache(maxsize=16)
def _buckets(length: int) -> Tensor:
    """Return the bucket of each pair of positions: exact up to 7 words apart, then growing up to 128."""
    places = torch.arange(length)
    distance = places[:, None] - places[None, :]
    far = distance.abs()
    large = 8 + (torch.log(far.float() / 8) / math.log(128 / 8) * 8).to(torch.long)
    return (distance < 0).long() * 16 + torch.where(far < 8, far, large.clamp(max=15))
