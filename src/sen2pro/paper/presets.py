"""The encoders of the paper's rows by name, as they resolve on the hub."""

from __future__ import annotations

from dataclasses import dataclass

from sen2pro.errors import Sen2ProError


@dataclass(frozen=True)
class Preset:
    """An encoder of the paper: hub id (None: no public one, give a folder), pooling, and what its rows are called."""

    title: str
    model: str | None
    pooling: str | None = None
    whitening: bool = False


PRESETS = {
    "bert-base": Preset("BERT-base", "bert-base-uncased", "first-last-avg"),
    "bert-large": Preset("BERT-large", "bert-large-uncased", "first-last-avg"),
    "bert-whitening": Preset("W-BERT", "bert-base-uncased", "first-last-avg", whitening=True),
    "bert-large-whitening": Preset("W-BERT, second row", "bert-large-uncased", "first-last-avg", whitening=True),
    "sbert-nli": Preset("Sentence-BERT", "sentence-transformers/bert-base-nli-mean-tokens"),
    "simcse-base": Preset("Sim-BERT", "princeton-nlp/unsup-simcse-bert-base-uncased", "cls"),
    "simcse-large": Preset("Sim-BERT large", "princeton-nlp/unsup-simcse-bert-large-uncased", "cls"),
    "consert-base": Preset("C-BERT", None, "mean"),
    "consert-large": Preset("C-BERT large", None, "mean"),
}
REFERENCE = "bert-base"  # whose row of the paper stands beside an encoder that the paper does not have


def resolve_preset(model: str, preset: str | None = None) -> tuple[str, Preset, str]:
    """Return the model to load, its settings, and the preset whose row of the paper stands beside it.

    >>> resolve_preset("simcse-base")[0]
    'princeton-nlp/unsup-simcse-bert-base-uncased'
    >>> resolve_preset("all-MiniLM-L6-v2")[2]  # not in the paper
    'bert-base'
    """
    if preset is not None and preset not in PRESETS:
        raise Sen2ProError(f"unknown preset {preset!r}. It is one of: {', '.join(PRESETS)}")
    if preset is None and model not in PRESETS:
        return model, Preset(model, model), REFERENCE
    name = preset or model
    found = PRESETS[name]
    source = found.model if model in PRESETS else model
    if source is None:
        raise Sen2ProError(f"{name} is not on the hub; give its folder: --preset {name} --model FOLDER")
    return source, found, name
