"""The tab "Classify": a dozen labelled lines, then texts of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from sen2pro.calibration.comparison import in_a_word
from sen2pro.model import Sen2Pro
from sen2pro.page import fragments, inputs, texts
from sen2pro.page.job import Job, Outputs, examples, opener
from sen2pro.page.limits import Limits
from sen2pro.page.work import encode

_ABOUT = (
    "Give some labelled lines, three or more of each label, and try texts of your own. The bars are the probabilities "
    "of all labels; where none is likely (70 %), the answer is “unsure”. A text of another kind may still get a label."
)


def classify_tab(model: Sen2Pro, limits: Limits) -> None:
    """Build the tab."""
    gr.HTML(f'<p class="s2p-about">{_ABOUT}</p>')
    labelled = gr.Textbox(
        label="Examples, one a line: label: text (or CSV with the columns label and text)", lines=6, max_lines=8,
        placeholder="sport: She won the final set.\nmoney: Shares fell on Monday.",
    )  # fmt: skip
    opening = gr.Row(elem_classes="s2p-openers")
    tried = gr.Textbox(
        label=f"Texts to classify, one a line (up to {limits.texts})", lines=2, max_lines=8,
        placeholder="The goalkeeper was injured.",
    )  # fmt: skip
    filled = examples(
        {
            "sport, money, weather": (texts.NEWS, texts.NEWS_TRIED),
            "what a customer wants": (texts.WANTS, texts.WANTS_TRIED),
        },
        [labelled, tried],
    )
    job = Job("Classify")
    with opening:
        read = partial(inputs.opened, with_labels=True)
        opener(labelled, job.status, "Open a file (text, CSV, TSV, JSONL)", read, limits.body_bytes)
    found = gr.HTML(elem_id="classify-classes")
    kept = gr.State(None, time_to_live=limits.seconds)  # the examples of this visitor, and their classifier

    def work(given: str, asked: str, before: Any) -> Iterator[Outputs]:
        from sen2pro.classification import Sen2ProClassifier

        learned = inputs.labelled(given, limits)
        lines = inputs.sentences(asked, "texts to classify", limits.texts, limits)
        if before is not None and before[0] == learned:
            classifier = before[1]
        else:
            gaussian = yield from job.progress(encode(model, learned[0]), "examples")
            classifier = Sen2ProClassifier(model).fit(gaussian, learned[1])
        gaussian = yield from job.progress(encode(model, lines), "texts")
        shares = classifier.predict_proba(gaussian).tolist()
        sure = [in_a_word(max(row)) == "likely" for row in shares]
        labels = [str(label) for label in classifier.classes_.tolist()]
        yield {kept: (learned, classifier), found: fragments.classes(lines, labels, shares, sure)}

    job.start_by(filled, work, [labelled, tried, kept], {kept: None, found: ""})
