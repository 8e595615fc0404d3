"""`sen2pro page`: a page to look at, in the browser."""

import logging
import sys
import webbrowser
from dataclasses import fields
from importlib.util import find_spec
from os import _exit as leave_at_once  # without taking Python down
from typing import Annotated, Any

from typer import Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.server.serving import Serving

_HELP = {each.name: each.metadata["help"] for each in fields(Serving)}
_MISSING = "the page needs more packages: pip install 'sen2pro[page]'"


@options.with_settings("model", "samples", "head", "device", "revision", "trust_remote_code", "allow_pickle")
def page(
    settings: dict[str, Any],
    host: Annotated[str, Option(help=_HELP["host"])] = Serving.host,
    port: Annotated[int, Option(help=_HELP["port"])] = Serving.port,
    method: options.PairMethod = "auto",
    key_file: Annotated[
        str | None, Option(help="File of API keys, one a line; the browser asks for one as a password.")
    ] = None,
    open_browser: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    port_file: Annotated[str | None, Option(help="File to write the port to, once the page can be opened.")] = None,
) -> None:
    """Show a page in the browser: compare two sentences, map many, search your documents, classify from a few labels.

    Open the address that it prints. Texts go to this process and nowhere else, and never to the disk. Ctrl-C stops it.
    It is sen2pro serve --page with fewer options, so programs can use it, too.
    """
    from sen2pro.server.keys import Keys

    chosen, keys = Serving(host=host, port=port), Keys.read(key_file)
    run = runner()
    with options.notes() as gathered:
        model = options.load_for_pairs(method, settings)
    console = Console(stderr=True)
    for note in gathered:
        console.say(f"note: {note}", style="yellow")
    if not chosen.is_local and not len(keys):
        console.print(
            "note: the page can be reached from other machines, and needs no key; give --key-file", style="yellow"
        )

    def started(address: str) -> None:
        console.say(f"The page is at {address} (Ctrl-C stops it)")
        if open_browser:
            webbrowser.open(address)

    is_done = run(
        model, chosen, keys, page=True, level=logging.WARNING, port_file=port_file, started=started
    )  # fmt: skip
    console.say("stopped")
    if not is_done:  # the network still runs in a thread: to take Python down around it would end in a crash
        sys.stdout.flush()
        sys.stderr.flush()
        leave_at_once(0)


def runner() -> Any:
    """Return what runs a server with the page; say which package is missing, if one is."""
    try:
        from sen2pro.server.running import serve
    except ModuleNotFoundError as error:
        raise Sen2ProError(f"{_MISSING} ({error.name} is missing)") from None
    for name in ("gradio", "matplotlib", "faiss"):
        if find_spec(name) is None:
            raise Sen2ProError(f"{_MISSING} ({name} is missing)")
    return serve
