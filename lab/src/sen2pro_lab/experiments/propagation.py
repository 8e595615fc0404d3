"""The variance that dropout gives a sentence's vector, computed beside one plain pass instead of sampled.

Noise is followed through the network to first order. Dropout adds a part to each token that is its own: the square of
what is dropped, times rate / (1 - rate). Attention carries a token's noise to all others, and makes it common to them;
what is common does not average out when tokens are pooled. So two variances are kept for each sentence, both by
dimension: `own`, the average over its tokens, of which a token has its `share`; and `common`, the covariance of two of
its tokens. Dimensions are taken to be independent of each other, which is not so: the result is mostly too small, above
all for one word and for long text. `analytic` corrects it. The squared weights take as much memory as the layers
themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from sen2pro import Sen2Pro
from sen2pro.encoder.backend import States, Tokens
from sen2pro.encoder.native.load import NativeModel
from sen2pro.encoder.native.network import Layer, Network
from sen2pro.encoder.packing import Layout
from sen2pro.errors import Sen2ProError
from sen2pro.validation import Array


class _Noise(NamedTuple):
    own: Tensor  # (sentences, width): variance of the part of a token that is independent of the others, on average
    share: Tensor  # (tokens, 1): of `own`; 1 on average over a sentence
    common: Tensor  # (sentences, width): covariance of two tokens


class _Old(NamedTuple):
    """The noise that a block leaves in its states, beside the fresh one that its dropout adds."""

    average: Tensor  # (sentences, width): over tokens, of a token's own
    totals: Tensor  # (tokens, 2): of each token, over dimensions: their average, and their sum times the norm's gain
    common: Tensor  # (sentences, width)


class _Squares(NamedTuple):
    """The weights of one layer as variances pass them: squared, (in, out)."""

    value: Tensor
    mixed: Tensor
    up: Tensor
    down: Tensor
    attention_turn: Tensor  # (heads, width): how a dimension comes back to itself through attention
    inner_turn: Tensor  # (inner, width): and through the two inner products
    # For the total of a token, which is carried as if all dimensions had the same variance: (in, 2), as in `_Old`.
    attention_totals: Tensor  # of what attention mixes
    attention_turns: Tensor  # of each head
    inner_totals: Tensor
    inner_turns: Tensor
    first_gain: Tensor  # (width,)
    second_gain: Tensor


class Propagation:
    """Runs plain passes of a network, and says beside each how much its vectors vary under dropout.

    Parameters
    ----------
    network
        One of our own.
    rate
        Of all dropout, in place of the network's own rates.
    """

    def __init__(self, network: Network, rate: float | None = None) -> None:
        self.network = network
        hidden, attention = ((own if rate is None else rate) for own in (network.hidden_rate, network.attention_rate))
        self.hidden, self.attention = hidden / (1 - hidden), attention / (1 - attention)
        self.squares = [self._squared(layer) for layer in network.layers]

    def _squared(self, layer: Layer) -> _Squares:
        width, heads = self.network.width, self.network.heads
        value = layer.inputs[0][:, 2 * width :]
        gains = layer.first_norm[0] ** 2, layer.second_norm[0] ** 2
        by = [torch.stack([torch.full_like(gain, 1 / width), gain], dim=1) for gain in gains]
        mixed, up, down = (matrix**2 for matrix in (layer.mixed[0], layer.up[0], layer.down[0]))
        attention_turn = (value * layer.mixed[0].t()).view(width, heads, -1).sum(2).t().contiguous()
        inner_turn = (layer.up[0].t() * layer.down[0]).contiguous()
        return _Squares(
            value**2, mixed, up, down, attention_turn, inner_turn,
            attention_totals=mixed @ by[0], attention_turns=attention_turn @ by[0],
            inner_totals=up.sum(0)[:, None] * (down @ by[1]), inner_turns=inner_turn @ by[1],
            first_gain=gains[0], second_gain=gains[1],
        )  # fmt: skip

    def __call__(
        self, tokens: Sequence[Sequence[int]], layout: Layout, wanted: Collection[int], first: bool = False
    ) -> tuple[dict[int, Tensor], Tensor]:
        """Run one batch: the hidden states `wanted`, and the variance of each sentence's vector, (sentences, width).

        The vector is the average of a sentence's last states, or that of its first token.
        """
        with torch.inference_mode():
            return _Pass(self, layout).run(tokens, wanted, first)


def propagate(model: Sen2Pro, tokens: Tokens, layers: Sequence[int] = ()) -> tuple[States, Array]:
    """Run one plain batch as `Backend.run` does; return its states, and the variance of each vector, (n, k)."""
    backend = model.encoder.backend
    if not isinstance(backend, NativeModel) or backend.pooling_name not in ("mean", "cls"):
        raise Sen2ProError(f"variances can be propagated through native models with mean or cls pooling, not {model}")
    first, depth = backend.pooling_name == "cls", backend.network.depth
    layout = Layout([len(ids) for ids in tokens.ids])
    states, variance = Propagation(backend.network, backend.rate)(tokens.ids, layout, {depth, *layers}, first)
    with torch.inference_mode():
        vectors = (layout.first_tokens if first else layout.averages)(states[depth])
        averages = {number: layout.averages(states[number]).numpy() for number in layers}
    return States(vectors.numpy(), averages, tokens.lengths, tokens.words), variance.numpy()


class _Pass:
    """One batch on its way through the network."""

    def __init__(self, propagation: Propagation, layout: Layout) -> None:
        self.network, self.layout = propagation.network, layout
        self.hidden, self.attention, self.squares = propagation.hidden, propagation.attention, propagation.squares
        lengths = torch.tensor(layout.lengths)
        self.owner = torch.repeat_interleave(lengths)  # the sentence of each token
        self.starts = lengths.cumsum(0) - lengths
        self.rows = torch.arange(layout.total)
        self.length = lengths[:, None].float()

    def run(
        self, tokens: Sequence[Sequence[int]], wanted: Collection[int], first: bool
    ) -> tuple[dict[int, Tensor], Tensor]:
        """See `Propagation`."""
        states = self.network.embedded(tokens)
        kept = {0: states} if 0 in wanted else {}
        fresh = self.hidden * states**2
        own = self.mean(fresh)
        noise = _Noise(own, self.shares(fresh.sum(1, keepdim=True)), torch.zeros_like(own))
        layers = zip(self.network.layers, self.squares, strict=True)
        for number, (layer, squares) in enumerate(layers, start=1):
            out, old = self.attend(states, noise, layer, squares)
            keeps = self.hidden if self.network.family.drops_mixed else 0.0
            states, noise = self.norm(states, out, keeps, old, layer.first_norm, squares.first_gain)
            out, old = self.feed_forward(states, noise, layer, squares)
            states, noise = self.norm(states, out, self.hidden, old, layer.second_norm, squares.second_gain)
            if number in wanted:
                kept[number] = states
        own = noise.own * noise.share[self.starts] if first else noise.own / self.length
        return kept, noise.common + own

    def mean(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Average over the tokens of each sentence: (tokens, m), times (tokens, 1), gives (sentences, m)."""
        each = None if weights is None else weights[:, 0]
        mode = "mean" if weights is None else "sum"
        result = functional.embedding_bag(self.rows, values, self.starts, mode=mode, per_sample_weights=each)
        return result if weights is None else result / self.length

    def shares(self, totals: Tensor) -> Tensor:
        """Turn what each token has, (tokens, 1), into shares of its sentence's average."""
        return totals / self.mean(totals).clamp(min=1e-30)[self.owner]

    def attend(self, states: Tensor, noise: _Noise, layer: Layer, squares: _Squares) -> tuple[Tensor, _Old]:
        """Return what attention adds to the states, and the noise that it leaves."""
        network = self.network
        heads, size = network.heads, network.width // network.heads
        inputs = torch.mm(states, layer.inputs[0]) + layer.inputs[1]
        mixed, dropped = torch.empty_like(states), torch.empty_like(states)
        carried, taken, itself = (torch.empty(len(states), heads) for _ in range(3))
        crossed = torch.empty(len(self.length), heads)
        for sentences, rows, length in self.layout.groups:
            three = inputs[rows].view(-1, length, 3, heads, size).permute(2, 0, 3, 1, 4)
            query, key, value = three.contiguous().flatten(1, 2)
            weights = network.weights(query, key).flatten(0, 1)
            twice = weights**2
            share = noise.share[rows].view(-1, 1, length)
            ones = torch.stack([share, torch.ones_like(share)], dim=3).expand(-1, heads, -1, -1).flatten(0, 1)
            _put(mixed, rows, weights @ value, heads, size)
            _put(dropped, rows, twice @ value.square_(), heads, size)
            through = (twice @ ones).view(-1, heads, length, 2)
            carried[rows], taken[rows] = (part.transpose(1, 2).flatten(0, 1) for part in through.unbind(3))
            weights = weights.view(-1, heads, length, length)
            itself[rows] = torch.diagonal(weights, dim1=-2, dim2=-1).transpose(1, 2).flatten(0, 1)
            both = (weights.sum(2) ** 2 * share).sum(2) - through[..., 0].sum(2)  # of pairs of different tokens
            crossed[sentences] = both / max(length * (length - 1), 1)
        own, common = _both(noise.own, noise.common, squares.value)
        # What each token has after mixing: part of the tokens' own noise, and what dropout of attention makes.
        part = (carried * (1 + self.attention) - crossed[self.owner]).clamp_(min=0)
        entering = _wide(part, size) * own[self.owner]
        entering += _wide(self.attention * taken, size) * common[self.owner]
        entering.add_(dropped, alpha=self.attention)
        rise = 1 + (self.hidden if network.family.drops_mixed else 0.0)
        turn = self.mean(itself, noise.share) @ squares.attention_turn
        new, common_out = _both(self.mean(entering), common + _wide(crossed, size) * own, squares.mixed)
        average = noise.own * (1 + 2 * turn) + rise * new
        level = noise.own.mean(1, keepdim=True)[self.owner] * noise.share
        totals = level * (_flat(squares.first_gain) + 2 * itself @ squares.attention_turns)
        totals += rise * (entering @ squares.attention_totals)
        common = noise.common * (1 + 2 * squares.attention_turn.sum(0)) + common_out
        out = torch.addmm(layer.mixed[1], mixed, layer.mixed[0])
        return out, _Old(average, totals, common.clamp_(min=0))

    def feed_forward(self, states: Tensor, noise: _Noise, layer: Layer, squares: _Squares) -> tuple[Tensor, _Old]:
        """Return what the two inner products add to the states, and the noise that they leave."""
        inner = torch.addmm(layer.up[1], states, layer.up[0])
        slope = torch.ops.aten.gelu_backward(torch.ones_like(inner), inner)
        out = torch.addmm(layer.down[1], torch.ops.aten.gelu_(inner), layer.down[0])
        own, common = _both(noise.own, noise.common, squares.up)
        level = noise.own.mean(1, keepdim=True)[self.owner] * noise.share
        totals = level * (_flat(squares.second_gain) + 2 * slope @ squares.inner_turns)
        middle = self.mean(slope)
        turn = middle @ squares.inner_turn
        steep = slope.square_()
        totals += (1 + self.hidden) * level * (steep @ squares.inner_totals)
        steep_middle = self.mean(steep, noise.share)
        entering = steep_middle * own + (steep_middle - middle**2).clamp_(min=0) * common
        new, common_out = _both(entering, common * middle**2, squares.down)
        average = noise.own * (1 + 2 * turn) + (1 + self.hidden) * new
        return out, _Old(average, totals, (noise.common * (1 + 2 * turn) + common_out).clamp_(min=0))

    def norm(
        self, states: Tensor, out: Tensor, keeps: float, old: _Old, weights: tuple[Tensor, Tensor], gain: Tensor
    ) -> tuple[Tensor, _Noise]:
        """Add what a block puts out, whose dropout makes fresh noise, and normalise both the states and their noise.

        A norm takes away the part of the noise that points along the state: all of it where one dimension is the whole
        state. Noise also makes a state longer before it is scaled. That is counted at every norm, though a norm leaves
        the share of noise in a state as it was: it holds back the few tokens whose noise would grow from layer to
        layer, and what is left to correct is smaller so (seen on kinds of text that no correction was fitted on).
        """
        width = states.shape[1]
        fresh = out.square().mul_(keeps)
        states = out.add_(states)
        along, _, size = torch.native_layer_norm(states, (width,), None, None, self.network.epsilon)
        result = torch.addcmul(weights[1], along, weights[0])
        along = along.square_().div_(width)  # from here on the share of each dimension in the state
        fresh_totals = fresh @ torch.stack([torch.full_like(gain, 1 / width), gain], dim=1)
        totals = old.totals.clamp(min=0)
        common_level = old.common.mean(1, keepdim=True)
        added = totals[:, :1] + fresh_totals[:, :1] + common_level[self.owner]
        small = 1 / (size**-2 + added)
        hit = (along * fresh).sum(1, keepdim=True)
        fresh -= along * (2 * fresh - hit)
        scale = self.mean(small)
        middle = self.mean(along, small) / scale
        average = old.average.clamp(min=0) * scale
        average = average * (1 - 2 * middle) + average.mean(1, keepdim=True) * middle
        own = (average + self.mean(fresh, small)).clamp_(min=0) * gain
        left = totals[:, 1:] * (1 - along @ (gain / gain.sum())[:, None]) ** 2 + fresh @ gain[:, None]
        share = self.shares((left * small).clamp_(min=0))
        root = small.sqrt()
        scale = self.mean(root)
        common = (old.common * (1 - 2 * middle) * scale**2 * gain).clamp_(min=0)
        return result, _Noise(own, share, common)


def _flat(gain: Tensor) -> Tensor:
    """Return the totals of a state whose dimensions all have a variance of 1, (2,)."""
    return torch.stack([torch.ones(()), gain.sum()])


def _both(first: Tensor, second: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Multiply two with the same matrix, which is then read once."""
    one, other = (torch.cat([first, second]) @ matrix).chunk(2)
    return one, other


def _wide(values: Tensor, size: int) -> Tensor:
    """Give each dimension of a head what the head has: (n, heads) gives (n, width)."""
    return values.repeat_interleave(size, dim=1)


def _put(target: Tensor, rows: slice, values: Tensor, heads: int, size: int) -> None:
    """Put heads side by side again: (sentences and heads, length, size) goes to (tokens, width)."""
    length = values.shape[1]
    target[rows].view(-1, length, heads, size).copy_(values.view(-1, heads, length, size).transpose(1, 2))
