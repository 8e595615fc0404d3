"""Fine-tuning through the reparameterised sample, end to end on a tiny BERT."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from sen2pro import Gaussian, Sen2Pro
from sen2pro.classification import FineTuning, Sen2ProClassifier
from sen2pro.classification.finetune import Part, Trainer
from sen2pro.errors import Sen2ProError

SUBJECTS, VERBS = ("the man", "a woman", "the dog", "a cat"), ("runs", "eats", "plays", "sees")
# The class is a word that a random encoder does not put first: only training can.
TEXTS = [f"{s} {v} {end}" for s in SUBJECTS for v in VERBS for end in ("today", "tomorrow")]
LABELS = [text.split()[-1] for text in TEXTS]
QUICK = FineTuning(epochs=3, batch_size=8, accumulate=2, passes=2, encoder_rate=1e-3, head_rate=1e-2)


def fitted(model, settings=QUICK, **changes):
    return Sen2ProClassifier(model, finetune=settings, **changes).fit(TEXTS, LABELS, show_progress_bar=False)


@pytest.fixture(scope="module")
def trained(tiny):
    return fitted(tiny)


def weights_of(model):
    return {name: tensor.clone() for name, tensor in model.encoder.network.state_dict().items()}


def test_the_gradient_reaches_the_encoder_through_mean_and_spread(tiny):
    model = Sen2ProClassifier(tiny).fit(TEXTS, LABELS)
    trainer = Trainer(tiny, model.scaling_, model.weights_, QUICK, seed=0)
    mean, variance = trainer._moments(TEXTS[:4], seed=0, gradient=True)
    first = tiny.encoder.network.embeddings.word_embeddings.weight
    for moment in (mean, variance):
        (gradient,) = torch.autograd.grad(moment.square().sum(), first, retain_graph=True)
        assert gradient.abs().sum() > 0


def test_moments_are_those_of_encoding_with_as_many_samples(tiny):
    few = Sen2Pro(tiny.encoder.source, tokenizer=tiny.encoder.tokenizer, samples=2, seed=5)
    model = Sen2ProClassifier(tiny).fit(TEXTS, LABELS)
    trainer = Trainer(few, model.scaling_, model.weights_, QUICK, seed=0)
    mean, variance = trainer._moments(TEXTS, seed=5, gradient=False)
    expected = few.encode(TEXTS)
    assert mean.numpy() == pytest.approx(expected.mean, abs=1e-5)
    assert variance.numpy() == pytest.approx(expected.variance, abs=1e-5)


def test_training_beats_the_frozen_encoder_and_leaves_the_users_model_alone(tiny):
    # Whether a subject and an end belong together is not linear in a sentence's vector: only training can find it.
    labels = [int((text.split()[1] in ("man", "dog")) == text.endswith("today")) for text in TEXTS]
    train, held_out = (([TEXTS[i] for i in rows], [labels[i] for i in rows]) for rows in np.arange(32).reshape(-1, 2, 4)
                       .swapaxes(0, 1).reshape(2, -1))  # fmt: skip
    before = weights_of(tiny)
    frozen = Sen2ProClassifier(tiny, features="mean").fit(*train, validation=held_out)
    settings = FineTuning(epochs=30, patience=30, batch_size=16, accumulate=1, passes=2, encoder_rate=1e-2)
    trained = Sen2ProClassifier(tiny, finetune=settings).fit(*train, validation=held_out, show_progress_bar=False)
    assert trained.score(*train) > frozen.score(*train)
    assert trained.choice_.log_loss < frozen.choice_.log_loss - 0.1
    assert trained.encoder is not tiny
    assert all(torch.equal(before[name], tensor) for name, tensor in weights_of(tiny).items())


def test_the_same_seed_repeats_exactly(trained, tiny):
    again = fitted(tiny)
    assert np.array_equal(trained.weights_.matrix, again.weights_.matrix)
    assert np.array_equal(trained.predict_proba(TEXTS), again.predict_proba(TEXTS))
    assert not np.array_equal(trained.weights_.matrix, fitted(tiny, seed=1).weights_.matrix)


def test_a_killed_run_goes_on_and_ends_the_same(trained, tiny, tmp_path, monkeypatch):
    settings = replace(QUICK, checkpoints=str(tmp_path))
    epoch = Trainer._epoch

    def killed(self, number, *others):
        if number == 2:
            raise KeyboardInterrupt
        epoch(self, number, *others)

    monkeypatch.setattr(Trainer, "_epoch", killed)
    with pytest.raises(KeyboardInterrupt):
        fitted(tiny, settings)
    done = []
    monkeypatch.setattr(
        Trainer, "_epoch", lambda self, number, *others: (done.append(number), epoch(self, number, *others))
    )
    resumed = fitted(tiny, settings)
    assert done == [2]  # what was done before the kill is not done again
    assert np.array_equal(resumed.weights_.matrix, trained.weights_.matrix)
    assert np.array_equal(resumed.predict_proba(TEXTS), trained.predict_proba(TEXTS))


def test_a_checkpoint_of_another_run_is_refused(tiny, tmp_path):
    settings = replace(QUICK, epochs=1, checkpoints=str(tmp_path))
    fitted(tiny, settings)
    with pytest.raises(Sen2ProError, match="belongs to a run with other data"):
        fitted(tiny, replace(settings, head_rate=0.5))
    next(tmp_path.iterdir()).write_bytes(b"broken")
    with pytest.raises(Sen2ProError, match="cannot be read"):
        fitted(tiny, settings)


def test_training_stops_when_the_validation_part_no_longer_gains(tiny, monkeypatch):
    monkeypatch.setattr(Trainer, "loss", lambda self, part: 1.0)
    done = []
    monkeypatch.setattr(Trainer, "_epoch", lambda self, number, *others: done.append(number))
    fitted(tiny, replace(QUICK, epochs=50, patience=2))
    assert done == [0, 1]


def test_accumulated_batches_make_the_same_step_as_one_large_batch(tiny):
    # Dropout and edits are keyed by batch, so plain vectors stand in for the samples here.
    steps = []
    model = Sen2ProClassifier(tiny).fit(TEXTS, LABELS)
    for size, accumulate in ((8, 2), (16, 1)):
        settings = replace(QUICK, batch_size=size, accumulate=accumulate)
        trainer = Trainer(tiny, model.scaling_, model.weights_, settings, seed=0)
        trainer._moments = lambda texts, seed, gradient: (
            torch.tensor(tiny.sen2vec(texts)), torch.zeros(len(texts), tiny.dim)
        )  # fmt: skip
        before = trainer.weights().matrix
        trainer._epoch(0, 1, Part(TEXTS[:16], np.arange(16) % 2), lambda done: None)
        steps.append(trainer.weights().matrix - before)
    assert np.abs(steps[0]).max() > 1e-4
    assert steps[0] == pytest.approx(steps[1], abs=1e-6)


def test_a_fine_tuned_classifier_is_saved_with_its_encoder(trained, tmp_path):
    trained.save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert np.array_equal(loaded.predict(TEXTS), trained.predict(TEXTS))
    assert loaded.predict_proba(TEXTS) == pytest.approx(trained.predict_proba(TEXTS), abs=1e-6)
    assert clone(loaded).get_params()["finetune"] is True


def test_a_validation_set_may_be_given(tiny):
    classifier = Sen2ProClassifier(tiny, finetune=replace(QUICK, epochs=1))
    classifier.fit(TEXTS[:16], LABELS[:16], validation=(TEXTS[16:], LABELS[16:]))
    assert classifier.predict(TEXTS).shape == (32,)


def test_what_cannot_be_trained_is_refused(tiny):
    with pytest.raises(Sen2ProError, match="takes the sentences, not their Gaussians"):
        Sen2ProClassifier(tiny, finetune=True).fit(Gaussian(np.eye(4), np.eye(4)), [0, 0, 1, 1])
    with pytest.raises(Sen2ProError, match="use 'sampling'"):
        Sen2ProClassifier(tiny, finetune=True, method="one-pass").fit(TEXTS, LABELS)
