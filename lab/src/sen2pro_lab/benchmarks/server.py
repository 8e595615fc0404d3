"""Measure the server: throughput beside the library's own, latency, and a soak.

    python -m sen2pro_lab.benchmarks.server [throughput] [latency] [soak] [--seconds 20] [--minutes 10] [--clients 64]

The server runs on one core and the load generator on another. `throughput` takes turns between the library and the
server, so that a busy machine slows both. Beside the rate by the clock stands the rate by CPU time, which other
people's work disturbs less. `soak` is 200 clients with bad and cancelled calls among them: every answer is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sen2pro_lab.benchmarks.common import save

PARTS = ("throughput", "latency", "soak")
LATENCY_CLIENTS = (1, 16, 64, 200)
SOAK_CLIENTS = 200
TEXTS = 2000
PAIRS = 500  # of texts that the soak compares
TOLERANCE = 1e-6  # what docs/serving.md promises of vectors
PAIR_TOLERANCE = 1e-5  # of a probability, and of a similarity of up to 5
_LIBRARY = """
import itertools, json, sys, time, torch
from sen2pro import Sen2Pro
torch.set_num_threads(1)
texts, model = json.load(open(sys.argv[1])), Sen2Pro(method="one-pass")
parts = itertools.cycle(texts[start : start + 500] for start in range(0, len(texts), 500))
model.encode_plain(texts[:64])
print("ready", flush=True)
for line in sys.stdin:
    wall, cpu, until, done = time.perf_counter(), time.process_time(), time.perf_counter() + float(line), 0
    while time.perf_counter() < until:
        done += len(model.encode_plain(next(parts)))
    print(json.dumps([done / (time.perf_counter() - wall), done / (time.process_time() - cpu)]), flush=True)
"""


def sentences() -> list[str]:
    """Return sentences of 8 to 25 words: of STS where the evaluation data is, else made ones."""
    found: list[str] = []
    folder = Path(os.environ.get("SEN2PRO_DATA") or "none") / "sts"
    for path in sorted(folder.rglob("*.tsv")) if folder.is_dir() else []:
        for line in path.read_text(encoding="utf-8", errors="ignore").splitlines():
            found += [part for part in line.split("\t") if 8 <= len(part.split()) <= 25]
    found = list(dict.fromkeys(found))
    draw = random.Random(0)
    if len(found) < TEXTS:
        words = ["the", "a", "man", "dog", "plays", "runs", "guitar", "ball", "house", "red", "market", "fell", "rain"]
        found += [" ".join(draw.choices(words, k=draw.randint(8, 25))) for _ in range(TEXTS)]
    return draw.sample(found, TEXTS)


class Connection(asyncio.Protocol):
    """A connection that sends a call and waits for its answer: as little work as HTTP allows."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Notify the caller."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("closed"))

    def data_received(self, data: bytes) -> None:
        """Gather an answer: its head, and as many bytes as that says."""
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        at = head.find(b"content-length:")
        size = int(head[at + 15 :].split(b"\r\n")[0])
        if len(self.buffer) >= end + 4 + size and self.answer is not None and not self.answer.done():
            body = bytes(self.buffer[end + 4 : end + 4 + size])
            del self.buffer[: end + 4 + size]
            self.answer.set_result((int(head[9:12]), body))

    def close(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    async def ask(self, call: bytes) -> tuple[int, bytes]:
        """Send a call; return status and body of its answer."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(call)
        return await self.answer


def request(body: Any, path: str = "/v1/embeddings", kind: str = "application/json") -> bytes:
    """Return the bytes of a call."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def connect(port: int) -> Connection:
    """Open a connection."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def load(port: int, calls: list[bytes], clients: int, seconds: float) -> tuple[float, list[float]]:
    """Ask from a number of clients, each waiting for its answer; return answers per second and all latencies."""
    until, latencies, ended = time.perf_counter() + seconds, [], []

    async def client(number: int) -> None:
        connection, at = await connect(port), number * 37
        while time.perf_counter() < until:
            began = time.perf_counter()
            status, _ = await connection.ask(calls[at % len(calls)])
            assert status == 200, status
            latencies.append(time.perf_counter() - began)
            at += 1
        ended.append(time.perf_counter())
        connection.close()

    began = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return len(latencies) / (max(ended) - began), latencies


def pinned(core: int) -> Callable[[], None]:
    """Return what a new process does first: stay on one core."""
    return lambda: os.sched_setaffinity(0, {core})


@contextmanager
def started(command: list[str], core: int, port: int) -> Iterator[psutil.Process]:
    """Start a server on a core, and wait until it is ready."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.NamedTemporaryFile("wb") as log:
        process = subprocess.Popen(command, env=environment, preexec_fn=pinned(core), stdout=log, stderr=log)
        try:
            for _ in range(1200):
                time.sleep(0.1)
                assert process.poll() is None, Path(log.name).read_text(encoding="utf-8")
                try:
                    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                        f"http://127.0.0.1:{port}/health", timeout=5
                    )
                    break
                except OSError:
                    continue
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)


