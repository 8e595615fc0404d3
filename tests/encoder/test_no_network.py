"""Opening a model's folder asks the hub for nothing, whatever the folder says: a server in the hub's place listens."""

import json
import os
import subprocess
import sys
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from conftest import FAMILIES, SIZE, build_tokenizer, save_folder, save_pipeline
from sentence_transformers.sentence_transformer.modules import Dense, Pooling
from transformers import GPT2Config, GPT2Model

BACKBONES = (
    "dpt", "upernet", "detr", "maskformer", "vitmatte", "depth_anything", "rt_detr", "mask2former", "oneformer"
)  # fmt: skip
DPT = {"model_type": "dpt", "backbone": "attacker/inner", "use_pretrained_backbone": True}
SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 90}
BERT = {"model_type": "bert", **SMALL}
# Configurations, and what an error must say of each.
HOSTILE = {
    kind: ({**DPT, "model_type": kind, "backbone": f"attacker/{kind}"}, f"the model type '{kind}', which is not a text")
    for kind in BACKBONES
}
HOSTILE |= {
    "a backbone's": ({"model_type": "maskformer", "backbone_config": DPT}, "'maskformer', which is not a text encoder"),
    "two": ({"model_type": "vision-text-dual-encoder", "vision_config": DPT, "text_config": BERT}, "'vision-text-"),
    "encoder": ({"model_type": "encoder-decoder", "encoder": DPT, "decoder": BERT}, "'encoder-decoder'"),
    "text": ({"model_type": "llava", "text_config": DPT, "vision_config": SMALL}, "'llava'"),
    "any part": ({"model_type": "modernvbert", "vision_config": DPT, "text_config": BERT}, "'modernvbert'"),
    "sound": ({**SMALL, "model_type": "moshi", "audio_encoder_config": DPT}, "'moshi'"),
    "inside bert": ({**BERT, "backbone_config": DPT}, "a part of the model type 'dpt'"),
    "inside t5gemma": ({"model_type": "t5gemma", "encoder": DPT, "decoder": SMALL}, "a part of the model type 'dpt'"),
    "in a list": ({**BERT, "others": [{"deep": DPT}]}, "a part of the model type 'dpt'"),
    "timm": ({"model_type": "timm_wrapper", "architecture": "hf_hub:attacker/timm"}, "'timm_wrapper'"),
    "code": ({"model_type": "evil", "auto_map": {"AutoConfig": "attacker/inner--evil.X"}}, "'evil'"),
    "none": ({"backbone": "attacker/inner"}, "'model_type'"),
}


class Hub:
    """A hub that serves the folders given to it, and keeps a list of what it was asked for."""

    def __init__(self):
        self.asked, self.folders = [], {}
        hub = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.asked.append(f"{self.command} {self.path}")
                name = "/".join(self.path.removeprefix("/api/models").split("/")[1:3])
                folder, file = hub.folders.get(name), self.path.rpartition("/")[2]
                if folder is None:
                    return self.send_error(404)
                files = {path.name: path.stat().st_size for path in folder.iterdir()}
                tree = [{"type": "file", "path": path, "size": size, "oid": path} for path, size in files.items()]
                about = {"id": name, "sha": "0" * 40, "siblings": [{"rfilename": path} for path in files]}
                if self.path.startswith("/api"):
                    self.answer(json.dumps(tree if "/tree/" in self.path else about).encode())
                else:
                    self.answer((folder / file).read_bytes())

            do_HEAD = do_POST = do_GET

            def answer(self, content):
                self.send_response(200)
                self.send_header("ETag", f'"{sha256(content).hexdigest()}"')
                self.send_header("X-Repo-Commit", "0" * 40)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        Thread(target=self.server.serve_forever, daemon=True).start()

    def run(self, home, code, *arguments):
        """Run code in a process of its own, since huggingface_hub reads its address when it is imported."""
        self.asked.clear()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))}
        environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}", "HF_HOME": str(home / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", START + code, *map(str, arguments)],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


START = """
import json, sys
from sen2pro import Sen2Pro, Sen2ProError
from sen2pro.encoder import encoder, find

def opened(name, **options):
    try:
        Sen2Pro(name, **options)
    except Sen2ProError as error:
        return str(error)
    return "loaded"

"""
OPEN_ALL = "print(json.dumps([opened(name) for name in sys.argv[1:]]))"


@pytest.fixture(scope="module")
def hub():
    hub = Hub()
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


