"""How much one visitor may ask of the page."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Limits:
    """The limits of the page; a server that allows less lowers them.

    Attributes
    ----------
    characters
        Of a sentence, a document, a question.
    words
        Of a sentence whose words are shaded: each word takes a pass of its own.
    sentences, documents, examples, texts
        Of a map, of a search, to learn classes from, to classify.
    labels
        Of a classifier.
    body_bytes
        Of what a browser sends at once, a file that is opened in it for instance.
    visitors
        Whose documents and examples are kept; those who came first are forgotten first.
    seconds
        How long they are kept after the last call of a visitor.
    """

    characters: int = 1000
    words: int = 60
    sentences: int = 200
    documents: int = 1000
    examples: int = 200
    texts: int = 50
    labels: int = 20
    body_bytes: int = 2 << 20
    visitors: int = 64
    seconds: float = 3600

    def within(self, characters: int, body_bytes: int) -> Limits:
        """Return these limits, or those of a server where they are lower.

        >>> Limits().within(500, 1 << 30).characters
        500
        """
        return replace(self, characters=min(self.characters, characters), body_bytes=min(self.body_bytes, body_bytes))