def free_port() -> int:
    """Return a free port."""
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def ours(port: int) -> list[str]:
    """Return the command of our server."""
    return [sys.executable, "-m", "sen2pro", "serve", "--port", str(port)]


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def throughput(arguments: argparse.Namespace, texts: list[str], core: int) -> dict[str, Any]:
    """Take turns: the library's own, our server, and so on."""
    port = free_port()
    rows: dict[str, list[list[float]]] = {"library": [], "float": [], "base64": []}
    calls = {
        name: [request({"input": text, "encoding_format": name}) for text in texts] for name in ("float", "base64")
    }
    with tempfile.TemporaryDirectory() as folder, started(ours(port), core, port) as server:
        place = Path(folder, "texts.json")
        place.write_text(json.dumps(texts), encoding="utf-8")
        library = subprocess.Popen(
            [sys.executable, "-c", _LIBRARY, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, preexec_fn=pinned(core),
        )  # fmt: skip
        assert library.stdin
        assert library.stdout
        library.stdout.readline()
        for _ in range(arguments.rounds):
            library.stdin.write(f"{arguments.seconds}\n")
            library.stdin.flush()
            rows["library"].append(json.loads(library.stdout.readline()))
            for name in ("float", "base64"):
                before = cpu_seconds(server)
                rate, latencies = asyncio.run(load(port, calls[name], arguments.clients, arguments.seconds))
                rows[name].append([rate, len(latencies) / (cpu_seconds(server) - before)])
        library.stdin.close()
        library.wait()
    medians = {name: [statistics.median(column) for column in zip(*row, strict=True)] for name, row in rows.items()}
    for name, (wall, cpu) in medians.items():
        share = [100 * value / medians["library"][i] for i, value in enumerate((wall, cpu))]
        print(f"{name:8} {wall:7.1f} texts/s ({share[0]:5.1f} %)   {cpu:7.1f} texts/CPU s ({share[1]:5.1f} %)")
    return {"clients": arguments.clients, "rows": rows, "medians": medians}


def percentiles(latencies: list[float]) -> list[float]:
    """Return p50 and p99 in milliseconds."""
    return [round(1000 * float(value), 1) for value in np.percentile(latencies, [50, 99])]


def latency(arguments: argparse.Namespace, texts: list[str], core: int) -> dict[str, Any]:
    """Measure p50 and p99 for several numbers of clients."""
    port = free_port()
    found: dict[str, list[float]] = {}
    with started(ours(port), core, port):
        calls = [request({"input": text}) for text in texts]
        for clients in LATENCY_CLIENTS:
            rate, latencies = asyncio.run(load(port, calls, clients, arguments.seconds))
            found[str(clients)] = [rate, *percentiles(latencies)]
            p50, p99 = found[str(clients)][1:]
            print(f"{clients:4} clients: {rate:7.1f} texts/s, p50 {p50} ms, p99 {p99} ms")
    return found


BAD = (
    request(b"{"), request({"input": 5}), request({"input": ""}), request({"input": "a"}, kind="text/plain"),
    request({"input": "a", "model": "other"}), request({"input": "x" * 60_000}), request({}, "/v1/nothing"),
    request(b"\xff\xfe{}"), request({"input": ["a"] * 3000}), request({"inputs": {"a": [1]}}, "/embed"),
)  # fmt: skip


class Soak:
    """Clients that send good, bad and cancelled calls, and check every answer; `counts` has the results."""

    def __init__(self, port: int, texts: list[str], minutes: float) -> None:
        from sen2pro import Sen2Pro

        model = Sen2Pro(method="one-pass")
        self.port, self.texts, self.expected = port, texts, model.encode_plain(texts)
        pairs = model.compare(texts[:PAIRS], texts[PAIRS : 2 * PAIRS])
        self.compared = np.array([[pair.probability, pair.similarity] for pair in pairs])
        self.counts: Counter[str] = Counter()
        self.memory: list[float] = []
        self.until = time.perf_counter() + 60 * minutes

    async def run(self, server: psutil.Process) -> None:
        """Run all clients to the end, and look at the memory of the server every five seconds."""
        await asyncio.gather(self.watch(server), *map(self.client, range(SOAK_CLIENTS)))

    async def watch(self, server: psutil.Process) -> None:
        """Note the memory of the server in MiB."""
        while time.perf_counter() < self.until:
            self.memory.append(server.memory_info().rss / 2**20)
            await asyncio.sleep(5)

    async def client(self, number: int) -> None:
        """Send calls, one after the other."""
        draw, connection = random.Random(number), await connect(self.port)
        while time.perf_counter() < self.until:
            try:
                if not await self.call(draw, connection):
                    connection = await connect(self.port)
            except (asyncio.TimeoutError, ConnectionError):
                self.counts["lost"] += 1
                connection = await connect(self.port)
        connection.close()

    async def call(self, draw: random.Random, connection: Connection) -> bool:
        """Send a call of some kind and check its answer; return whether the connection can be used again."""
        dice, row = draw.random(), draw.randrange(PAIRS)
        rows = [draw.randrange(len(self.texts)) for _ in range(1 if dice < 0.92 else 20)]
        if dice < 0.05:
            content = draw.choice(BAD)
        elif dice > 0.97:
            content = request({"first": self.texts[row], "second": self.texts[PAIRS + row]}, "/v1/compare")
        else:
            content = request({"input": [self.texts[i] for i in rows], "encoding_format": "base64"})
        self.counts["sent"] += 1
        if 0.05 <= dice < 0.10:
            task = asyncio.ensure_future(connection.ask(content))
            await asyncio.sleep(draw.random() * 0.3)
            task.cancel()
            connection.close()
            self.counts["cancelled"] += 1
            return False
        status, body = await asyncio.wait_for(connection.ask(content), 60)
        if dice < 0.05:
            self.counts["refused" if 400 <= status < 500 and b"error" in body else "wrong"] += 1
            connection.close()
            return False
        if status != 200:
            self.counts[f"status {status}"] += 1
        elif dice > 0.97:
            (found,) = json.loads(body)["data"]
            far = np.abs(np.array([found["probability"], found["similarity"]]) - self.compared[row]).max()
            self.counts["pair right" if far <= PAIR_TOLERANCE else "wrong"] += 1
        else:
            data = json.loads(body)["data"]
            vectors = np.stack([np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in data])
            right = vectors.shape == (len(rows), 384) and np.abs(vectors - self.expected[rows]).max() <= TOLERANCE
            self.counts["right" if right else "wrong"] += 1
        return True


def soak(arguments: argparse.Namespace, texts: list[str], core: int) -> dict[str, Any]:
    """Run 200 clients for minutes. Most calls ask for vectors, some compare pairs; `failed` has what went wrong."""
    port = free_port()
    with started(ours(port), core, port) as server:
        soaking = Soak(port, texts, arguments.minutes)
        asyncio.run(soaking.run(server))
        metrics = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{port}/metrics")
        left = [line for line in metrics.read().decode().splitlines() if line.startswith("sen2pro_queue_texts ")]
    counts, memory = soaking.counts, soaking.memory
    settled = memory[len(memory) // 5 :]
    print(dict(counts), f"memory {settled[0]:.0f} -> {settled[-1]:.0f} MiB (most {max(memory):.0f})", *left)
    failed = [f"{counts[name]} {name}" for name in ("wrong", "lost") if counts[name]]
    if counts.total() != 2 * counts["sent"]:
        failed.append(f"{counts['sent']} calls were sent, but {counts.total() - counts['sent']} outcomes counted")
    return {
        "minutes": arguments.minutes, "clients": SOAK_CLIENTS, "counts": dict(counts), "memory": memory,
        "failed": failed,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[], metavar="part")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})  # the generator
    texts = sentences()
    failed: list[str] = []
    for part in arguments.parts or PARTS:
        print(f"== {part}")
        found = globals()[part](arguments, texts, cores[0])
        save(f"server_{part}", found)
        failed += found.get("failed", [])
    if failed:
        sys.exit("failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
