"""The settings of a server: the one list that the command line, the routes and `/info` read."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Annotated

from sen2pro.errors import Sen2ProError, one_of, short_repr
from sen2pro.settings import about
from sen2pro.validation import check_text, check_whole

VECTORS = ("plain", "mean")


@dataclass(frozen=True)
class Serving:
    """The settings of a server: where it listens, its names, and the limits of a request.

    Examples
    --------
    >>> Serving(texts=16).texts
    16
    >>> Serving(vectors="means")
    Traceback (most recent call last):
    sen2pro.errors.Sen2ProError: unknown vectors 'means'; did you mean 'mean'? It is one of: plain, mean
    """

    host: Annotated[str, about("Address to listen on. 0.0.0.0 lets other machines in: then give API keys.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, about("Port to listen on; 0 takes a free one and prints it.")] = 8080
    served_name: Annotated[
        str | None, about("What clients call the model. (default: its name, or that of its folder)")
    ] = None
    alias: Annotated[
        tuple[str, ...],
        about("Another name that clients may use, text-embedding-3-small for instance; may be given again."),
    ] = ()
    vectors: Annotated[str, about("What embedding routes give: plain (the encoder's own vectors) or mean.")] = "plain"
    truncate: Annotated[bool, about("Cut texts that are longer than the model takes, or refuse them.")] = True
    texts: Annotated[int, about("Texts per request.")] = 2048
    characters: Annotated[int, about("Characters per text.")] = 50_000
    body_bytes: Annotated[int, about("Bytes of the body of a request.")] = 16 << 20
    queue: Annotated[int, about("Texts in the queue; a request that finds no place gets 429.")] = 16_384
    connections: Annotated[int, about("Open connections; one more gets 503.")] = 1024
    batch_tokens: Annotated[int | None, about("Maximum number of tokens per batch. (default: as fits the model)")] = (
        None
    )
    window: Annotated[float, about("Milliseconds that an idle server waits for more texts if several clients ask.")] = (
        2.0
    )
    time_limit: Annotated[
        float, about("Seconds after which a request gets 504; its body must arrive in this time, too.")
    ] = 30.0
    grace: Annotated[float, about("Seconds that running requests may take after SIGTERM.")] = 30.0
    allowed_host: Annotated[
        tuple[str, ...],
        about(
            "Host name under which clients may call, sen2pro.example.org; may be given again. (default: local "
            "names for a server on 127.0.0.1 without keys, else any)"
        ),
    ] = ()
    cors: Annotated[
        tuple[str, ...],
        about("Web origin whose pages may call the server, https://example.org; may be given again. (default: none)"),
    ] = ()

    def __post_init__(self) -> None:
        """Check every value, and bring it into its one proper form."""
        check_text("host", self.host)
        check_whole("port", self.port, 0, 65535)
        one_of("vectors", self.vectors, VECTORS)
        for name, low in (("texts", 1), ("characters", 1), ("body_bytes", 1024), ("queue", 1), ("connections", 1)):
            check_whole(name, getattr(self, name), low)
        if self.batch_tokens is not None:
            check_whole("batch_tokens", self.batch_tokens, 1)
        for name, least, most in (("window", 0.0, 1000), ("time_limit", 0.01, 3600), ("grace", 0.0, 3600)):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
                raise Sen2ProError(f"{name} must be a number between {least:g} and {most}, not {short_repr(value)}")
        for name in ("alias", "allowed_host", "cors"):
            values = getattr(self, name)
            values = (values,) if isinstance(values, str) else tuple(values or ())
            object.__setattr__(self, name, tuple(check_text(name, value) for value in values))
        if "*" in self.cors:
            raise Sen2ProError("cors='*' would let every web page call the server; name the origins that may")

    def trusted_hosts(self, has_keys: bool) -> tuple[str, ...]:
        """Return the host names that requests may name; empty for any.

        A web page can give its own name the address of this machine (DNS rebinding). So a server for this machine
        answers to the names of this machine only, unless keys protect it.

        >>> Serving().trusted_hosts(has_keys=False)
        ('127.0.0.1', 'localhost', '[::1]')
        """
        if self.allowed_host or has_keys or not self.is_local:
            return self.allowed_host
        return tuple(dict.fromkeys(("127.0.0.1", "localhost", "[::1]", self.host)))

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can reach the server.

        >>> Serving().is_local, Serving(host="localhost").is_local, Serving(host="0.0.0.0").is_local
        (True, True, False)
        """
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
