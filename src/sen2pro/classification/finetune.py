"""Train the encoder too: the gradient goes through a reparameterised sample into the network.

Each step makes a few differentiable samples of every sentence (dropout, edited copies), takes their mean and standard
deviation, draws mean + std * eps, and asks the linear head for the class of that. All randomness is keyed by seed and
step, so a run repeats exactly, and one that was killed goes on where its last checkpoint was as if nothing had been.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sen2pro.checks import check_sentences
from sen2pro.classification.checkpoints import Checkpoint
from sen2pro.classification.choosing import Choice, best_factor
from sen2pro.classification.features import Scaling
from sen2pro.classification.heads import Design, Labels, Weights, probabilities
from sen2pro.classification.labels import check_labels, to_numbers
from sen2pro.encoder import Encoder
from sen2pro.errors import Sen2ProError
from sen2pro.gaussian import Gaussian
from sen2pro.model import Sen2Pro
from sen2pro.progress import Show, progress
from sen2pro.sampling.edits import edit

if TYPE_CHECKING:
    from sen2pro.classification.classifier import Sen2ProClassifier

_VALIDATION_SEED = 1 << 30  # of the samples by which an epoch is judged: the same for every epoch


@dataclass(frozen=True)
class FineTuning:
    """How the encoder is trained, for `Sen2ProClassifier(finetune=FineTuning(...))`; True takes these defaults.

    Parameters
    ----------
    epochs, patience
        At most so many epochs; training stops after `patience` of them without a better log-loss on the validation
        part.
    batch_size, accumulate
        Sentences in memory at once, and how many such batches make a step.
    passes
        Differentiable samples of each sentence and kind of uncertainty.
    encoder_rate, head_rate, weight_decay, warm_up
        Of AdamW: learning rates, decay, and the share of all steps over which the rates rise before they fall.
    held_out
        Share of the sentences to judge by, where no validation set is given.
    checkpoints
        A folder that keeps the state of the last epoch; the same call again goes on from there.
    """

    epochs: int = 10
    patience: int = 3
    batch_size: int = 8
    accumulate: int = 2
    passes: int = 3
    encoder_rate: float = 2e-5
    head_rate: float = 1e-3
    weight_decay: float = 0.01
    warm_up: float = 0.1
    held_out: float = 0.2
    checkpoints: str | None = None


class Outcome(NamedTuple):
    """What a fine-tuned classifier predicts with."""

    scaling: Scaling
    weights: Weights
    choice: Choice


class Part(NamedTuple):
    """Sentences and the numbers of their classes."""

    texts: list[str]
    labels: Labels


def finetune(
    classifier: Sen2ProClassifier,
    X: Any,
    labels: Labels,
    validation: tuple[Any, Any] | None,
    show: Show,
) -> tuple[Sen2Pro, Outcome]:
    """Return a fine-tuned copy of the encoder, and the head for it; both start from the frozen classifier."""
    settings = classifier.finetune if isinstance(classifier.finetune, FineTuning) else FineTuning()
    if isinstance(X, Gaussian) or (validation is not None and isinstance(validation[0], Gaussian)):
        raise Sen2ProError("to train the encoder it takes the sentences, not their Gaussians")
    train, held_out = _split(classifier, check_sentences(list(X)), labels, validation, settings)
    model = _own_copy(classifier)
    frozen = type(classifier)(model, features="mean", head=classifier.head, C=classifier.C, seed=classifier.seed)
    names = classifier.classes_
    frozen.fit(train.texts, names[train.labels], validation=(held_out.texts, names[held_out.labels]))
    trainer = Trainer(model, frozen.scaling_, frozen.weights_, settings, classifier.seed)
    loss = trainer.run(train, held_out, show)
    weights = trainer.weights()
    factor = best_factor(trainer.design(held_out.texts), held_out.labels, weights)
    return model, Outcome(
        frozen.scaling_,
        weights.scaled(factor),
        Choice("mean", "fine-tuned", frozen.choice_.C, frozen.choice_.temperature * factor, loss),
    )


def _split(
    classifier: Sen2ProClassifier,
    texts: list[str],
    labels: Labels,
    validation: tuple[Any, Any] | None,
    settings: FineTuning,
) -> tuple[Part, Part]:
    """Return what to train on and what to judge by; without a validation set, some sentences of each class."""
    if validation is not None:
        held = check_sentences(list(validation[0]))
        numbers = to_numbers(check_labels(validation[1], len(held)), classifier.classes_, "validation label")
        return Part(texts, labels), Part(held, numbers)
    rng = np.random.default_rng(classifier.seed)
    out = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        out[rows[: max(1, min(len(rows) - 1, round(settings.held_out * len(rows))))]] = True
    return (
        Part([texts[i] for i in np.flatnonzero(~out)], labels[~out]),
        Part([texts[i] for i in np.flatnonzero(out)], labels[out]),
    )


def _own_copy(classifier: Sen2ProClassifier) -> Sen2Pro:
    """Return a model whose network may be changed: the user's own stays as it is."""
    if classifier.method not in ("auto", "sampling"):
        raise Sen2ProError(
            f"method={classifier.method!r} needs a head, and none fits once the encoder is trained; use 'sampling'"
        )
    given = classifier.model
    if not isinstance(given, Sen2Pro):
        return Sen2Pro(str(given), samples=classifier.samples, uncertainty=classifier.uncertainty, seed=classifier.seed)
    if given.whitening or given.encoder.truncate_dim:
        raise Sen2ProError("an encoder with a whitening or with cut dimensions cannot be fine-tuned")
    return Sen2Pro(
        copy.deepcopy(given.encoder.source),
        tokenizer=given.encoder.tokenizer,
        samples=(given.samples["model"], given.samples["data"]),
        uncertainty=given.uncertainty,
        pooling=given.encoder.pooling,
        normalize=given.normalize,
        dropout=given.encoder.rate,
        seed=given.seed,
    )


