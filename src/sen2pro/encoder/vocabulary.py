"""What a tokenizer knows: whether that fits the network, and the whole words that word-level edits draw from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sen2pro.errors import Sen2ProError, join_names

if TYPE_CHECKING:
    from sen2pro.encoder.texts import TextTokenizer


def check_vocabulary(tokenizer: TextTokenizer, rows: int | None, folder: Path | None) -> None:
    """Refuse a tokenizer that cannot be the network's: transformers builds one from nothing where a file is missing.

    `rows` is how many tokens the network has embeddings for, if that is known; `folder` is where both come from. More
    rows than tokens are common, since matrices are padded (DeBERTa-v3 has 128,100 rows for 128,001 tokens; ESM C, the
    emptiest one known, 64 for 33). Four times as many are a mistake, and so is a single row too few.
    """
    numbers = tokenizer.numbers()
    where = f" in {folder}" if folder else ""
    missing = "" if folder is None or any(folder.rglob("tokenizer.json")) else "There is no tokenizer.json. "
    remedy = f"{missing}Copy the whole folder of the model, or pass the tokenizer that belongs to it (tokenizer=...)"
    if len(numbers.keys() - tokenizer.special) < 2:  # without a file, T5's tokenizer has one: "▁"
        raise Sen2ProError(f"the tokenizer{where} knows no words, only {join_names(sorted(numbers), 5)}. {remedy}")
    if rows is None:
        return
    greatest = max(numbers.values())
    if greatest >= rows or 4 * len(numbers) < rows:
        has = f"a token of the number {greatest:,}" if greatest >= rows else f"{len(numbers):,} tokens"
        raise Sen2ProError(
            f"the tokenizer{where} does not fit the network: it has {has}, and the network has embeddings for {rows:,} "
            f"tokens, numbered from 0. {remedy}"
        )


def whole_words(tokens: Sequence[str], to_text: Callable[[str], str]) -> list[str]:
    """Pick the whole words (of letters and digits) out of a tokenizer's vocabulary."""
    # SentencePiece and byte-level BPE mark the start of a word (▁word, Ġword), word pieces a continuation (##ing).
    marker = next((m for m in ("▁", "Ġ") if sum(t.startswith(m) for t in tokens) > len(tokens) // 10), "")
    if marker:
        candidates = [to_text(t) for t in tokens if t.startswith(marker)]
    else:
        candidates = [t.removesuffix("</w>") for t in tokens if not t.startswith("##")]
    return list(dict.fromkeys(w for w in map(str.strip, candidates) if w.isalnum()))
