"""The tab "Map": up to 200 sentences in the plane, each with its ellipse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr
from gradio.components.plot import PlotData

from sen2pro.model import Sen2Pro
from sen2pro.page import fragments, inputs, texts
from sen2pro.page.drawing import COLOURS, figure, png
from sen2pro.page.job import LANE, Job, Outputs, examples, opener, told
from sen2pro.page.limits import Limits
from sen2pro.page.mapping import SentenceMap, make_map
from sen2pro.page.work import encode

_ABOUT = (
    "Each dot is a sentence, and sentences of similar meaning lie near each other. Its ellipse holds most of its "
    "distribution: a vague sentence has a wide one. Point at a dot to read it; zoom with the wheel, and drag to move."
)


def map_tab(model: Sen2Pro, limits: Limits) -> None:
    """Build the tab."""
    gr.HTML(f'<p class="s2p-about">{_ABOUT}</p>')
    pasted = gr.Textbox(
        label=f"Sentences, one a line (2 to {limits.sentences})", lines=6, max_lines=8,
        placeholder="Paste sentences here, open a file, or choose an example.",
    )  # fmt: skip
    filled = examples({"four topics": (texts.TOPICS,), "questions to a helpdesk": (texts.QUESTIONS,)}, [pasted])
    opening = gr.Row(elem_classes="s2p-openers")
    colour = gr.Radio(list(COLOURS), value=COLOURS[0], label="Colour by", elem_id="map-colour")
    job = Job("Draw the map")
    with opening:
        opener(pasted, job.status, "Open a file (text, CSV, TSV, JSONL)", inputs.opened, limits.body_bytes)
    plot = gr.Plot(show_label=False, elem_id="map-plot")  # while it is empty, the style sheet hides it
    table = gr.HTML(elem_id="map-table")
    kept = gr.State(None, time_to_live=limits.seconds)  # the map of this visitor

    def work(given: str, by: str) -> Iterator[Outputs]:
        lines = inputs.sentences(given, "sentences", limits.sentences, limits, least=2)
        gaussian = yield from job.progress(encode(model, lines), "sentences")
        drawn = make_map(lines, gaussian)
        yield {kept: drawn, **redrawn(drawn, by)}

    def redrawn(drawn: SentenceMap | None, by: str) -> dict[Any, Any]:
        if drawn is None:
            return {plot: None, table: ""}
        try:
            shown = PlotData(type="plotly", plot=figure(drawn, by))
            return {plot: shown, table: fragments.map_table(drawn, png(drawn, by))}
        except Exception as error:
            return {plot: None, table: told(error)}

    empty = {kept: None, plot: None, table: ""}
    job.start_by(filled, work, [pasted, colour], empty)
    colour.input(
        redrawn, inputs=[kept, colour], outputs=[plot, table], show_progress="hidden", api_visibility="private",
        concurrency_id=LANE,
    )  # fmt: skip