def put(folder, config):
    """Write a folder with the weights of a network, a tokenizer and another configuration."""
    (save_folder(folder) / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Folders that ask for another model, and what an error must say of each."""
    base = tmp_path_factory.mktemp("hostile")
    folders = {put(base / name, config): said for name, (config, said) in HOSTILE.items()}
    whole = save_pipeline(base / "whole", Pooling(32))
    (whole / "config.json").write_text(json.dumps(DPT))
    inner = save_pipeline(base / "inner", Pooling(32))
    modules = json.loads((inner / "modules.json").read_text())
    (inner / "modules.json").write_text(json.dumps([{**modules[0], "path": "0_Transformer"}, *modules[1:]]))
    files = [path for path in inner.iterdir() if path.is_file() and path.name != "modules.json"]
    (inner / "0_Transformer").mkdir()
    for path in files:
        path.rename(inner / "0_Transformer" / path.name)
    (inner / "0_Transformer" / "config.json").write_text(json.dumps(DPT))
    (inner / "config.json").write_text(json.dumps(BERT))
    folders |= {whole: "the model type 'dpt'", inner: "0_Transformer cannot be loaded: config.json names the model"}
    about = {"audio_tokenizer_class": "BertModel", "audio_tokenizer_name_or_path": "attacker/sound"}
    for file, content in (("processor_config", {"audio_tokenizer": about}), ("audio_tokenizer_config", about)):
        folder = save_pipeline(base / file, Pooling(32, "max"))
        (folder / "processor_config.json").write_text("{}")
        (folder / f"{file}.json").write_text(json.dumps(content))
        folders[folder] = "which may name files outside the folder"
    return folders


def test_a_folder_that_asks_for_another_model_is_refused_and_fetches_nothing(hostile, hub, tmp_path):
    for said, expected in zip(hub.run(tmp_path, OPEN_ALL, *hostile), hostile.values(), strict=True):
        assert expected in said
    assert hub.asked == []


def test_the_libraries_cannot_fetch_either_if_such_a_folder_comes_through(hostile, hub, tmp_path):
    code = "find.check_types = find.check_folder = lambda *_, **__: None\n" + OPEN_ALL
    dangerous = list(hostile)[: len(BACKBONES) + 3] + list(hostile)[-4:]
    assert all(said.startswith("the model in ") for said in hub.run(tmp_path, code, *dangerous))
    assert hub.asked == []


def test_models_of_text_load_and_fetch_nothing(hub, tmp_path):
    folders = [save_folder(tmp_path / family, family) for family in FAMILIES]
    folders += [save_pipeline(tmp_path / "p", Pooling(32)), save_pipeline(tmp_path / "d", Pooling(32), Dense(32, 8))]
    GPT2Model(GPT2Config(vocab_size=SIZE["vocab_size"], n_embd=32, n_layer=2, n_head=4)).save_pretrained(
        tmp_path / "gpt2"
    )
    build_tokenizer().save_pretrained(tmp_path / "gpt2")
    code = """
found = [opened(name) for name in sys.argv[1:]]
encoder.load_native = lambda *_, **__: None  # now by the libraries
print(json.dumps(found + [opened(name) for name in sys.argv[1:]]))
"""
    assert set(hub.run(tmp_path, code, *folders, tmp_path / "gpt2")) == {"loaded"}
    assert hub.asked == []


def test_a_model_of_the_hub_is_fetched_and_then_no_other(hub, tmp_path):
    hub.folders = {
        "someone/albert": save_folder(tmp_path / "a", "albert"),
        "someone/hostile": put(tmp_path / "b", DPT),
    }
    said = hub.run(tmp_path, OPEN_ALL, *hub.folders, "someone/nothing")
    assert said[0] == "loaded"
    assert "'dpt', which is not a text encoder" in said[1]
    assert "no model 'someone/nothing'" in said[2]
    assert all(f"/{name}/" in "\n".join(hub.asked) for name in [*hub.folders, "someone/nothing"])
    assert "attacker" not in "\n".join(hub.asked)


def test_only_the_thread_that_opens_a_folder_is_kept_from_the_hub(hub, tmp_path):
    code = """
from threading import Thread
from huggingface_hub import HfApi
from sen2pro.encoder.find import fetching_nothing

def ask(name, told):
    try:
        HfApi().model_info("ask/" + name)
    except Exception as error:
        told.append(type(error).__name__)

told = []
ask("before", told)  # leaves a connection open
try:
    with fetching_nothing():
        ask("inside", told)
        other = Thread(target=ask, args=("thread", told))
        other.start()
        other.join()
        raise KeyError
except KeyError:
    ask("after", told)
print(json.dumps(told))
"""
    refused, answered = "OfflineModeIsEnabled", "HfHubHTTPError"
    assert hub.run(tmp_path, code) == [answered, refused, answered, answered]
    assert [path.rpartition("/")[2] for path in hub.asked if "/ask/" in path] == ["before", "thread", "after"]


def test_who_trusts_a_folder_may_load_any_type(hostile, hub, tmp_path):
    code = "print(json.dumps([opened(name, trust_remote_code=True) for name in sys.argv[1:]]))"
    assert "not a text encoder" not in hub.run(tmp_path, code, next(iter(hostile)))[0]
    assert any("/attacker/dpt" in path for path in hub.asked)
