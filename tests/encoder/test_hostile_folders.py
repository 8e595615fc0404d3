"""Folders that an attacker wrote: each holds a payload that would leave a mark on disk. None may, and each is told."""

import json
import pickle
import shutil
import sys
import warnings

import numpy as np
import pytest
import torch
from labelled_texts import LABELS, TEXTS
from safetensors.numpy import load_file, save_file

from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.classification import FineTuning, Sen2ProClassifier
from sen2pro.classification import saved as classifier_files
from sen2pro.estimation.head import CONFIG, TENSORS, Head
from sen2pro.estimation.whitening import Whitening
from sen2pro.io import bundle
from sen2pro.settings import DATA

OUTSIDE = ("../elsewhere", "/etc", "a/../../b", "C:\\\\evil", "..\\\\evil")
PERMISSIONS = ("trust_remote_code", "allow_pickle", "device", "revision", "token")


class Marks:
    """What leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return open, (self.mark, "w")


@pytest.fixture
def mark(tmp_path):
    path = tmp_path / "mark"
    yield path
    assert not path.exists(), "code of the folder has run"


def code(mark):
    return f"open({str(mark)!r}, 'w').close()\nclass X:\n    pass\n"


def change(path, **entries):
    """Change entries of a JSON file, and give it a new digest: whoever writes a folder can write that too."""
    found = json.loads(path.read_text())
    found = {**found, **entries}
    found.pop("digest", None)
    path.write_text(json.dumps({**found, bundle.DIGEST: bundle.digest_of(found)}))


CLASSIFIER = f"{classifier_files.NAME}.json"


def reseal(folder):
    """Compute the digests of a classifier's folder again."""
    config = json.loads((folder / CLASSIFIER).read_text())
    config.pop("digest", None)
    if config.get("encoder"):
        config["encoder"] = classifier_files.digests_of(folder / classifier_files.ENCODER)
    numbers = load_file(folder / f"{classifier_files.NAME}.safetensors")
    try:
        config["digest"] = bundle.digest_of(config, numbers)
    except UnicodeEncodeError:  # half a character has no bytes
        config["digest"] = "0"
    (folder / CLASSIFIER).write_text(json.dumps(config))


