"""`sen2pro serve`: an HTTP server."""

import sys
from os import _exit as leave_at_once  # without taking Python down
from typing import Annotated, Any

from typer import Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.server.serving import Serving

_MISSING = "the server needs more packages: pip install 'sen2pro[server]'"


@options.with_settings(without=("method",), more={"serving": Serving})
def serve(
    settings: dict[str, Any],
    serving: dict[str, Any],
    method: options.PairMethod = "auto",
    key_file: Annotated[
        str | None,
        Option(help="File of API keys, one per line; more may be in SEN2PRO_API_KEYS. (default: no keys)"),
    ] = None,
    index: Annotated[str | None, Option(help="Folder of sen2pro index, or the address of one, for /v1/search.")] = None,
    classifier: Annotated[str | None, Option(help="Folder of sen2pro classify train, for /v1/classify.")] = None,
    page: Annotated[bool, Option("--page", help="Serve the page for people at / as well.")] = False,
    port_file: Annotated[str | None, Option(help="File to write the port to, once the server listens.")] = None,
) -> None:
    """Serve embeddings, distributions and answers over HTTP, as OpenAI and text-embeddings-inference do.

    It listens on 127.0.0.1 unless you pass --host. On SIGTERM it finishes running requests. Its log is lines of JSON on
    standard error without texts. docs/serving.md has examples.
    """
    from sen2pro.server.auth import Keys

    chosen, keys = Serving(**serving), Keys.read(key_file)
    try:
        from sen2pro.server.running import serve as run
    except ModuleNotFoundError as error:
        raise Sen2ProError(f"{_MISSING} ({error.name} is missing)") from None
    with options.notes() as gathered:
        model = options.load_for_pairs(method, settings)
        found = trained = None
        if index is not None:
            from sen2pro.search import Index

            found = Index.open(index, model, allow_pickle=settings["allow_pickle"])
        if classifier is not None:
            trained = _classifier(classifier, settings["model"])
    console = Console(stderr=True)
    if not chosen.is_local and not len(keys):
        console.print(
            "note: the server can be reached from other machines, and needs no key; give --key-file", style="yellow"
        )
    for note in gathered:
        console.say(f"note: {note}", style="yellow")
    is_done = run(
        model, chosen, keys, index=found, classifier=trained, port_file=port_file, page=page,
        started=lambda address: console.say(f"serving {model.encoder.name} on {address}"),
    )  # fmt: skip
    if not is_done:  # the network still runs in a thread: to take Python down around it would end in a crash
        sys.stdout.flush()
        sys.stderr.flush()
        leave_at_once(0)


def _classifier(folder: str, model: str) -> Any:
    """Load a classifier: its own encoder or the default model, else the one that --model names."""
    from sen2pro.classification import Sen2ProClassifier

    try:
        return Sen2ProClassifier.load(folder)
    except Sen2ProError:
        return Sen2ProClassifier.load(folder, model=model)
