"""Measure the server: throughput beside the library's own, latency, the simplest route around an encoder, a soak.

    python benchmarks/server.py [throughput] [latency] [simplest] [soak] [--seconds 20] [--minutes 10] [--clients 64]

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

PARTS = ("throughput", "latency", "simplest", "soak")
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
model.sen2vec(texts[:64])
print("ready", flush=True)
for line in sys.stdin:
    wall, cpu, until, done = time.perf_counter(), time.process_time(), time.perf_counter() + float(line), 0
    while time.perf_counter() < until:
        done += len(model.sen2vec(next(parts)))
    print(json.dumps([done / (time.perf_counter() - wall), done / (time.process_time() - cpu)]), flush=True)
"""
_SIMPLEST = """
import sys, torch, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer
torch.set_num_threads(1)
app, model = FastAPI(), SentenceTransformer(sys.argv[1], device="cpu")

class Call(BaseModel):
    input: str

@app.get("/health")
def health():
    return "ok"

@app.post("/v1/embeddings")
def embed(call: Call):
    return {"data": [{"embedding": model.encode(call.input, show_progress_bar=False).tolist()}]}

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
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
        self.buffer, self.answer, self.transport = bytearray(), None, None

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits."""
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

    async def ask(self, call: bytes) -> tuple[int, bytes]:
        """Send a call; return status and body of its answer."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(call)
        return await self.answer


def request(body: Any, path: str = "/v1/embeddings", kind: str = "application/json") -> bytes:
    """Return the bytes of a call."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def connect(port: int) -> Connection:
    """Open a connection."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def load(port: int, calls: list[bytes], clients: int, seconds: float) -> tuple[float, list[float]]:
    """Ask from so many clients, each waiting for its answer; return answers a second and all latencies."""
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
        connection.transport.close()

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
    """Return a port that nobody has."""
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
    port, rows = free_port(), {"library": [], "float": [], "base64": []}
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
    port, found = free_port(), {}
    with started(ours(port), core, port):
        calls = [request({"input": text}) for text in texts]
        for clients in LATENCY_CLIENTS:
            rate, latencies = asyncio.run(load(port, calls, clients, arguments.seconds))
            found[clients] = [rate, *percentiles(latencies)]
            print(f"{clients:4} clients: {rate:7.1f} texts/s, p50 {found[clients][1]} ms, p99 {found[clients][2]} ms")
    return found


def simplest(arguments: argparse.Namespace, texts: list[str], core: int) -> dict[str, Any]:
    """Measure the simplest FastAPI route around SentenceTransformer.encode beside our server, in turns."""
    from sen2pro.encoder.resolve import resolve

    one, other, found = free_port(), free_port(), {"ours": [], "simplest": []}
    calls = [request({"input": text}) for text in texts]
    command = [sys.executable, "-c", _SIMPLEST, str(resolve("all-MiniLM-L6-v2")), str(other)]
    with started(ours(one), core, one) as first, started(command, core, other) as second:
        asyncio.run(load(other, calls, 4, 2))
        for _ in range(arguments.rounds):
            for name, port, server in (("ours", one, first), ("simplest", other, second)):
                before = cpu_seconds(server)
                rate, latencies = asyncio.run(load(port, calls, arguments.clients, arguments.seconds))
                by_cpu = len(latencies) / (cpu_seconds(server) - before)
                found[name].append([rate, by_cpu, *percentiles(latencies)])
                print(f"{name:9} {rate:6.1f} texts/s, {by_cpu:6.1f} texts/CPU s, p50 and p99 {found[name][-1][2:]} ms")
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}
    ratios = [medians["ours"][i] / medians["simplest"][i] for i in range(2)]
    print(f"ratio {ratios[0]:.2f} by the clock, {ratios[1]:.2f} by CPU time")
    return {**found, "ratios": ratios}


BAD = (
    request(b"{"), request({"input": 5}), request({"input": ""}), request({"input": "a"}, kind="text/plain"),
    request({"input": "a", "model": "other"}), request({"input": "x" * 60_000}), request({}, "/v1/nothing"),
    request(b"\xff\xfe{}"), request({"input": ["a"] * 3000}), request({"inputs": {"a": [1]}}, "/embed"),
)  # fmt: skip


def soak(arguments: argparse.Namespace, texts: list[str], core: int) -> dict[str, Any]:
    """Run 200 clients for minutes, with bad and cancelled calls among the good ones; check every answer.

    Most calls ask for vectors, some compare pairs, which is work of another kind. What went wrong is under `failed`.
    """
    from sen2pro import Sen2Pro
    from sen2pro.confidence.comparison import compare_pairs

    model = Sen2Pro(method="one-pass")
    expected = model.sen2vec(texts)
    pairs = compare_pairs(model, texts[:PAIRS], texts[PAIRS : 2 * PAIRS])
    compared = np.array([[pair.probability, pair.similarity] for pair in pairs])
    counts: Counter[str] = Counter()
    memory: list[float] = []
    port = free_port()

    def check(body: bytes, rows: list[int]) -> None:
        data = json.loads(body)["data"]
        vectors = np.stack([np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in data])
        right = vectors.shape == (len(rows), 384) and np.abs(vectors - expected[rows]).max() <= TOLERANCE
        counts["right" if right else "wrong"] += 1

    def check_pair(body: bytes, row: int) -> None:
        (found,) = json.loads(body)["data"]
        difference = np.abs(np.array([found["probability"], found["similarity"]]) - compared[row]).max()
        counts["pair right" if difference <= PAIR_TOLERANCE else "wrong"] += 1

    async def client(number: int, until: float) -> None:
        draw, connection = random.Random(number), await connect(port)
        while time.perf_counter() < until:
            dice = draw.random()
            try:
                if dice < 0.05:
                    counts["sent"] += 1
                    status, body = await asyncio.wait_for(connection.ask(draw.choice(BAD)), 60)
                    told = 400 <= status < 500 and b"error" in body
                    counts["refused" if told else "wrong"] += 1
                    connection.transport.close()
                    connection = await connect(port)
                    continue
                if dice > 0.97:
                    row = draw.randrange(PAIRS)
                    call = request({"first": texts[row], "second": texts[PAIRS + row]}, "/v1/compare")
                    counts["sent"] += 1
                    status, body = await asyncio.wait_for(connection.ask(call), 60)
                    if status == 200:
                        check_pair(body, row)
                    else:
                        counts[f"status {status}"] += 1
                    continue
                rows = [draw.randrange(len(texts)) for _ in range(1 if dice < 0.92 else 20)]
                call = request({"input": [texts[row] for row in rows], "encoding_format": "base64"})
                counts["sent"] += 1
                if dice < 0.10:
                    task = asyncio.ensure_future(connection.ask(call))
                    await asyncio.sleep(draw.random() * 0.3)
                    task.cancel()
                    connection.transport.abort()
                    counts["cancelled"] += 1
                    connection = await connect(port)
                    continue
                status, body = await asyncio.wait_for(connection.ask(call), 60)
                if status == 200:
                    check(body, rows)
                else:
                    counts[f"status {status}"] += 1
            except (asyncio.TimeoutError, ConnectionError):
                counts["lost"] += 1
                connection = await connect(port)
        connection.transport.close()

    async def watch(server: psutil.Process, until: float) -> None:
        while time.perf_counter() < until:
            memory.append(server.memory_info().rss / 2**20)
            await asyncio.sleep(5)

    async def run(server: psutil.Process) -> None:
        until = time.perf_counter() + 60 * arguments.minutes
        await asyncio.gather(watch(server, until), *(client(number, until) for number in range(SOAK_CLIENTS)))

    with started(ours(port), core, port) as server:
        asyncio.run(run(server))
        metrics = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{port}/metrics")
        left = [line for line in metrics.read().decode().splitlines() if line.startswith("sen2pro_queue_texts ")]
    settled = memory[len(memory) // 5 :]
    print(dict(counts), f"memory {settled[0]:.0f} -> {settled[-1]:.0f} MiB (most {max(memory):.0f})", *left)
    outcomes = sum(number for name, number in counts.items() if name != "sent")
    failed = [f"{counts[name]} {name}" for name in ("wrong", "lost") if counts[name]]
    if outcomes != counts["sent"]:
        failed.append(f"{counts['sent']} calls were sent, but {outcomes} outcomes counted")
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
