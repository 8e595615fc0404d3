"""The texts of a request: their limits, their check and their tokens, each done once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeVar

from sen2pro.server.engine import Text
from sen2pro.server.http_errors import RequestError
from sen2pro.server.requests import ApiRequest
from sen2pro.server.serving import Serving

Input = TypeVar("Input", bound="str | list[int]")
_INLINE = 8192  # characters that are tokenized in the event loop, which takes a millisecond or two


def as_list(
    given: str | list[str] | list[int] | list[list[int]], field: str, serving: Serving, most: int | None = None
) -> list[str | list[int]]:
    """Return one or several texts (or lists of token ids) as a list within the limits.

    >>> as_list("It rains.", "input", Serving()), as_list([1, 2], "input", Serving())
    (['It rains.'], [[1, 2]])
    """
    several: list[str | list[int]] = []
    for each in [given] if isinstance(given, str) else given:
        if isinstance(each, int):  # a list of numbers is one text
            several = [[number for number in given if isinstance(number, int)]]
            break
        several.append(each)
    most = serving.texts if most is None else min(most, serving.texts)
    if not several:
        raise RequestError("empty", f"'{field}' is empty; give at least one text", field)
    if len(several) > most:
        raise RequestError("large", f"a request may have {most} texts, not {len(several)}", field)
    _check_lengths(several, serving, field)
    return several


def _check_lengths(texts: Sequence[str | list[int]], serving: Serving, field: str | None = None) -> None:
    if max(map(len, texts)) > serving.characters:
        raise RequestError("large", f"a text may have {serving.characters} characters", field)


async def read_texts(
    request: ApiRequest, given: Sequence[str | list[int]], prompt: str, truncate: bool | None = None
) -> list[Text]:
    """Check and tokenize texts: in the event loop if they are short, else part by part in a thread."""
    service = request.service
    engine = service.engine
    if sum(map(len, given)) <= _INLINE:
        decoded = engine.decode(given)
        _check_lengths(decoded, service.serving)  # a token id may stand for many characters
        texts = engine.tokenize(engine.check(decoded), prompt)
    else:  # requests with many texts take turns
        decoded = []
        for part in parts(given):
            decoded += await request.run_in_thread(partial(engine.decode, part))
            _check_lengths(decoded, service.serving)
        checked = await request.run_in_thread(partial(engine.check, decoded))
        texts = []
        for some in parts(checked):
            texts += await request.run_in_thread(partial(engine.tokenize, some, prompt))
    request.text_count += len(texts)
    request.token_count += sum(text.count for text in texts)
    cut = sum(not text.whole for text in texts)
    if cut:
        if not (service.serving.truncate if truncate is None else truncate):
            longest = engine.model.encoder.max_length
            raise RequestError("long", f"a text is longer than the {longest} tokens that this model takes")
        service.metrics.truncated.inc(cut)
    return texts


def parts(texts: Sequence[Input]) -> Iterator[list[Input]]:
    """Cut a list of texts, or of lists of token ids, into parts of few characters, or of one text.

    >>> list(parts(["a" * 5000, "b" * 5000, "c", "d" * 9000])) == [["a" * 5000], ["b" * 5000, "c"], ["d" * 9000]]
    True
    """
    part: list[Input] = []
    size = 0
    for text in texts:
        if part and size + len(text) > _INLINE:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    yield part
