"""What a route can do with its request: read the body within limits, tokenize its texts, and have work done in time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import anyio
import numpy as np
import orjson
from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from sen2pro.encoder.backend import Tokens
from sen2pro.server.batching import BatchJob, late, wait_for_results
from sen2pro.server.engine import Engine, TextGaussian, weight
from sen2pro.server.http_errors import ClientGone, RequestError, json_response
from sen2pro.server.service import Service, Thread
from sen2pro.server.serving import Serving
from sen2pro.validation import Array, check_sentences

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Input = TypeVar("Input", bound="str | list[int]")
_SHORT_BODY = 256 << 10  # bytes of a body that is too small to be checked in a thread
_SHORT_TEXTS = 8192  # characters that are tokenized in the event loop, which takes a millisecond or two
_MORE, _PATIENCE = 256 << 10, 1.5  # bytes above the limit, and seconds, for which a refused body is still read
_MOST_FIELDS = 100  # of a body; pydantic would make an error of each that it does not know
MOST_VALUES = 1_500_000  # numbers and texts of a body
MOST_PARTS = 10_000  # lists, objects and fields of a body, besides a list for each text


class ApiRequest(Request):
    """A request with its deadline, its body (read within limits), and its numbers of texts and tokens."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.scope, request.receive)
        self.began = time.perf_counter()
        self.service: Service = request.app.state.service
        self.engine: Engine = self.service.engine
        self.serving: Serving = self.service.serving
        self.text_count = self.token_count = self.size = 0
        self.is_read = request.method != "POST"
        self._content, self._parsed = b"", None

    def time_left(self) -> float:
        """Return the seconds until the deadline; raise `late` when it has passed."""
        left = self.began + self.serving.time_limit - time.perf_counter()
        if left <= 0:
            raise late()
        return left

    @property
    def usage(self) -> dict[str, int]:
        """The numbers of tokens, as OpenAI names them."""
        return {"prompt_tokens": self.token_count, "total_tokens": self.token_count}

    def answer(self, data: object, **more: object) -> Response:
        """Return a response of our own routes: the data, the name of the model, and the usage."""
        return json_response({"data": data, **more, "model": self.service.name, "usage": self.usage})

    # The body.

    async def body(self) -> bytes:
        """Return the body that `load` has read."""
        return self._content

    async def json(self) -> object:
        """Return the JSON that `load` has parsed."""
        return self._parsed

    async def load(self) -> None:
        """Read and parse the body: no more of it than is allowed, whatever its headers say, until the deadline."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise RequestError("content", "send JSON, with the header Content-Type: application/json")
        if self.headers.get("content-encoding", "identity") != "identity":
            raise RequestError("content", "send the body as it is, without Content-Encoding")
        declared = self.headers.get("content-length", "0")
        if len(declared) > 15 or int(declared) > self.serving.body_bytes:  # the HTTP parser accepts only digits
            raise RequestError("large", f"the body may have {self.serving.body_bytes} bytes")
        parts: list[bytes] = []
        try:
            with anyio.fail_after(self.time_left()):
                async for part in self.stream():
                    self._track_bytes(len(part))
                    parts.append(part)
        except TimeoutError:
            raise RequestError("slow", "the body did not arrive in time") from None
        except ClientDisconnect:
            raise ClientGone from None
        self.is_read = True
        self._content = b"".join(parts)
        if len(self._content) > _SHORT_BODY:
            await self.run_in_thread(partial(check_amount, self._content, self.serving.texts))
        try:
            self._parsed = orjson.loads(self._content)
        except orjson.JSONDecodeError as error:
            message = f"the body is not valid JSON ({error.msg}, character {error.pos})"
            raise RequestError("invalid", message) from None
        if isinstance(self._parsed, dict) and len(self._parsed) > _MOST_FIELDS:
            raise RequestError("invalid", f"the body has more than {_MOST_FIELDS} fields")

    def _track_bytes(self, size: int) -> None:
        self.size += size
        self.service.bytes_in_flight += size
        if self.service.bytes_in_flight > self.service.most_bytes_in_flight:
            message = "the server holds too many bytes of other requests; try again later"
            raise RequestError("busy", message, retry_after=1)
        if self.size > self.serving.body_bytes:
            raise RequestError("large", f"the body may have {self.serving.body_bytes} bytes")

    def release_bytes(self) -> None:
        """Count the body no more."""
        self.service.bytes_in_flight -= self.size
        self.size = 0

    async def drain(self) -> None:
        """Read on for a moment: a client that is cut off while it sends may never see the error response."""
        left = self.serving.body_bytes + _MORE
        with contextlib.suppress(TimeoutError, ClientDisconnect, RuntimeError):
            with anyio.fail_after(_PATIENCE):
                while left > 0 and (message := await self.receive()).get("more_body", False):
                    left -= len(message["body"])

    # Texts.

    def as_list(
        self, given: str | list[str] | list[int] | list[list[int]], field: str, most: int | None = None
    ) -> list[str | list[int]]:
        """Return one or several texts, or lists of token ids, as a list within the limits."""
        several: list[str | list[int]] = [given] if isinstance(given, str) else list(given)  # type: ignore[arg-type]
        if several and isinstance(several[0], int):  # a list of numbers is one text
            several = [given]
        most = min(most or self.serving.texts, self.serving.texts)
        if not several:
            raise RequestError("empty", f"'{field}' is empty; give at least one text", field)
        if len(several) > most:
            raise RequestError("large", f"a request may have {most} texts, not {len(several)}", field)
        self._check_lengths(several, field)
        return several

    def _check_lengths(self, texts: Sequence[str | list[int]], field: str | None = None) -> None:
        if max(map(len, texts)) > self.serving.characters:
            raise RequestError("large", f"a text may have {self.serving.characters} characters", field)

    async def tokenize(self, given: Sequence[str | list[int]], prompt: str, truncate: bool | None = None) -> Tokens:
        """Return the tokens of texts, or of lists of token ids. This is the only place where a request is tokenized."""
        decoded = await self.by_parts(self.engine.decode, given)
        self._check_lengths(decoded)  # a token id may stand for many characters
        checked = check_sentences(decoded)
        tokens = Tokens.join(await self.by_parts(lambda part: [self.engine.tokenize(part, prompt)], checked))
        self.text_count += len(tokens)
        self.token_count += int(tokens.lengths.sum())
        cut = sum(tokens.is_cut)
        if cut and not (self.serving.truncate if truncate is None else truncate):
            longest = self.engine.model.encoder.max_length
            raise RequestError("long", f"a text is longer than the {longest} tokens that this model takes")
        self.service.metrics.truncated.inc(cut)
        return tokens

    async def by_parts(self, work: Callable[[list[Input]], list[Result]], texts: Sequence[Input]) -> list[Result]:
        """Run a function on short texts at once, and on longer ones part by part in a thread: requests take turns."""
        if sum(map(len, texts)) <= _SHORT_TEXTS:
            return work(list(texts))
        return [each for part in parts(texts) for each in await self.run_in_thread(partial(work, part))]

    # Work.

    async def run(self, job: BatchJob[Unit, Result], units: Sequence[Unit], tokens: Sequence[Tokens]) -> list[Result]:
        """Have a worker run a job on units with these tokens, and return the results."""
        left = self.time_left()
        batcher = self.service.searcher if job.own_worker else self.service.batcher
        costs = [job.passes * weight(each) + job.extra for each in tokens]
        return await wait_for_results(batcher, batcher.submit(job, units, costs), self._disconnected(), left)

    async def run_texts(self, job: BatchJob[Tokens, Result], tokens: Tokens) -> list[Result]:
        """Have a worker run a job on texts."""
        units = [tokens.rows([i]) for i in range(len(tokens))]
        return await self.run(job, units, units)

    async def distributions(self, given: Sequence[str | list[int]]) -> list[TextGaussian]:
        """Return the Gaussians of texts."""
        prompt = self.engine.prompt()
        return await self.run_texts(self.engine.distributions(prompt), await self.tokenize(given, prompt))

    async def embed(self, tokens: Tokens, normalize: bool | None = None) -> list[Array]:
        """Return the vectors that embedding routes give: plain vectors, or means if the operator chose them."""
        if self.serving.vectors == "plain":
            return await self.run_texts(self.engine.vectors(tokens.prompt, normalize), tokens)
        means = [row.mean for row in await self.run_texts(self.engine.distributions(tokens.prompt), tokens)]
        return [mean / max(float(np.linalg.norm(mean)), 1e-12) for mean in means] if normalize else means

    async def run_in_thread(self, function: Callable[[], Result], thread: Thread = "tokens") -> Result:
        """Run a part of the work beside the event loop, unless the client is gone or the deadline has passed."""
        left = self.time_left()
        if await self.is_disconnected():
            raise ClientGone
        try:
            with anyio.fail_after(left):
                return await self.service.run_in_thread(function, thread)
        except TimeoutError:
            raise late() from None

    async def _disconnected(self) -> None:
        """Wait until the client closes its connection."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def check_amount(body: bytes, texts: int) -> None:
    """Refuse a body with more values, or with more lists and fields, than a request with this many texts needs.

    Python would take seconds to make objects of them, and no other request would be served meanwhile. So they are
    counted before the body is parsed.

    >>> check_amount(b'{"input": ["a, b", "c"]}', 2)
    >>> check_amount(b'{"input": [' + b"[]," * 20_000 + b"[]]}", 2048)
    Traceback (most recent call last):
    sen2pro.server.http_errors.RequestError: the body may have 12048 lists and fields, not 20004
    """
    most_parts = MOST_PARTS + texts
    if body.count(b",") < MOST_VALUES and sum(map(body.count, (b"[", b"{", b":"))) <= most_parts:
        return
    characters = np.frombuffer(body.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    outside = ~np.logical_xor.accumulate(characters == ord('"'))  # of texts
    values, *parts = (int(np.count_nonzero(outside & (characters == character))) for character in b",[{:")
    if values >= MOST_VALUES:
        raise RequestError("large", f"the body may have {MOST_VALUES} values, not {values + 1}")
    if sum(parts) > most_parts:
        raise RequestError("large", f"the body may have {most_parts} lists and fields, not {sum(parts)}")


def parts(texts: Sequence[Input]) -> Iterator[list[Input]]:
    """Cut a list of texts, or of lists of token ids, into parts of few characters, or of one text.

    >>> list(parts(["a" * 5000, "b" * 5000, "c", "d" * 9000])) == [["a" * 5000], ["b" * 5000, "c"], ["d" * 9000]]
    True
    """
    part: list[Input] = []
    size = 0
    for text in texts:
        if part and size + len(text) > _SHORT_TEXTS:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    yield part
