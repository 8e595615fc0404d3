"""Train the encoder: sentences of one class are drawn together, those of different classes apart.

Each step draws mean + std * eps for every sentence of a batch, from a few differentiable samples (dropout and edited
copies by turns). The loss is SetFit's, but over all pairs of the batch at once. All randomness is keyed by seed and
step, so a run repeats exactly.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sen2pro.classification.heads import Choice, Fold, Options, choose
from sen2pro.encoder.backend import Keys
from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.io.bundle import Config
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show, progress
from sen2pro.sampling.edits import edit
from sen2pro.validation import Labels, check_whole

SCHEME = 2  # cache version: raise it when training gives different weights
_FEWEST_STEPS = 4  # of an epoch, however few the sentences
_TOGETHER = 4  # sentences of one class that stand together in a batch, so that there are pairs of them
_MOST_EPOCHS = 20
FEWEST_JUDGES, _JUDGES = 40, 200  # sentences by which an epoch is judged; with fewer, chance would decide
_UNJUDGED_EPOCHS, _UNJUDGED_C = 6, 0.01  # where nothing is chosen; set on the validation sets of AG News and IMDB
_CORPUS, _TEACHER = 256, 8  # sentences and samples from which one pass is learnt for the trained encoder


class FineTuning(Config, frozen=True):
    """How the encoder is trained, for `Sen2ProClassifier(finetune=FineTuning(...))`; True takes these defaults.

    Parameters
    ----------
    epochs, patience
        Maximum number of epochs (default 20; exactly 6 with fewer than 40 validation sentences). Training stops after
        `patience` epochs without a better log-loss on the validation part. Fewer than 40 validation sentences cannot
        tell one epoch from the next: then the learning rate falls to 0 over all epochs, and these sentences choose the
        temperature only (features, head and C are `mean`, `expected` and 0.01, unless given).
    batch_size, accumulate
        Sentences in memory at once, all pairs of which are compared, and how many such batches make a step.
    passes
        Differentiable samples of each sentence in a step, at least 2.
    rate, weight_decay, warm_up
        Of AdamW: learning rate, decay of the weights, and the number of steps over which the rate rises.
    held_out
        Share of the sentences to judge by, where no validation set is given; once all is chosen, the encoder is trained
        again on every sentence, for as many epochs as were best.

    Examples
    --------
    >>> FineTuning(epochs=10, batch_size=16, accumulate=2).epochs
    10
    """

    epochs: int | None = None
    patience: int = 2
    batch_size: int = 40
    accumulate: int = 1
    passes: int = 2
    rate: float = 5e-5
    weight_decay: float = 0.01
    warm_up: int = 2
    held_out: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        least = {"epochs": 1, "patience": 1, "batch_size": 2, "accumulate": 1, "passes": 2, "warm_up": 0}
        for name, low in least.items():
            if name != "epochs" or self.epochs is not None:
                check_whole(f"{name} of FineTuning", getattr(self, name), low)
        for name, small, great in (("rate", 0, 1), ("weight_decay", 0, 1), ("held_out", 0.01, 0.9)):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.floating)) or not small <= value <= great:
                raise Sen2ProError(f"{name} of FineTuning must be a number from {small} to {great}, not {value!r}")


class Part(NamedTuple):
    """Sentences and the numbers of their classes."""

    texts: list[str]
    labels: Labels

    def only(self, rows: NDArray[np.int64]) -> Part:
        """Return some of them."""
        return Part([self.texts[i] for i in rows], self.labels[rows])


class Trainer:
    """Trains the network of a model."""

    def __init__(self, model: Sen2Pro, settings: FineTuning, seed: int) -> None:
        self.model, self.settings, self.seed = model, settings, int(seed)
        self._last: int | None = None  # the step by which the learning rate has fallen to nothing
        self.network: nn.Module = model.encoder.transformers.network
        self._trained = [p for p in self.network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self._trained, lr=settings.rate, weight_decay=settings.weight_decay)

    def run(self, train: Part, judges: Part, classes: int, show: Show = None) -> int:
        """Train until the validation loss stops falling; restore and return the best epoch."""
        epochs, steps = self.settings.epochs or _MOST_EPOCHS, self._steps(train)
        best, least, weights = 0, self.loss(train, judges, classes), self._weights()  # never worse than no training
        with progress(epochs * steps, show, unit="steps", title="training") as advance:
            for epoch in range(epochs):
                self._epoch(epoch, steps, train, advance)
                loss = self.loss(train, judges, classes)
                if loss < least:
                    best, least, weights = epoch + 1, loss, self._weights()
                if epoch + 1 - best >= self.settings.patience:
                    break
        self.network.load_state_dict(weights)
        return best

    def repeat(self, train: Part, epochs: int, show: Show = None, *, falling: bool = False) -> None:
        """Train for a fixed number of epochs without validation; the learning rate may fall to 0 over them."""
        steps = self._steps(train)
        self._last = epochs * steps if falling else None
        with progress(epochs * steps, show, unit="steps", title="training") as advance:
            for epoch in range(epochs):
                self._epoch(epoch, steps, train, advance)

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def _steps(self, train: Part) -> int:
        size = self.settings.batch_size * self.settings.accumulate
        return max(_FEWEST_STEPS, -(-len(train.texts) // size))

    def _epoch(self, epoch: int, steps: int, train: Part, advance: Callable[[float], None]) -> None:
        rng, parts = np.random.default_rng([self.seed, epoch]), self.settings.accumulate
        batches = list(_batches(train.labels, self.settings.batch_size, steps * parts, rng))
        for step in range(steps):
            number = epoch * steps + step
            self._set_rate(number)
            self.optimizer.zero_grad()
            for part in range(parts):
                loss = self._batch_loss(train.only(batches[step * parts + part]), [self.seed, number, part])
                (loss / parts).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self._trained, 1.0)
            self.optimizer.step()
            advance(1)

    def _set_rate(self, number: int) -> None:
        """Let the learning rate rise during the warm-up; it then stays, or falls if it is known where training ends."""
        warm_up = self.settings.warm_up
        factor = min(1.0, (number + 1) / (warm_up + 1))
        if self._last is not None and number >= warm_up:
            factor = (self._last - number) / (self._last - warm_up)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate * factor

    def _batch_loss(self, batch: Part, key: list[int]) -> Tensor:
        source = self.model.sources[key[1] % len(self.model.sources)]
        samples = self.samples(batch.texts, source, int(np.random.default_rng(key).integers(1 << 30)))
        eps = torch.from_numpy(np.random.default_rng([*key, 1]).standard_normal(samples.shape[1:], np.float32))
        std = (samples.var(dim=0, unbiased=False) + 1e-12).sqrt()
        return pair_loss(samples.mean(dim=0) + std * eps.to(std.device), torch.from_numpy(batch.labels).to(std.device))

    def samples(self, texts: list[str], source: str, seed: int) -> Tensor:
        """Return samples of each sentence with their gradient: (passes, n, k)."""
        return torch.stack([self._sample(texts, source, number, seed) for number in range(self.settings.passes)])

    def _sample(self, texts: list[str], source: str, number: int, seed: int) -> Tensor:
        encoder, prompt = self.model.encoder, self.model.encoder.prompt(None, None)
        tokens = encoder.tokenize(texts, prompt)
        if source == "data":
            edited = [edit(text, self.model.vocabulary, seed, number) for text in tokens.seen]
            tokens = encoder.tokenize(edited, prompt)
        # A network that looks at padding takes sentences of one length.
        lengths = [0 if encoder.may_pad else len(ids) for ids in tokens.ids]
        order, parts = sorted(range(len(tokens)), key=lengths.__getitem__), []
        for _, rows in groupby(order, key=lengths.__getitem__):
            batch = tokens.rows(rows)
            keys = Keys(seed, [number] * len(batch)) if source == "model" else None
            with torch.autocast(encoder.device.type, torch.bfloat16, enabled=encoder.device.type == "cuda"):
                parts.append(encoder.transformers.forward(batch, keys, gradient=True)[0].float())
        vectors = torch.cat(parts)[np.argsort(order)]
        return nn.functional.normalize(vectors, dim=1) if self.model.normalize else vectors

    def loss(self, train: Part, judges: Part, classes: int) -> float:
        """Return the log-loss on the judges of the best head on plain vectors: one pass of each sentence."""
        vectors = [self.model.encode_plain(part.texts) for part in (train, judges)]
        points = [Gaussian(each, np.zeros_like(each)) for each in vectors]
        fold = Fold(points[0], train.labels, points[1], judges.labels)
        best = choose([fold], classes, Options(("mean",), ("expected",)), self.seed)
        return float(best.losses.mean())


def pair_loss(vectors: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of (1 - cos)^2 over pairs of one class, plus that of cos^2 over pairs of different ones, halved.

    >>> pair_loss(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]), torch.tensor([0, 0, 1])).item()
    0.75
    """
    units = nn.functional.normalize(vectors, dim=1)
    first, second = torch.triu_indices(len(labels), len(labels), offset=1, device=labels.device)
    cosines = (units[first] * units[second]).sum(dim=1)
    same = labels[first] == labels[second]
    terms = [(1 - cosines[same]).square(), cosines[~same].square()]
    return torch.stack([term.mean() for term in terms if len(term)]).sum() / 2


