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


def test_a_single_step_changes_the_encoder(tiny, monkeypatch):
    monkeypatch.setattr(finetune, "_FEWEST_STEPS", 1)
    model = own(tiny)
    before = weights_of(model)
    trainer = Trainer(model, replace(QUICK, epochs=1, batch_size=32), seed=0)
    trainer._epoch(0, 1, Part(TEXTS, np.arange(32) % 2), lambda done: None)
    assert any(not torch.equal(before[name], tensor) for name, tensor in weights_of(model).items())


def test_the_rate_rises_during_the_warm_up_and_stays(tiny):
    trainer = Trainer(own(tiny), replace(QUICK, warm_up=3, rate=0.4), seed=0)
    rates = []
    for number in range(6):
        trainer._set_rate(number)
        rates.append(trainer.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_batches_hold_pairs_of_a_class_and_all_sentences_in_turn():
    labels = np.repeat(np.arange(10), 8)
    batches = list(_batches(labels, 16, 5, np.random.default_rng(0)))
    assert sorted(np.concatenate(batches)) == list(range(80))  # five batches of 16: each row once
    assert all(np.bincount(labels[batch]).max() >= 4 for batch in batches)
    small = list(_batches(labels[:8], 16, 2, np.random.default_rng(0)))
    assert [sorted(batch) for batch in small] == [list(range(8))] * 2


def test_a_batch_has_a_pair_even_where_an_order_begins_with_what_the_last_ended_with():
    batches = list(_batches(np.array([0, 0, 0, 1, 1]), 2, 200, np.random.default_rng(0)))
    assert {len(batch) for batch in batches} == {2}


def test_without_a_validation_set_every_sentence_is_trained_on_in_the_end(shared_folder, monkeypatch):
    seen, epoch = [], Trainer._epoch

    def watched(self, number, steps, train, advance):
        seen.append((number, len(train.texts)))
        epoch(self, number, steps, train, advance)

    monkeypatch.setattr(Trainer, "_epoch", watched)
    fitted(shared_folder)
    assert seen == [(0, 26), (1, 26), (2, 26), (0, 32), (1, 32), (2, 32)]  # a fifth of each class was held out
    seen.clear()
    train, validation = (TEXTS[:24], LABELS[:24]), (TEXTS[24:], LABELS[24:])
    Sen2ProClassifier(shared_folder, finetune=QUICK).fit(*train, validation=validation, show_progress_bar=False)
    assert {size for _, size in seen} == {24}


def test_epochs_are_judged_by_enough_sentences_or_are_a_few(shared_folder, monkeypatch):
    quick, runs = FineTuning(batch_size=16, rate=1e-3), []
    monkeypatch.setattr(Trainer, "run", lambda self, train, judges, *others: runs.append(len(judges.texts)) or 2)
    monkeypatch.setattr(
        Trainer, "repeat", lambda self, train, epochs, show, falling: runs.append((len(train.texts), epochs, falling))
    )
    fitted(shared_folder, quick)
    assert runs == [(26, 6, True), (32, 6, True)]
    runs.clear()
    fitted(shared_folder, replace(quick, epochs=7))
    assert runs == [(26, 7, True), (32, 7, True)]
    runs.clear()
    monkeypatch.setattr(finetune, "FEWEST_JUDGES", 6)
    fitted(shared_folder, quick)
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

    def watched(*others, seed, **choices):
        asked.append(choices)
        return choose(*others, **choices, seed=seed)

    monkeypatch.setattr(finetune, "choose", watched)
    fitted(shared_folder)
    fitted(shared_folder, C=10.0, head="sampled", features="mean+variance")
    assert asked == [
        {"features": ("mean",), "heads": ("expected",), "c_values": (0.01,)},
        {"features": ("mean+variance",), "heads": ("sampled",), "c_values": (10.0,)},
    ]


def test_some_of_each_class_are_held_out():
    train, judges = _split(Part(TEXTS, np.repeat([0, 1, 2], [20, 10, 2])), 0.2, seed=0)
    assert np.bincount(judges.labels).tolist() == [4, 2, 1]
    assert np.bincount(train.labels).tolist() == [16, 8, 1]
    assert not set(train.texts) & set(judges.texts)


def test_the_same_seed_repeats_exactly(trained, shared_folder):
    again = fitted(shared_folder, seed=np.int64(0))
    assert np.array_equal(trained.weights_.matrix, again.weights_.matrix)
    assert np.array_equal(trained.predict_proba(TEXTS), again.predict_proba(TEXTS))
    assert not np.array_equal(trained.weights_.matrix, fitted(shared_folder, seed=1).weights_.matrix)


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


def test_accumulated_batches_make_the_mean_of_their_gradients(tiny):
    gradients = []
    for accumulate in (1, 2):
        model = own(tiny)
        trainer = Trainer(model, replace(QUICK, batch_size=8, accumulate=accumulate), seed=0)
        # The same two batches, apart and in one step; a step that only looks at the gradient.
        made = []
        first = model.encoder.transformers.network.embeddings.word_embeddings.weight
        trainer.optimizer.step = lambda made=made, first=first: made.append(first.grad.clone())
        trainer._batch_loss = lambda batch, key, trainer=trainer: pair_loss(
            trainer.samples(batch.texts, "model", 0).mean(dim=0), torch.from_numpy(batch.labels)
        )  # fmt: skip
        torch.nn.utils.clip_grad_norm_, clip = lambda *given: None, torch.nn.utils.clip_grad_norm_
        try:
            trainer._epoch(0, 2 // accumulate, Part(TEXTS[:16], np.arange(16) % 2), lambda done: None)
        finally:
            torch.nn.utils.clip_grad_norm_ = clip
        gradients.append(made)
    assert gradients[1][0] == pytest.approx((gradients[0][0] + gradients[0][1]) / 2, abs=1e-6)


def test_probabilities_are_scaled_by_the_temperature_that_was_chosen(tiny, monkeypatch):
    validation = (TEXTS[16:], LABELS[16:])
    settings = replace(QUICK, epochs=1)
    classifier = Sen2ProClassifier(tiny, finetune=settings).fit(TEXTS[:16], LABELS[:16], validation=validation)
    truth = np.array([classifier.classes_.tolist().index(label) for label in validation[1]])
    found = -np.log(classifier.predict_proba(validation[0])[np.arange(16), truth]).mean()
    assert found == pytest.approx(classifier.choice_.log_loss, rel=0.05)  # from fewer draws of the noise


def test_a_fine_tuned_classifier_is_saved_with_its_encoder(trained, tmp_path):
    trained.save(tmp_path / "saved")
    loaded = Sen2ProClassifier.load(tmp_path / "saved")
    assert np.array_equal(loaded.predict(TEXTS), trained.predict(TEXTS))
    assert loaded.predict_proba(TEXTS) == pytest.approx(trained.predict_proba(TEXTS), abs=1e-6)
    assert loaded.encoder.method == "one-pass"


def test_what_is_fitted_again_starts_from_the_encoder_as_it_was(trained, shared_folder, tmp_path):
    trained.save(tmp_path / "saved")
    again = clone(Sen2ProClassifier.load(tmp_path / "saved"))
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