def with_modules(folder, mark, kind="evil.X"):
    """Make a folder one of sentence-transformers whose first module is code of its own."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "evil.py").write_text(code(mark))
    return folder


@pytest.fixture
def saved(tiny, tmp_path):
    tiny.save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("load", [Sen2Pro, Sen2Pro.load])
@pytest.mark.parametrize("name", PERMISSIONS)
def test_a_saved_model_cannot_grant_itself_a_permission(saved, mark, load, name):
    with_modules(saved, mark)
    change(saved / "sen2pro.json", **{name: True})
    with pytest.raises(Sen2ProError, match=f"a file may not set '{name}'"):
        load(saved)


@pytest.mark.parametrize(
    "kind", ["evil.X", "sentence_transformers.evil.X", "os.system", "sentence_transformers.util.os"]
)
def test_a_class_outside_the_libraries_is_imported_only_if_the_caller_allows_it(saved, tmp_path, kind, monkeypatch):
    monkeypatch.chdir(saved)
    monkeypatch.syspath_prepend(str(saved))
    with_modules(saved, tmp_path / "ran", kind)
    with pytest.raises(Sen2ProError, match=r"modules.json names the class .*trust_remote_code=True"):
        Sen2Pro.load(saved)
    assert "evil" not in sys.modules
    assert not (tmp_path / "ran").exists()
    if kind == "evil.X":
        with pytest.raises(Sen2ProError, match="cannot be loaded"):  # X is no module
            Sen2Pro.load(saved, trust_remote_code=True)
        assert (tmp_path / "ran").exists()


def module_at(path):
    return [{"idx": 0, "name": "0", "path": path, "type": "sentence_transformers.models.Transformer"}]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        *(("modules.json", module_at(path), "leads out of the folder") for path in OUTSIDE),
        ("config.json", {"auto_map": {"AutoModel": "evil.X"}, "model_type": "evil"}, "cannot be loaded"),
        ("config.json", {"auto_map": {"AutoConfig": "a/repo--evil.X"}, "model_type": "evil"}, "cannot be loaded"),
        ("config.json", {"attn_implementation": "attacker/kernel"}, "attn_implementation to 'attacker/kernel'"),
        ("config.json", {"_attn_implementation": {"": "attacker/kernel:x"}}, "asks to run code"),
        (
            "sentence_bert_config.json",
            {"model_args": {"trust_remote_code": True}},
            "'trust_remote_code' in 'model_args'",
        ),
        ("sentence_bert_config.json", {"model_kwargs": {"allow_all_kernels": True}}, "'allow_all_kernels'"),
        ("sentence_bert_config.json", {"config_kwargs": {"attn_implementation": "a/b"}}, "asks to run code"),
        ("adapter_config.json", {"base_model_name_or_path": "attacker/repo"}, "names another model as its base"),
        ("model.safetensors.index.json", {"weight_map": {"a": "../other.safetensors"}}, "leads out of the folder"),
        ("sub/x.safetensors.index.json", {"weight_map": {"a": "/other.safetensors"}}, "leads out of the folder"),
        ("config.json", {"transformers_weights": "sub/x.safetensors.index.json"}, "'transformers_weights'"),
        ("config.json", {"text_config": {"_attn_implementation": "a/b"}}, "asks to run code"),
        ("config.json", {"_attn_implementation": "flash_attention_2"}, "asks to run code"),
        ("sentence_bert_config.json", {"tokenizer_name_or_path": "/elsewhere"}, "'tokenizer_name_or_path'"),
        ("sentence_bert_config.json", {"modality_config": {"text": {"method": "init_weights"}}}, "'init_weights'"),
        ("tokenizer_config.json", {"vocab": "/any/vocab.txt"}, "sets 'vocab'"),
        ("tokenizer_config.json", {"init_inputs": ["/any/vocab.txt"]}, "sets 'init_inputs'"),
    ],
)
def test_what_the_libraries_would_follow_is_refused(saved, mark, file, content, message):
    path = saved / file
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**before, **content} if isinstance(content, dict) else content))
    (saved / "evil.py").write_text(code(mark))
    with pytest.raises(Sen2ProError, match=message):
        Sen2Pro.load(saved)


def test_weights_in_pickle_format_are_not_read(saved, mark):
    (saved / "model.safetensors").unlink()
    torch.save({"weight": Marks(mark)}, saved / "pytorch_model.bin")
    with pytest.raises(Sen2ProError, match="allow_pickle=True"):
        Sen2Pro.load(saved)
    (saved / "model-of-something-else.safetensors").touch()  # does not stand in for the weights
    with pytest.raises(Sen2ProError, match="allow_pickle=True"):
        Sen2Pro.load(saved)
    change(saved / "sen2pro.json", allow_pickle=True)
    with pytest.raises(Sen2ProError, match="a file may not set"):
        Sen2Pro.load(saved)


@pytest.fixture
def pipeline(shared_folder, tmp_path):
    """A model of sentence-transformers with a Dense module."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    folder = tmp_path / "pipeline"
    modules = [Transformer(str(shared_folder)), Pooling(32, "mean"), Dense(32, 8)]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder))
    assert Sen2Pro(str(folder), samples=2).dim == 8
    return folder


def test_an_activation_that_is_no_class_of_torch_is_not_imported(pipeline, mark):
    path = next(pipeline.glob("2_*/config.json"))
    config = json.loads(path.read_text())
    for name in ("torch.utils.model_dump.__main__.X", "os.system", "torch.nn.functional.relu", "torch.os.system"):
        path.write_text(json.dumps({**config, "activation_function": name}))
        with pytest.raises(Sen2ProError, match="names the activation"):
            Sen2Pro(str(pipeline))


