"""Fine-tuning through the reparameterised sample, end to end on a tiny BERT."""

import copy

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from sklearn.base import clone

from sen2pro import Gaussian, Sen2Pro
from sen2pro.classification import FineTuning, Sen2ProClassifier, finetune
from sen2pro.classification.finetune import Part, Trainer, _batches, _split, pair_loss
from sen2pro.errors import Sen2ProError

pytestmark = pytest.mark.slow

SUBJECTS, VERBS = ("the man", "a woman", "the dog", "a cat"), ("runs", "eats", "plays", "sees")
# The class is a word that a random encoder does not put first: only training can.
TEXTS = [f"{s} {v} {end}" for s in SUBJECTS for v in VERBS for end in ("today", "tomorrow")]
LABELS = [text.split()[-1] for text in TEXTS]
QUICK = FineTuning(epochs=3, batch_size=16, passes=2, rate=1e-3)


def fitted(model, settings=QUICK, **changes):
    return Sen2ProClassifier(model, finetune=settings, **changes).fit(TEXTS, LABELS, show_progress_bar=False)


@pytest.fixture(scope="module")
def trained(shared_folder):
    return fitted(shared_folder)


def weights_of(model):
    return {name: tensor.clone() for name, tensor in model.encoder.transformers.network.state_dict().items()}


def own(tiny, **settings):
    """Return a copy of the model that a test may train."""
    return Sen2Pro(copy.deepcopy(tiny.encoder.source), tokenizer=tiny.encoder.transformers.source_tokenizer, **settings)


def test_the_loss_draws_a_class_together_and_others_apart():
    vectors = torch.tensor([[1.0, 0.1], [1.0, -0.1], [0.1, 1.0], [-0.1, 1.0]])
    good, poor = (pair_loss(vectors, torch.tensor(labels)).item() for labels in ([0, 0, 1, 1], [0, 1, 0, 1]))
    assert good < 0.05 < 0.5 < poor
    assert pair_loss(7 * vectors, torch.tensor([0, 0, 1, 1])).item() == pytest.approx(good)  # lengths do not count
    assert torch.isfinite(pair_loss(vectors, torch.tensor([0, 0, 0, 0])))  # a batch without different classes
    assert torch.isfinite(pair_loss(vectors, torch.tensor([0, 1, 2, 3])))  # or without pairs of one


def test_samples_are_those_of_encoding_and_the_gradient_reaches_the_encoder(tiny):
    model = own(tiny, samples=2, seed=5)
    trainer = Trainer(model, QUICK, seed=0)
    expected = model.encode_sources(TEXTS)
    first = model.encoder.transformers.network.embeddings.word_embeddings.weight
    for source in ("model", "data"):
        samples = trainer.samples(TEXTS, source, seed=5)
        assert samples.mean(dim=0).detach().numpy() == pytest.approx(expected[source].mean, abs=1e-5)
        variance = samples.var(dim=0, unbiased=False)
        assert variance.detach().numpy() == pytest.approx(expected[source].variance, abs=1e-5)
        for moment in (samples.mean(dim=0), variance):
            (gradient,) = torch.autograd.grad(moment.square().sum(), first, retain_graph=True)
            assert gradient.abs().sum() > 0


def test_what_is_compared_are_reparameterised_samples(tiny, monkeypatch):
    model, seen = own(tiny), []
    trainer = Trainer(model, QUICK, seed=0)
    monkeypatch.setattr(finetune, "pair_loss", lambda vectors, labels: seen.append(vectors) or vectors.sum())
    for number in (0, 2):  # even steps: dropout
        trainer._batch_loss(Part(TEXTS, np.zeros(32, np.int64)), [0, number, 0])
        seed = int(np.random.default_rng([0, number, 0]).integers(1 << 30))
        samples = trainer.samples(TEXTS, "model", seed)
        away = (seen[-1] - samples.mean(dim=0)) / samples.std(dim=0, unbiased=False)
        assert away.std().item() == pytest.approx(1, abs=0.05)  # standard normal


def test_training_beats_the_frozen_encoder_and_leaves_the_users_model_alone(tiny):
    # Whether a subject and an end belong together is not linear in a sentence's vector: only training can find it.
    labels = [int((text.split()[1] in ("man", "dog")) == text.endswith("today")) for text in TEXTS]
    train, held_out = (([TEXTS[i] for i in rows], [labels[i] for i in rows]) for rows in np.arange(32).reshape(-1, 2, 4)
                       .swapaxes(0, 1).reshape(2, -1))  # fmt: skip
    before = weights_of(tiny)
    frozen = Sen2ProClassifier(tiny, features="mean").fit(*train, validation=held_out)
    settings = FineTuning(epochs=30, batch_size=16, rate=3e-3)
    trained = Sen2ProClassifier(tiny, finetune=settings).fit(*train, validation=held_out, show_progress_bar=False)
    assert trained.score(*train) > frozen.score(*train)
    assert trained.choice_.log_loss < frozen.choice_.log_loss - 0.1
    assert trained.encoder is not tiny
    assert all(torch.equal(before[name], tensor) for name, tensor in weights_of(tiny).items())


