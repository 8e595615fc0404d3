"""What every tab has: a button that starts the work, one that stops it, and a line that says how far it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import gradio as gr

from sen2pro.errors import Sen2ProError
from sen2pro.page import fragments
from sen2pro.page.work import Found, Steps

LOGGER = logging.getLogger("sen2pro.server")
_FAILED = "Something went wrong in the server; its log says more. Your texts are still here: you can try again."
_STOPPED = "Stopped. Your texts are still here: you can start again."
Outputs = dict[Any, Any]  # component -> what it shows
Work = Callable[..., Iterator[Outputs]]
LANE = "model"  # work of all tabs and visitors that shares the model
AT_ONCE = 8  # of it; it takes turns, part by part


def told(error: Exception) -> str:
    """Return what a visitor is told of an error; gradio would write it into the log, with the visitor's texts."""
    if isinstance(error, Sen2ProError):
        return fragments.message(str(error))
    LOGGER.error({"event": "the page failed", "error": type(error).__name__})
    LOGGER.debug("the page failed", exc_info=True)
    return fragments.message(_FAILED)


class Job:
    """The buttons of a tab, and the work behind them.

    Parameters
    ----------
    name
        What the button that starts the work says.
    """

    def __init__(self, name: str) -> None:
        with gr.Row(elem_classes="s2p-buttons"):
            self.run = gr.Button(name, variant="primary", scale=3)
            self.stop = gr.Button("Stop", variant="stop", interactive=False, scale=1)
        self.status = gr.HTML(elem_classes="s2p-status")
        self._running: set[str] = set()  # visitors whose work is under way
        self._stopping: set[str] = set()  # those of them who asked for its end

    def progress(self, steps: Steps[Found], what: str) -> Generator[Outputs, None, Found]:
        """Show how far some steps are, and return what they found."""
        while True:
            try:
                done, total = next(steps)
            except StopIteration as end:
                found: Found = end.value
                return found
            yield {self.status: fragments.progress(done, total, what)}

    def start_by(self, triggers: Sequence[Any], work: Work, inputs: Sequence[Any], empty: Outputs) -> None:
        """Have events of components, and the ends of other events, start the work.

        `empty` is what its outputs show if it fails.
        """

        def guarded(request: gr.Request, *given: Any) -> Iterator[Outputs]:
            visitor = str(request.session_hash)
            if visitor in self._running:  # the button was pressed twice
                yield {self.status: gr.skip()}
                return
            self._running.add(visitor)
            last: Outputs = {}
            try:
                yield {self.run: gr.update(interactive=False), self.stop: gr.update(interactive=True), self.status: ""}
                for last in work(*given):
                    yield last
                    if visitor in self._stopping:
                        last = {self.status: fragments.note(_STOPPED)}
                        break
                else:
                    last = {self.status: ""}
            except Exception as error:
                last = {**empty, self.status: told(error)}
            finally:  # also if the visitor has gone
                self._running.discard(visitor)
                self._stopping.discard(visitor)
            yield {**last, self.run: gr.update(interactive=True), self.stop: gr.update(interactive=False)}

        def stop(request: gr.Request) -> Any:
            # gradio can cancel work itself, but then its page takes no new work for a moment, and does not say so.
            if request.session_hash in self._running:
                self._stopping.add(str(request.session_hash))
            return gr.update(interactive=False)

        options: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        for trigger in (self.run.click, *triggers):
            trigger(
                guarded, inputs=list(inputs), outputs=[self.run, self.stop, self.status, *empty], concurrency_id=LANE,
                concurrency_limit=AT_ONCE, trigger_mode="multiple", **options,
            )  # fmt: skip
        self.stop.click(stop, outputs=[self.stop], queue=False, **options)


def examples(given: Mapping[str, Sequence[Any]], outputs: Sequence[Any]) -> list[Any]:
    """Show a button for each example; return the events of having filled it in, to start the work by."""
    filled = []
    with gr.Row(elem_classes="s2p-examples"):
        gr.HTML('<span class="s2p-label">Examples</span>', elem_classes="s2p-caption")
        for name, values in given.items():
            button = gr.Button(name, size="sm", variant="secondary", min_width=40)
            chosen = button.click(
                lambda values=values: values[0] if len(values) == 1 else list(values), outputs=list(outputs),
                queue=False, show_progress="hidden", api_visibility="private",
            )  # fmt: skip
            filled.append(chosen.then)
    return filled


def opener(into: Any, status: Any, label: str, read: Callable[[str, str], str], most: int) -> None:
    """Show a button that opens a file in the browser, and puts what it says into a text box."""
    button = gr.HTML(
        f'<label class="s2p-open"><input type="file" accept=".txt,.csv,.tsv,.jsonl,.md"><span>{label}</span></label>',
        js_on_load=_OPEN.replace("> MOST", f"> {most // 2}").replace("MOST", f"{most // 2:,}"),  # in JSON it is longer
        elem_classes="s2p-opener",
    )

    def opened(event: gr.EventData) -> tuple[Any, str]:
        name, content, problem = (str(getattr(event, each, "")) for each in ("name", "content", "problem"))
        if problem:
            return gr.skip(), fragments.message(f"{name[:200]} cannot be opened: {problem[:200]}.")
        try:
            text = read(name, content)
        except Exception as error:
            return gr.skip(), told(error)
        count = len(text.splitlines())
        return text, fragments.note(f"{count:,} line{'s' * (count != 1)} of {name}. The file is not stored.")

    button.upload(
        opened, outputs=[into, status], queue=False, show_progress="hidden", api_visibility="private"
    )  # fmt: skip


_OPEN = """
element.addEventListener('change', async (event) => {
  const file = event.target.files && event.target.files[0];
  if (!file) return;
  event.target.value = '';
  const told = {name: file.name, content: '', problem: ''};
  if (file.size > MOST) told.problem = 'it has ' + file.size.toLocaleString('en') + ' bytes, and MOST are the most';
  else told.content = await file.text();
  trigger('upload', told);
});
"""
