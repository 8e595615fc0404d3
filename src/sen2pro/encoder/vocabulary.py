"""The whole words of a tokenizer, which word-level edits draw from."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def whole_words(tokens: Sequence[str], to_text: Callable[[str], str]) -> list[str]:
    """Pick the whole words (of letters and digits) out of a tokenizer's vocabulary."""
    # SentencePiece and byte-level BPE mark the start of a word (▁word, Ġword), word pieces a continuation (##ing).
    marker = next((m for m in ("▁", "Ġ") if sum(t.startswith(m) for t in tokens) > len(tokens) // 10), "")
    if marker:
        candidates = [to_text(t) for t in tokens if t.startswith(marker)]
    else:
        candidates = [t.removesuffix("</w>") for t in tokens if not t.startswith("##")]
    return list(dict.fromkeys(w for w in map(str.strip, candidates) if w.isalnum()))
