"""What a visitor pastes or opens, as sentences; what is wrong with it is said so that it can be put right."""

from __future__ import annotations

from sen2pro.checks import check_text, is_blank
from sen2pro.errors import Sen2ProError, some
from sen2pro.io.sentences import Record, UploadedSource
from sen2pro.page.limits import Limits

_LONGEST_LABEL = 60  # letters


def sentence(text: str | None, what: str, limits: Limits) -> str:
    """Return one text without the blanks around it.

    >>> sentence(" It rains. ", "the first sentence", Limits())
    'It rains.'
    >>> sentence("", "the first sentence", Limits())
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: The first sentence is empty. Write something, or choose an example.
    """
    found = " ".join(check_text(what, text or "").split())
    name = what[:1].upper() + what[1:]
    if is_blank(found):
        raise Sen2ProError(f"{name} is empty. Write something, or choose an example.")
    _check(name, found, limits)
    return found


def sentences(text: str | None, what: str, most: int, limits: Limits, least: int = 1) -> list[str]:
    r"""Return the lines of a text, without blank ones.

    >>> sentences("It rains.\n\nI like tea.\n", "sentences", 200, Limits())
    ['It rains.', 'I like tea.']
    >>> sentences("a\nb\nc", "sentences", 2, Limits())
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: These are 3 sentences, and 2 are the most. Leave some out.
    """
    lines = [" ".join(line.split()) for line in check_text(what, text or "").splitlines()]
    for number, line in enumerate(lines, start=1):
        _check(f"Line {number}", line, limits)
    found = [line for line in lines if not is_blank(line)]
    if not found:
        raise Sen2ProError(f"There are no {what} yet. Write one a line, open a file, or choose an example.")
    if len(found) < least:
        raise Sen2ProError(f"Give at least {least} {what}, one a line.")
    if len(found) > most:
        raise Sen2ProError(f"These are {len(found):,} {what}, and {most:,} are the most. Leave some out.")
    return found


def labelled(text: str | None, limits: Limits) -> tuple[list[str], list[str]]:
    r"""Return texts and their labels, from lines `label: text` or from CSV with the columns label and text.

    >>> labelled("sport: She won the set.\nmoney: Shares fell.", Limits())
    (['She won the set.', 'Shares fell.'], ['sport', 'money'])
    >>> labelled("text,label\n\"Shares fell, again.\",money", Limits())
    (['Shares fell, again.'], ['money'])
    """
    pasted = check_text("the examples", text or "").strip()
    header = {name.strip().strip('"').lower() for name in pasted.partition("\n")[0].split(",")}
    if "label" in header and header & {"text", "sentence"}:
        source = UploadedSource("CSV", pasted.encode(), kind="csv", id_column="label", skip_blank=True)
        pairs = [(str(record.id).strip(), " ".join(record.text.split())) for record in source]
    else:
        pairs = [_pair(number, line) for number, line in enumerate(pasted.splitlines(), start=1) if not is_blank(line)]
    if not pairs:
        raise Sen2ProError("There are no examples yet. Write one a line, as label: text, or choose an example.")
    if len(pairs) > limits.examples:
        raise Sen2ProError(f"These are {len(pairs):,} examples, and {limits.examples} are the most. Leave some out.")
    labels = list(dict.fromkeys(label for label, _ in pairs))
    if len(labels) > limits.labels:
        raise Sen2ProError(f"There are {len(labels)} labels, and {limits.labels} are the most: {some(labels, 5)}.")
    for number, (label, line) in enumerate(pairs, start=1):
        if is_blank(label) or len(label) > _LONGEST_LABEL:
            raise Sen2ProError(f"The label of example {number} must have 1 to {_LONGEST_LABEL} characters.")
        _check(f"Example {number}", line, limits)
    return [line for _, line in pairs], [label for label, _ in pairs]


def _pair(number: int, line: str) -> tuple[str, str]:
    label, colon, text = line.partition(":")
    if not colon or is_blank(label) or is_blank(text):
        raise Sen2ProError(f"Line {number} is not of the form label: text, for instance sport: She won the final set.")
    return label.strip(), " ".join(text.split())


def opened(name: str, content: str, *, with_labels: bool = False) -> str:
    r"""Return what stands in a file that was opened in the browser, a sentence a line (or `label: text`).

    The suffix says the kind: text, CSV, TSV or JSONL.

    >>> opened("faq.csv", 'text,page\n"We ship, fast.",3\n')
    'We ship, fast.'
    >>> opened("a.jsonl", '{"label": "sport", "text": "She won."}', with_labels=True)
    'sport: She won.'
    """
    source = UploadedSource(name, content.encode("utf-8", "replace"), skip_blank=True)
    if with_labels and source.kind == "text":
        return content
    if with_labels:
        source.id_column = "label"

    def line(record: Record) -> str:
        text = " ".join(record.text.split())
        return text if record.id is None else f"{record.id}: {text}"

    return "\n".join(map(line, source))


def _check(name: str, text: str, limits: Limits) -> None:
    if "\0" in text:
        raise Sen2ProError(f"{name} holds a NUL character, which no text has. Paste text.")
    if len(text) > limits.characters:
        raise Sen2ProError(
            f"{name} has {len(text):,} characters, and {limits.characters:,} are the most. Make it shorter."
        )