def test_a_dense_module_is_not_unpickled_whatever_stands_beside_it(pipeline, mark):
    dense = next(pipeline.glob("2_*"))
    (dense / "model.safetensors").unlink()
    torch.save({"weight": Marks(mark)}, dense / "pytorch_model.bin")
    (dense / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(Sen2ProError, match="pickle format.*allow_pickle=True"):
        Sen2Pro(str(pipeline))


def test_a_longest_input_of_nothing_is_refused(pipeline):
    path = pipeline / "sentence_bert_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_seq_length": 0}))
    with pytest.raises(Sen2ProError):
        Sen2Pro(str(pipeline))


@pytest.fixture(scope="module")
def head(tiny, tmp_path_factory):
    words = ["the big dog", "a man", "rain today", "music and song", "one two three", "the market fell"]
    corpus = [f"{a} {b} {c}" for a in words for b in words for c in words][:210]
    model = Sen2Pro(tiny.encoder.source, tokenizer=tiny.encoder.transformers.source_tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.distill(corpus, samples=6, verbose=False)
    folder = tmp_path_factory.mktemp("head") / "head"
    model.head.save(folder)
    return folder


def pickled(path, mark):
    path.write_bytes(pickle.dumps(Marks(mark)))


def test_a_head_is_numbers_only(head, tmp_path, mark):
    folder = shutil.copytree(head, tmp_path / "head")
    pickled(folder / TENSORS, mark)
    with pytest.raises(Sen2ProError, match="not a whole safetensors file"):
        Head.load(folder)
    shutil.copy(head / TENSORS, folder)
    evil = {"model.variance": "__import__('os').system('touch mark')"}
    for entry, message in (({"trust_remote_code": True}, "a file may not set"), ({"transforms": evil}, "transforms")):
        change(folder / CONFIG, **entry)
        with pytest.raises(Sen2ProError, match=message):
            Head.load(folder)
        shutil.copy(head / CONFIG, folder)
    text = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(Sen2ProError, match="was changed or damaged since it was saved"):
        Head.load(folder)


def test_every_key_of_a_head_is_checked(head, tmp_path, mark):
    config, folder = json.loads((head / CONFIG).read_text()), shutil.copytree(head, tmp_path / "changed")
    for name in (key for key in config if key != "digest"):
        for wrong in (each for each in (None, [], {}, "x", -1, {"a": None}) if each != config[name]):
            shutil.copy(head / CONFIG, folder)
            change(folder / CONFIG, **{name: wrong})
            with pytest.raises(Sen2ProError):
                Head.load(folder)
        (folder / CONFIG).write_text(json.dumps({key: v for key, v in config.items() if key not in (name, "digest")}))
        # A key that older heads lack may be missing; the hash then tells that the numbers are another head's.
        with pytest.raises(Sen2ProError, match=f"missing required field `{name}`|is damaged|must have the keys"):
            Head.load(folder)


def test_tensors_of_a_head_must_fit_together(head, tmp_path):
    numbers, folder = load_file(head / TENSORS), shutil.copytree(head, tmp_path / "changed")
    for name, array in ((name, array) for name, array in numbers.items() if array.size):
        for wrong in (array.astype(np.complex64), array[:1].copy(), array[None].copy(), np.full_like(array, np.nan)):
            if wrong.shape == array.shape and wrong.dtype == array.dtype and array.dtype.kind != "f":
                continue
            save_file({**numbers, name: wrong}, folder / TENSORS)
            with pytest.raises(Sen2ProError):
                Head.load(folder)


def test_a_whitening_is_numbers_only(tmp_path, mark):
    path = tmp_path / "w.safetensors"
    pickled(path, mark)
    with pytest.raises(Sen2ProError, match="not a whole safetensors file"):
        Whitening.load(path)
    for mean, kernel in ((np.zeros(3), np.zeros((2, 2))), (np.full(2, np.nan), np.eye(2)), (np.zeros(2), np.zeros(2))):
        save_file({"mean": mean.astype(np.float32), "kernel": kernel.astype(np.float32)}, path)
        with pytest.raises(Sen2ProError):
            Whitening.load(path)


@pytest.fixture
def classifier(fitted, tmp_path):
    fitted.save(tmp_path / "classifier")
    return tmp_path / "classifier"


@pytest.mark.parametrize(
    "recipe",
    [
        {"model": "attacker/repo", "trust_remote_code": True}, {"trust_remote_code": True}, {"allow_pickle": True},
        {"device": "cuda"}, {"revision": "main"}, {"tokenizer": "attacker/repo"}, {"head": "/somewhere"},
    ],
)  # fmt: skip
def test_the_recipe_of_a_classifier_grants_nothing(classifier, shared_folder, mark, recipe):
    path = classifier / CLASSIFIER
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "model": {**config["model"], **recipe}}))
    reseal(classifier)
    for given in (None, shared_folder):
        with pytest.raises(Sen2ProError, match="a file may not set"):
            Sen2ProClassifier.load(classifier, model=given)