def test_predictions_take_one_pass_unless_sampling_is_asked_for(trained, tiny, shared_folder):
    once = replace(QUICK, epochs=1)
    assert trained.encoder.method == "one-pass"
    assert fitted(shared_folder, once, method="sampling").encoder.method == "sampling"
    own_settings = fitted(tiny, once).encoder  # a model that samples goes on so
    assert (own_settings.method, own_settings.samples) == ("sampling", tiny.samples)
    assert fitted(trained.encoder, once, method="sampling").encoder.method == "one-pass"


def test_with_too_few_different_sentences_for_one_pass_it_samples(shared_folder, monkeypatch):
    monkeypatch.setattr(finetune, "edit", lambda text, *others: text)
    assert fitted(shared_folder, replace(QUICK, epochs=1)).encoder.method == "sampling"


def test_batches_hold_pairs_of_a_class_and_all_sentences_in_turn():
    labels = np.repeat(np.arange(10), 8)
    batches = list(_batches(labels, 16, 5, np.random.default_rng(0)))
    assert sorted(np.concatenate(batches)) == list(range(80))  # five batches of 16: each row once
    assert all(np.bincount(labels[batch]).max() >= 4 for batch in batches)
    small = list(_batches(labels[:8], 16, 2, np.random.default_rng(0)))
    assert [sorted(batch) for batch in small] == [list(range(8))] * 2
    # A batch has a pair even where an order begins with the sentence that the last one ended with.
    pairs = _batches(np.array([0, 0, 0, 1, 1]), 2, 200, np.random.default_rng(0))
    assert {len(batch) for batch in pairs} == {2}


def test_without_a_validation_set_every_sentence_is_trained_on_in_the_end(shared_folder, monkeypatch):
    seen, epoch = [], Trainer._epoch

    def watched(self, number, steps, train, advance):
        seen.append((number, len(train.texts)))
        epoch(self, number, steps, train, advance)

    monkeypatch.setattr(Trainer, "_epoch", watched)
    settings, how = replace(QUICK, epochs=2), {"method": "sampling", "samples": 2}
    fitted(shared_folder, settings, **how)
    assert seen == [(0, 26), (1, 26), (0, 32), (1, 32)]  # a fifth of each class was held out
    seen.clear()
    train, validation = (TEXTS[:24], LABELS[:24]), (TEXTS[24:], LABELS[24:])
    Sen2ProClassifier(shared_folder, finetune=settings, **how).fit(*train, validation=validation)
    assert {size for _, size in seen} == {24}


def test_epochs_are_judged_by_enough_sentences_or_are_a_few(shared_folder, monkeypatch):
    quick, runs = FineTuning(batch_size=16, rate=1e-3), []
    monkeypatch.setattr(Trainer, "run", lambda self, train, judges, *others: runs.append(len(judges.texts)) or 2)
    monkeypatch.setattr(
        Trainer, "repeat", lambda self, train, epochs, show, falling: runs.append((len(train.texts), epochs, falling))
    )
    for settings, epochs in ((quick, 6), (replace(quick, epochs=7), 7)):
        fitted(shared_folder, settings, method="sampling", samples=2)
        assert runs == [(26, epochs, True), (32, epochs, True)]
        runs.clear()
    monkeypatch.setattr(finetune, "FEWEST_JUDGES", 6)
    fitted(shared_folder, quick, method="sampling", samples=2)
    assert runs == [6, (32, 2, False)]  # as many epochs as were best