class Trainer:
    """Runs the epochs.

    Parameters
    ----------
    model
        The model whose network is trained.
    scaling, weights
        The head to start from.
    settings, seed
        How to train.
    """

    def __init__(self, model: Sen2Pro, scaling: Scaling, weights: Weights, settings: FineTuning, seed: int) -> None:
        self.model, self.scaling, self.settings, self.seed = model, scaling, settings, seed
        self.network, device = model.encoder.network, model.encoder.device
        self.centre = torch.from_numpy(scaling.mean_centre).float().to(device)
        self.head = nn.Linear(weights.matrix.shape[1], len(weights.bias)).to(device)
        with torch.no_grad():
            self.head.weight.copy_(torch.from_numpy(weights.matrix))
            self.head.bias.copy_(torch.from_numpy(weights.bias))
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self.network.parameters() if p.requires_grad], "lr": settings.encoder_rate},
                {"params": self.head.parameters(), "lr": settings.head_rate},
            ],
            weight_decay=settings.weight_decay,
        )
        self._rates = [group["lr"] for group in self.optimizer.param_groups]

    def run(self, train: Part, held_out: Part, show: Show = None) -> float:
        """Train until the validation part no longer gains; keep the best epoch, and return its log-loss."""
        modules = {"network": self.network, "head": self.head}
        state = Checkpoint(modules, self.optimizer, self.settings.checkpoints, self._fingerprint(train, held_out))
        if not state.resume():
            state.record(0, self.loss(held_out))  # the frozen classifier: training is never worse than none
        steps = -(-len(train.texts) // (self.settings.batch_size * self.settings.accumulate))
        with progress(self.settings.epochs * steps, show, unit="steps") as advance:
            advance(state.epoch * steps)
            while state.epoch < self.settings.epochs and state.epoch - state.best_epoch < self.settings.patience:
                self._epoch(state.epoch, steps, train, advance)
                state.record(state.epoch + 1, self.loss(held_out))
        state.restore_best()
        return state.best_loss

    def _epoch(self, epoch: int, steps: int, train: Part, advance: Any) -> None:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(train.texts))
        size, total = self.settings.batch_size, self.settings.epochs * steps
        for step, rows in enumerate(np.array_split(order, steps)):
            number = epoch * steps + step
            self._set_rates((number + 1) / max(1, total))
            self.optimizer.zero_grad()
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                loss = self._batch_loss([train.texts[i] for i in part], train.labels[part], [self.seed, number, start])
                (loss * len(part) / len(rows)).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_([p for g in self.optimizer.param_groups for p in g["params"]], 1.0)
            self.optimizer.step()
            advance(1)

    def _set_rates(self, done: float) -> None:
        """Let the learning rates rise during the warm-up, then fall to 0."""
        warm = self.settings.warm_up
        factor = done / warm if done < warm else (1 - done) / max(1 - warm, 1e-9)
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * max(factor, 0.0)

    def _batch_loss(self, texts: list[str], labels: Labels, key: list[int]) -> Tensor:
        mean, variance = self._moments(texts, int(np.random.default_rng(key).integers(1 << 30)), gradient=True)
        eps = torch.from_numpy(np.random.default_rng([*key, 1]).standard_normal(tuple(mean.shape), np.float32))
        sample = mean + (variance + 1e-12).sqrt() * eps.to(mean.device)
        logits = self.head((sample - self.centre) / self.scaling.mean_scale)
        return nn.functional.cross_entropy(logits, torch.from_numpy(labels).to(mean.device))

    def _moments(self, texts: list[str], seed: int, *, gradient: bool) -> tuple[Tensor, Tensor]:
        """Return mean and variance (n, k) of the sentences from a few samples of each source."""
        means, variances = [], []
        for source in self.model.sources:
            samples = torch.stack([self._sample(texts, source, n, seed, gradient) for n in range(self.settings.passes)])
            means.append(samples.mean(dim=0))
            variances.append(samples.var(dim=0, unbiased=False))
        return torch.stack(means).mean(dim=0), torch.stack(variances).mean(dim=0)

    def _sample(self, texts: list[str], source: str, number: int, seed: int, gradient: bool) -> Tensor:
        encoder, prompt = self.model.encoder, self.model.encoder.prompt(None, None)
        numbers = None
        if source == "data":
            texts = [edit(encoder.seen(text, prompt), self.model.vocabulary, seed, number) for text in texts]
        else:
            numbers = [number] * len(texts)
        tokens = encoder.tokens([prompt + text for text in texts])
        vectors = torch.empty(0)
        for rows in _same_batch(encoder, [len(ids) for ids in tokens]):
            lower = torch.autocast(encoder.device.type, torch.bfloat16, enabled=encoder.device.type == "cuda")
            with lower:
                found = encoder.forward(
                    [tokens[i] for i in rows],
                    numbers and numbers[: len(rows)],
                    seed,
                    encoder.prompt_length(prompt),
                    gradient=gradient,
                ).float()
            if not len(vectors):
                vectors = found.new_zeros(len(tokens), found.shape[1])
            vectors = vectors.index_copy(0, torch.tensor(rows, device=found.device), found)
        return vectors / vectors.norm(dim=1, keepdim=True).clamp(min=1e-12) if self.model.normalize else vectors

    def design(self, texts: list[str]) -> Design:
        """Return the features of sentences, from as few samples as in training."""
        parts = [
            self._moments(texts[start : start + self.settings.batch_size], _VALIDATION_SEED, gradient=False)
            for start in range(0, len(texts), self.settings.batch_size)
        ]
        mean, variance = (torch.cat(side).cpu().numpy() for side in zip(*parts, strict=True))
        return self.scaling(Gaussian(mean, variance))

    def loss(self, part: Part) -> float:
        """Return the log-loss of the averaged probabilities."""
        found = probabilities(self.design(part.texts), self.weights())[np.arange(len(part.labels)), part.labels]
        return float(-np.log(np.maximum(found, 1e-15)).mean())

    def weights(self) -> Weights:
        """Return the head as it is now."""
        return Weights(*(p.detach().double().cpu().numpy().copy() for p in (self.head.weight, self.head.bias)))

    def _fingerprint(self, train: Part, held_out: Part) -> str:
        """Say what a checkpoint belongs to."""
        settings = {name: value for name, value in asdict(self.settings).items() if name != "checkpoints"}
        about: list[Any] = [str(self.model.signature()), settings, self.seed]
        about += [[part.texts, part.labels.tolist()] for part in (train, held_out)]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def _same_batch(encoder: Encoder, lengths: list[int]) -> Iterator[list[int]]:
    """Yield rows that may share a batch: all of them, or those of one length for a network that looks at padding."""
    if encoder.may_pad:
        yield list(range(len(lengths)))
        return
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    for _, rows in groupby(order, key=lambda row: lengths[row]):
        yield list(rows)
