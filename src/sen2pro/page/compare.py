"""The tab "Compare": two sentences, the answer in words, a dial, and which word carries it."""

from __future__ import annotations

from collections.abc import Iterator

import gradio as gr

from sen2pro.errors import HeadMissing
from sen2pro.model import Sen2Pro
from sen2pro.page import fragments, inputs
from sen2pro.page.job import Job, Outputs, examples
from sen2pro.page.limits import Limits
from sen2pro.page.work import Steps

_ABOUT = (
    "How likely do two sentences mean the same? The dial shows how similar people would find them, from 0 to 5; its "
    "broad arc is where the grade probably lies. Below, the stronger a word is shaded, the further "
    "the meaning would move without it."
)
_EXAMPLES = {
    "the same": ("A man is playing a guitar.", "A man plays the guitar."),
    "one is vaguer": ("The bank raised its interest rate again this year.", "They have put that up again."),
    "one word differs": ("The meeting was moved to Tuesday.", "The meeting was moved to Thursday."),
    "unrelated": ("The cat sleeps on the sofa.", "Shares fell sharply on Monday."),
}


def compare_tab(model: Sen2Pro, limits: Limits) -> None:
    """Build the tab."""
    gr.HTML(f'<p class="s2p-about">{_ABOUT}</p>')
    with gr.Row(elem_classes="s2p-pair"):
        first = gr.Textbox(label="First sentence", placeholder="A man is playing a guitar.", lines=1, max_lines=4)
        second = gr.Textbox(label="Second sentence", placeholder="Someone makes music.", lines=1, max_lines=4)
    filled = examples(_EXAMPLES, [first, second])
    job = Job("Compare")
    answer, words = gr.HTML(elem_id="compare-answer"), gr.HTML(elem_id="compare-words")

    def work(a: str, b: str) -> Iterator[Outputs]:
        texts = [inputs.sentence(a, "the first sentence", limits), inputs.sentence(b, "the second sentence", limits)]
        try:
            shown = fragments.comparison(model.compare(*texts), *texts)
        except HeadMissing as error:  # no numbers ship for this model
            shown = fragments.message(str(error))
        yield {answer: shown, words: ""}
        yield {words: (yield from job.progress(_explained(model, texts, limits), "sentences read word by word"))}

    job.start_by([first.submit, second.submit, *filled], work, [first, second], {answer: "", words: ""})


def _explained(model: Sen2Pro, texts: list[str], limits: Limits) -> Steps[str]:
    """Return both sentences shaded, one after the other: each takes a pass a word."""
    found = []
    for number, (name, text) in enumerate(zip(("First sentence", "Second sentence"), texts, strict=True)):
        yield number, len(texts)
        if len(text.split()) > limits.words:
            found.append(fragments.note(f"{name}: words are shaded in sentences of up to {limits.words} words."))
        else:
            found.append(fragments.shaded(name, model.explain(text)))
    return "".join(found)
