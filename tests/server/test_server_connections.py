"""Connections and the log, without a model: clients that do not read, that send no end, that come early."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("fastapi", reason="the server's packages are not installed: pip install 'sen2pro[server]'")
import uvicorn
from uvicorn.server import ServerState

from sen2pro.server import Serving, logs
from sen2pro.server.running import _listen, connection_class

LARGE = 32 << 20  # bytes; more than the buffers of a connection take


async def large(scope, receive, send):
    """Read the call, and answer with many bytes."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
    await send({"type": "http.response.body", "body": bytes(LARGE)})


@asynccontextmanager
async def listening(limit):
    """Have connections of a time limit; yields a client's reader and writer, and the open connections."""
    config, state = uvicorn.Config(large, log_config=None, lifespan="off"), ServerState()
    config.load()
    made = connection_class(limit)
    server = await asyncio.get_running_loop().create_server(
        lambda: made(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1024)
    try:
        yield reader, writer, state.connections
    finally:
        writer.transport.abort()
        server.close()


async def until(condition):
    for _ in range(2000):
        if condition():
            return True
        await asyncio.sleep(0.005)
    return False


def test_a_client_that_does_not_read_and_asks_again_is_closed():
    async def run():
        async with listening(0.5) as (_, writer, connections):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await until(lambda: any(each.flow.write_paused for each in connections))
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await until(lambda: not connections)

    asyncio.run(run())


def test_a_client_that_does_not_read_its_last_answer_is_closed():
    async def run():
        async with listening(0.5) as (_, writer, connections):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert await until(lambda: connections)
            assert await until(lambda: not connections)

    asyncio.run(run())


@pytest.mark.parametrize("after", [b"0\r\n", b"1;"])  # trailers, or an extension of a chunk
def test_trailers_and_extensions_without_end_are_refused(after):
    async def run():
        async with listening(60) as (reader, writer, _):
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + after)
            await asyncio.sleep(0.05)
            filler = b"a: %s\r\n" % (b"x" * 900) if after.startswith(b"0") else b"x" * 900
            for _ in range((64 << 10) // len(filler)):
                writer.write(filler)
                await asyncio.sleep(0.001)
            writer.write(filler)  # the one too many
            assert b" 431 " in await asyncio.wait_for(reader.readline(), 20)

    asyncio.run(run())


def test_a_body_in_many_chunks_with_trailers_is_taken():
    async def run():
        async with listening(60) as (reader, writer, _):
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(300):
                writer.write(b"200;a=b\r\n" + b"x" * 512 + b"\r\n")
                await asyncio.sleep(0)
            writer.write(b"0\r\na: b\r\n\r\n")
            assert b" 200 " in await asyncio.wait_for(reader.readline(), 20)

    asyncio.run(run())


def test_a_client_can_connect_as_soon_as_the_port_is_known():
    with _listen(Serving(port=0)) as server, socket.create_connection(server.getsockname(), timeout=5) as client:
        assert client.getpeername() == server.getsockname()


def test_a_line_of_a_call_is_written_even_if_another_thread_writes_just_then(capfdbinary, caplog, monkeypatch):
    monkeypatch.setattr(logs, "_STARTED", True)
    caplog.set_level(logging.INFO, logs.LOGGER.name)
    monkeypatch.setattr(logs, "_PENDING", [b"a line of another thread\n"])
    made = logs._line

    def line(content):
        logs.flush()  # the other thread writes while our line is made
        return made(content)

    monkeypatch.setattr(logs, "_line", line)

    async def run():
        for number in range(2):
            logs.write({"event": "call", "number": number})
            await asyncio.sleep(3 * logs._DELAY)

    asyncio.run(run())
    assert capfdbinary.readouterr().err.count(b'"event":"call"') == 2
