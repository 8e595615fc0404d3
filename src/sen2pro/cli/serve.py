"""`sen2pro serve` and `sen2pro page`: an HTTP server, and a page in the browser."""

from __future__ import annotations

import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from os import _exit as exit_without_cleanup
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError, Sen2ProWarning
from sen2pro.server.serving import Serving
from sen2pro.settings import help_of

if TYPE_CHECKING:
    from sen2pro.classification import Sen2ProClassifier
    from sen2pro.server.auth import ApiKeys

_HELP = help_of(Serving)
PortFile = Annotated[str | None, Option(help="File to write the port to, once the server listens.")]


@options.with_settings(without=("method",), more={"serving": Serving})
def serve(
    settings: options.Chosen,
    serving: dict[str, Any],
    method: options.PairMethod = "auto",
    key_file: Annotated[
        str | None,
        Option(help="File of API keys, one per line; SEN2PRO_API_KEYS may hold more. (default: no keys)"),
    ] = None,
    index: Annotated[str | None, Option(help="Index for /v1/search: its folder or address.")] = None,
    classifier: Annotated[
        str | None, Option(help="Classifier for /v1/classify: the folder of sen2pro classify train.")
    ] = None,
    page: Annotated[bool, Option("--page", help="Serve the page for people at / as well.")] = False,
    port_file: PortFile = None,
) -> None:
    """Serve embeddings, distributions and answers over HTTP, as OpenAI and text-embeddings-inference do.

    The server listens on 127.0.0.1 unless you pass --host. On SIGTERM it finishes running requests. It logs lines of
    JSON, without texts, to standard error. docs/serving.md has examples.
    """
    from sen2pro.server.auth import ApiKeys

    chosen, keys, run, console = Serving(**serving), ApiKeys.read(key_file), _server("server"), Console(stderr=True)
    with options.notes() as gathered:
        model = options.load_for_pairs(method, settings)
        found = trained = None
        if index is not None:
            from sen2pro.search import Index

            found = Index.open(index, model, allow_pickle=settings["allow_pickle"])
        if classifier is not None:
            trained = _classifier(classifier, settings["model"])
    _print_notes(console, chosen, keys, gathered)
    is_done = run(
        model, chosen, keys, index=found, classifier=trained, port_file=port_file, page=page,
        started=lambda address: console.say(f"serving {model.encoder.name} on {address}"),
    )  # fmt: skip
    _leave(is_done)


@options.with_settings("model", "samples", "head", "device", "revision", "trust_remote_code", "allow_pickle")
def page(
    settings: options.Chosen,
    host: Annotated[str, Option(help=_HELP["host"])] = Serving.host,
    port: Annotated[int | None, Option(help="Port to listen on. (default: 8080, or a free one if it is taken)")] = None,
    method: options.PairMethod = "auto",
    key_file: Annotated[
        str | None, Option(help="File of API keys, one per line; the browser asks for one as a password.")
    ] = None,
    open_browser: Annotated[bool, Option("--open/--no-open", help="Open the page in the browser.")] = True,
    port_file: PortFile = None,
) -> None:
    """Show a page in the browser: read, compare, map, search and classify your own texts.

    Texts go to this process only, and are never written to the disk. Ctrl-C stops it. This is sen2pro serve --page
    with fewer options; programs can use it too.
    """
    console = Console(stderr=True)
    console.say(f"Loading the model {settings['model']} ...")
    from sen2pro.server.auth import ApiKeys

    chosen = Serving(host=host, port=_free_port(host) if port is None else port)
    keys, run = ApiKeys.read(key_file), _server("page")
    with options.notes() as gathered:
        model = options.load_for_pairs(method, settings)
    _print_notes(console, chosen, keys, gathered)

    def ready(address: str) -> None:
        console.say(f"The page is at {address} (Ctrl-C stops it)")
        if open_browser and _has_browser():
            webbrowser.open(address)

    is_done = run(model, chosen, keys, page=True, level=logging.WARNING, port_file=port_file, ready=ready)
    console.say("stopped")
    _leave(is_done)


def _server(extra: str) -> Callable[..., bool]:
    """Import the server, which needs the packages of an extra."""
    try:
        from sen2pro.server.running import serve as run
    except ModuleNotFoundError as error:
        what = f"the {extra} needs more packages: pip install 'sen2pro[{extra}]'"
        raise Sen2ProError(f"{what} ({error.name} is missing)") from None
    return run


def _print_notes(console: Console, chosen: Serving, keys: ApiKeys, gathered: list[Sen2ProWarning]) -> None:
    """Print warnings, first that anybody can reach the server."""
    if not chosen.is_local and not len(keys):
        console.say("note: other machines can reach the server without a key; pass --key-file", style="yellow")
    for note in gathered:
        console.say(f"note: {note}", style="yellow")


def _leave(is_done: bool) -> None:
    """End the process at once if the network still runs in a thread: Python would crash if it shut down around it."""
    if not is_done:
        sys.stdout.flush()
        sys.stderr.flush()
        exit_without_cleanup(0)


def _free_port(host: str) -> int:
    """Return the default port, or 0 (any free port) if it is taken."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, Serving.port))
        except OSError:
            return 0
    return Serving.port


def _has_browser() -> bool:
    """Return whether a browser with a window can open; one without would take over the terminal."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _classifier(folder: str, model: str) -> Sen2ProClassifier:
    """Load a classifier with its own encoder or the default model, else with the one that --model names."""
    from sen2pro.classification import Sen2ProClassifier

    try:
        return Sen2ProClassifier.load(folder)
    except Sen2ProError:
        return Sen2ProClassifier.load(folder, model=model)