def test_the_learning_rate_rises_and_falls_where_the_end_is_known_and_else_stays(tiny, monkeypatch):
    rates, step = [], torch.optim.AdamW.step

    def watched(self):
        rates.append(self.param_groups[0]["lr"])
        step(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    part, settings = Part(TEXTS[:8], np.tile([0, 1], 4)), replace(QUICK, rate=0.003, warm_up=2)
    Trainer(own(tiny), settings, seed=0).repeat(part, 2, show=False, falling=True)
    assert rates == pytest.approx([0.001, 0.002, 0.003, 0.0025, 0.002, 0.0015, 0.001, 0.0005])
    rates.clear()
    Trainer(own(tiny), settings, seed=0).repeat(part, 2, show=False)
    assert rates == pytest.approx([0.001, 0.002, *[0.003] * 6])


def test_few_judges_choose_the_temperature_and_nothing_else(shared_folder, monkeypatch):
    monkeypatch.setattr(Trainer, "repeat", lambda *_, **__: None)
    asked, choose = [], finetune.choose

    def watched(folds, classes, options, seed):
        asked.append(options)
        return choose(folds, classes, options, seed)

    monkeypatch.setattr(finetune, "choose", watched)
    fitted(shared_folder, method="sampling")
    fitted(shared_folder, method="sampling", C=10.0, head="sampled", features="mean+variance")
    assert asked == [
        (("mean",), ("expected",), (0.01,)),
        (("mean+variance",), ("sampled",), (10.0,)),
    ]


def test_some_of_each_class_are_held_out():
    train, judges = _split(Part(TEXTS, np.repeat([0, 1, 2], [20, 10, 2])), 0.2, seed=0)
    assert np.bincount(judges.labels).tolist() == [4, 2, 1]
    assert np.bincount(train.labels).tolist() == [16, 8, 1]
    assert not set(train.texts) & set(judges.texts)


def test_the_same_seed_repeats_exactly(shared_folder):
    once = replace(QUICK, epochs=1)
    first, again, other = (fitted(shared_folder, once, seed=seed, method="sampling") for seed in (0, np.int64(0), 1))
    assert np.array_equal(first.weights_.matrix, again.weights_.matrix)
    assert np.array_equal(first.predict_proba(TEXTS), again.predict_proba(TEXTS))
    assert not np.array_equal(first.weights_.matrix, other.weights_.matrix)


def test_training_stops_without_a_gain_and_the_best_epoch_is_kept(tiny, monkeypatch):
    losses, kept, done = iter([3.0, 1.0, 2.0, 2.0, 0.0]), [], []
    model, epoch = own(tiny), Trainer._epoch

    def watched(self, number, *others):
        epoch(self, number, *others)
        kept.append(weights_of(model))
        done.append(number)

    monkeypatch.setattr(Trainer, "loss", lambda self, *parts: next(losses))
    monkeypatch.setattr(Trainer, "_epoch", watched)
    part = Part(TEXTS, np.arange(32) % 2)
    Trainer(model, replace(QUICK, epochs=50, patience=2), seed=0).run(part, part, 2, show=False)
    assert done == [0, 1, 2]
    assert all(torch.equal(kept[0][name], tensor) for name, tensor in weights_of(model).items())
    assert any(not torch.equal(kept[2][name], tensor) for name, tensor in kept[0].items())


def test_accumulated_batches_make_the_mean_of_their_gradients(tiny, monkeypatch):
    trainer, factors, made = (
        Trainer(own(tiny), replace(QUICK, batch_size=8, accumulate=2), seed=0),
        iter([1.0, 3.0]),
        [],
    )
    weight = next(trainer.network.parameters())
    monkeypatch.setattr(trainer, "_batch_loss", lambda batch, key: next(factors) * weight.sum())
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: None)
    monkeypatch.setattr(trainer.optimizer, "step", lambda: made.append(weight.grad.clone()))
    trainer._epoch(0, 1, Part(TEXTS[:16], np.arange(16) % 2), lambda done: None)
    assert torch.equal(made[0], torch.full_like(weight, 2.0))


def test_a_saved_one_says_the_same_and_is_fitted_again_from_the_encoder_as_it_was(trained, shared_folder, tmp_path):
    trained.save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert loaded.predict_proba(TEXTS) == pytest.approx(trained.predict_proba(TEXTS), abs=1e-6)
    assert loaded.encoder.method == "one-pass"
    again = clone(loaded)
    with pytest.raises(Sen2ProError, match=r"set_params\(model=\.\.\.\)"):
        again.fit(TEXTS, LABELS)
    again.set_params(model=str(shared_folder))
    again.fit(TEXTS, LABELS, show_progress_bar=False)
    assert np.array_equal(again.weights_.matrix, trained.weights_.matrix)


def test_the_settings_of_the_users_model_are_kept(tiny):
    model = own(tiny, samples=(3, 4), uncertainty="data", vocabulary=["dog", "cat"], seed=3)
    encoder = fitted(model, replace(QUICK, epochs=1), method="sampling").encoder
    assert (encoder.uncertainty, encoder.vocabulary, encoder.seed) == ("data", ["dog", "cat"], 3)
    assert encoder.samples["data"] == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs of FineTuning must be a whole number of at least 1, not 0"),
        ({"epochs": "a"}, "epochs of FineTuning must be a whole number"),
        ({"batch_size": 1}, "batch_size of FineTuning must be a whole number of at least 2"),
        ({"passes": 1}, "passes of FineTuning must be a whole number of at least 2"),
        ({"patience": True}, "patience of FineTuning must be a whole number"),
        ({"held_out": 2.0}, "held_out of FineTuning must be a number from 0.01 to 0.9, not 2.0"),
        ({"held_out": 0}, "held_out of FineTuning must be a number from 0.01 to 0.9, not 0"),
        ({"rate": "fast"}, "rate of FineTuning must be a number from 0 to 1"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(Sen2ProError, match=message):
        FineTuning(**settings)


def test_what_cannot_be_trained_is_refused(tiny, tmp_path):
    with pytest.raises(Sen2ProError, match="takes the sentences, not their Gaussians"):
        Sen2ProClassifier(tiny, finetune=True).fit(Gaussian(np.eye(4), np.eye(4)), [0, 0, 1, 1])
    own(tiny).fit_whitening(TEXTS, dim=4).save(tmp_path)
    for model in (str(tmp_path), Sen2Pro.load(tmp_path)):
        with pytest.raises(Sen2ProError, match="with a whitening .* cannot be fine-tuned"):
            fitted(model)