def _batches(labels: Labels, size: int, number: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield `number` batches of rows, a few of a class together, in a new order whenever all were there."""
    rows: list[int] = []
    size = min(size, len(labels))
    for _ in range(number):
        while len(rows) < size:
            groups: list[NDArray[np.int64]] = []
            for label in np.unique(labels):
                of_class = rng.permutation(np.flatnonzero(labels == label))
                groups += np.split(of_class, range(_TOGETHER, len(of_class), _TOGETHER))
            rows += [int(row) for place in rng.permutation(len(groups)) for row in groups[place]]
        taken = size
        while len(batch := dict.fromkeys(rows[:taken])) < 2:  # where one order ends and the next begins
            taken += 1
        yield np.array(list(batch), np.int64)
        rows = rows[taken:]


def fine_tuned(
    encoder: Sen2Pro, *, one_pass: bool, settings: FineTuning, every: Part, held_out: Part | None,
    options: Options, seed: int, show: Show,
) -> tuple[Sen2Pro, Gaussian, Choice]:  # fmt: skip
    """Return a fine-tuned copy of an encoder, its Gaussians of the sentences, and what was chosen among the options.

    With `one_pass` the copy gets a head, if there are enough sentences to learn one from.
    """
    if encoder.whitening or encoder.encoder.truncate_dim:
        raise Sen2ProError("an encoder with a whitening or with cut dimensions cannot be fine-tuned")
    classes = int(every.labels.max()) + 1
    train, judges = (every, held_out) if held_out else _split(every, settings.held_out, seed)
    model = _own_copy(encoder)
    trainer = Trainer(model, settings, seed)
    judged = len(judges.texts) >= FEWEST_JUDGES
    if judged:
        some = _evenly(np.argsort(judges.labels, kind="stable"), _JUDGES)  # of each class
        epochs = trainer.run(train, judges.only(np.sort(some)), classes, show)
    else:  # these choose the temperature, and nothing else
        c_values = options.c_values if len(options.c_values) == 1 else (_UNJUDGED_C,)
        options = Options(options.features[:1], options.heads[:1], c_values)
        epochs = settings.epochs or _UNJUDGED_EPOCHS
        trainer.repeat(train, epochs, show, falling=True)
    if one_pass and (held_out or len(every.texts) >= _CORPUS):  # for fewer, samples cost less than a head
        _learn_one_pass(model, [*train.texts, *judges.texts], show)
    gaussian, other = (model.encode(part.texts, show_progress_bar=show) for part in (train, judges))
    fold = Fold(gaussian, train.labels, other, judges.labels)
    choice = choose([fold], classes, options, seed).choice
    if held_out is None:  # all is chosen: the same again, with every sentence
        model = _own_copy(encoder)
        Trainer(model, settings, seed).repeat(every, epochs, show, falling=not judged)
        if one_pass:
            _learn_one_pass(model, every.texts, show)
        gaussian = model.encode(every.texts, show_progress_bar=show)
    return model, gaussian, choice


def _split(every: Part, share: float, seed: int) -> tuple[Part, Part]:
    """Return what to train on and what to judge by: some sentences of each class."""
    rng = np.random.default_rng(seed)
    out = np.zeros(len(every.labels), bool)
    for label in np.unique(every.labels):
        rows = rng.permutation(np.flatnonzero(every.labels == label))
        out[rows[: max(1, min(len(rows) - 1, round(share * len(rows))))]] = True
    return every.only(np.flatnonzero(~out)), every.only(np.flatnonzero(out))


def _evenly(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64)]


def _own_copy(model: Sen2Pro) -> Sen2Pro:
    """Return a model that samples and whose network may be changed; the given one stays."""
    settings = model.settings.changed(method="sampling", head=None)
    if not (isinstance(settings.model, (str, Path)) and model.encoder.is_as_loaded):
        tokenizer = model.encoder.transformers.source_tokenizer
        settings = settings.changed(model=copy.deepcopy(model.encoder.source), tokenizer=tokenizer)
    return Sen2Pro.from_settings(settings)


def _learn_one_pass(model: Sen2Pro, texts: list[str], show: Show) -> None:
    """Fit a head for one pass on the sentences at hand and edited copies of them; without enough, keep on sampling."""
    chosen = [texts[i] for i in _evenly(np.arange(len(texts)), _CORPUS)]
    corpus, vocabulary, seen = dict.fromkeys(chosen), model.vocabulary, model.encoder.tokenize(chosen).seen
    for number in range(_CORPUS):
        if len(corpus) >= _CORPUS:
            break
        corpus |= dict.fromkeys(edit(text, vocabulary, model.seed, number) for text in seen)
    if len(corpus) >= _CORPUS:
        model.distill(list(corpus)[:_CORPUS], samples=_TEACHER, show_progress_bar=show, verbose=False)