def test_a_classifier_does_not_choose_where_its_encoder_comes_from(classifier, mark, monkeypatch):
    path = classifier / CLASSIFIER
    config = json.loads(path.read_text())
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked"))
    for model in ("attacker/repo", {**config["model"], "model": "attacker/repo"}):
        path.write_text(json.dumps({**config, "model": model}))
        reseal(classifier)
        with pytest.raises(Sen2ProError, match="may not choose where weights come from.*model='attacker/repo'"):
            Sen2ProClassifier.load(classifier)


def test_every_key_of_a_classifier_is_checked(classifier, shared_folder):
    path = classifier / CLASSIFIER
    config = json.loads(path.read_text())
    places = [(key,) for key in config if key != "digest"]
    places += [(key, inner) for key in config if isinstance(config[key], dict) for inner in config[key]]
    for place in places:
        for wrong in ("missing", [[]], {"a": 1}, "x\ud800", float("nan")):
            changed = json.loads(json.dumps(config))
            inside = changed if len(place) == 1 else changed[place[0]]
            if wrong == "missing":
                del inside[place[-1]]
            else:
                inside[place[-1]] = wrong
            path.write_text(json.dumps(changed))
            if place != ("encoder",):
                reseal(classifier)
            newer = wrong == "missing" and place[0] == "model" and place[-1] in DATA
            if newer or (wrong != wrong and place[-1] == "log_loss"):
                Sen2ProClassifier.load(classifier, model=shared_folder)
                continue
            with pytest.raises(Sen2ProError):
                pytest.fail(f"{place}: {wrong} gave {Sen2ProClassifier.load(classifier, model=shared_folder)}")


def test_a_fine_tuned_encoder_in_a_classifier_runs_no_code(tiny, tmp_path, mark):
    tuned = Sen2ProClassifier(tiny, method="sampling", finetune=FineTuning(epochs=1, batch_size=16))
    tuned.fit(TEXTS, LABELS, show_progress_bar=False).save(tmp_path / "tuned")
    encoder = with_modules(tmp_path / "tuned" / "encoder", mark)
    reseal(tmp_path / "tuned")
    with pytest.raises(Sen2ProError, match="asks to run code"):
        Sen2ProClassifier.load(tmp_path / "tuned")
    change(encoder / "sen2pro.json", trust_remote_code=True)
    reseal(tmp_path / "tuned")
    with pytest.raises(Sen2ProError, match="a file may not set"):
        Sen2ProClassifier.load(tmp_path / "tuned")


def test_a_classifier_is_numbers_only(classifier, shared_folder, mark):
    pickled(classifier / f"{classifier_files.NAME}.safetensors", mark)
    with pytest.raises(Sen2ProError, match="cannot be read"):
        Sen2ProClassifier.load(classifier, model=shared_folder)
