"""The tab "Search": documents, a question, and hits with probabilities, or no good match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from sen2pro.model import Sen2Pro
from sen2pro.page import fragments, inputs, texts
from sen2pro.page.job import Job, Outputs, examples, opener
from sen2pro.page.limits import Limits
from sen2pro.page.work import build_index

_ABOUT = (
    "Ask a question of your own documents. Each hit has the probability that it is the right one; if none is likely, "
    "the answer is “no good match”. Questions about another subject are refused; a near miss may still look right."
)
_HITS = 5


def search_tab(model: Sen2Pro, limits: Limits) -> None:
    """Build the tab."""
    gr.HTML(f'<p class="s2p-about">{_ABOUT}</p>')
    documents = gr.Textbox(
        label=f"Documents, one a line (up to {limits.documents:,})", lines=6, max_lines=8,
        placeholder="Paste documents here, open a file, or choose an example.",
    )  # fmt: skip
    opening = gr.Row(elem_classes="s2p-openers")
    question = gr.Textbox(label="Question", placeholder="How do I reset my password?", lines=1, max_lines=2)
    filled = examples(
        {
            "a question with an answer": (texts.FAQ, "I forgot my login, what now?"),
            "a question without": (texts.FAQ, "Who won the cup in 1998?"),
        },
        [documents, question],
    )
    job = Job("Search")
    with opening:
        opener(documents, job.status, "Open a file (text, CSV, TSV, JSONL)", inputs.opened, limits.body_bytes)
    found = gr.HTML(elem_id="search-hits")
    kept = gr.State(None, time_to_live=limits.seconds)  # the documents of this visitor, and their index

    def work(given: str, asked: str, before: Any) -> Iterator[Outputs]:
        lines = inputs.sentences(given, "documents", limits.documents, limits)
        query = inputs.sentence(asked, "the question", limits)
        if before is not None and before[0] == lines:
            index = before[1]
        else:
            index = yield from job.progress(build_index(model, lines), "documents")
        yield {kept: (lines, index), found: fragments.hits(index.search(query, k=_HITS), len(lines))}

    job.start_by([question.submit, *filled], work, [documents, question, kept], {kept: None, found: ""})
