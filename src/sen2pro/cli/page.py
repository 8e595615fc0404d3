"""`sen2pro page`: a page to look at, in the browser."""

import logging
import os
import socket
import sys
import webbrowser
from dataclasses import fields
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
    port: Annotated[int | None, Option(help="Port to listen on. (default: 8080, or a free one if it is taken)")] = None,
    method: options.PairMethod = "auto",
    key_file: Annotated[
        str | None, Option(help="File of API keys, one per line; the browser asks for one as a password.")
    ] = None,
    open_browser: Annotated[bool, Option("--open/--no-open", help="Open the page in the browser.")] = True,
    port_file: Annotated[str | None, Option(help="File to write the port to, once the server listens.")] = None,
) -> None:
    """Show a page in the browser: read, compare, map, search and classify your own texts.

    Texts go to this process and nowhere else, and never to the disk. Ctrl-C stops it. The same as sen2pro serve --page
    with fewer options, so programs can use it, too.
    """
    console = Console(stderr=True)
    console.say(f"Loading the model {settings['model']} ...")
    from sen2pro.server.auth import Keys

    chosen = Serving(host=host, port=_free_port(host) if port is None else port)
    keys = Keys.read(key_file)
    try:
        from sen2pro.server.running import serve
    except ModuleNotFoundError as error:
        raise Sen2ProError(f"{_MISSING} ({error.name} is missing)") from None
    with options.notes() as gathered:
        model = options.load_for_pairs(method, settings)
    for note in gathered:
        console.say(f"note: {note}", style="yellow")
    if not chosen.is_local and not len(keys):
        console.print("note: other machines can reach the page without a key; give --key-file", style="yellow")

    def ready(address: str) -> None:
        console.say(f"The page is at {address} (Ctrl-C stops it)")
        if open_browser and _has_browser():
            webbrowser.open(address)

    is_done = serve(model, chosen, keys, page=True, level=logging.WARNING, port_file=port_file, ready=ready)
    console.say("stopped")
    if not is_done:  # the network still runs in a thread: to take Python down around it would end in a crash
        sys.stdout.flush()
        sys.stderr.flush()
        leave_at_once(0)


def _free_port(host: str) -> int:
    """Return the default port, or 0 for any free one if it is taken."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, Serving.port))
        except OSError:
            return 0
    return Serving.port


def _has_browser() -> bool:
    """Tell whether there is a browser with a window; one that runs in the terminal would take the terminal over."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
