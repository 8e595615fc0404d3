"""The address of a cluster that is not there, and exits that a signal asks for: no cluster is needed to tell."""

import os
import signal
import socket
import sys

import pytest
from scale_runs import names, write_lines
from test_cli import run

from sen2pro import Sen2ProError
from sen2pro.jobs import cluster
from sen2pro.jobs.cluster import Exits, check_address


@pytest.fixture
def closed():
    """A port of this machine on which nobody listens, for as long as the test holds it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "localhost:{}", "RAY://127.0.0.1:{}/path"])
def test_an_address_where_nobody_answers_is_said_at_once(closed, form):
    address = form.format(closed)
    with pytest.raises(Sen2ProError, match=f"nobody answers at '{address}' .*is the address right"):
        check_address(address)


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "localhost:{}"])
def test_an_address_where_somebody_answers_is_left_to_ray(form):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        check_address(form.format(server.getsockname()[1]))


@pytest.mark.parametrize("address", ["auto", "local", "ray://head", "anyscale://project/cluster"])
def test_what_only_ray_can_read_is_left_to_it(address):
    check_address(address)


@pytest.mark.parametrize(
    "address",
    ["nonsense", "a b", "", ":", ":6379", "host:", "host:port", "host:99999999", "host:-1", "[::1", "ray://"],
)
def test_garbage_is_no_address(address):
    with pytest.raises(Sen2ProError, match="is no address of a Ray cluster; give host:port"):
        check_address(address)


@pytest.mark.parametrize("address", ["no-such-host.invalid:6379", f"{'x' * 70}.invalid:6379", "a\0b:6379"])
def test_a_host_that_nobody_knows_is_said(address, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 1.0)
    with pytest.raises(Sen2ProError, match="nobody answers at"):
        check_address(address)


@pytest.mark.parametrize("how", ["option", "environment"])
def test_the_command_line_names_the_address(closed, tmp_path, monkeypatch, how):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("Ray was asked, which takes minutes"))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    address = f"127.0.0.1:{closed}"
    monkeypatch.setenv("RAY_ADDRESS", address if how == "environment" else "127.0.0.1:1")
    options = ["--address", address] if how == "option" else []
    source = write_lines(tmp_path / "in.txt", ["one dog"])
    result = run("encode", source, tmp_path / "out.parquet", "--engine", "ray", *options)
    assert (result.exit_code, f"nobody answers at '{address}'" in " ".join(result.output.split())) == (2, True)
    assert names(tmp_path) == ["in.txt"]


def test_ray_that_is_not_installed_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "sen2pro.integrations.ray", raising=False)
    source = write_lines(tmp_path / "in.txt", ["one dog"])
    for command in ("encode", "index"):
        result = run(command, source, tmp_path / "out.parquet", "--engine", "ray")
        assert (result.exit_code, "pip install 'sen2pro[ray]'" in " ".join(result.output.split())) == (2, True)
    assert names(tmp_path) == ["in.txt"]


# Exits.


@pytest.fixture
def handler():
    """A handler of SIGTERM that exits with 143, as that of the command line; what was there before comes back."""

    def handle(number, _):
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, handle)
    yield handle
    signal.signal(signal.SIGTERM, before)


def swallowed():
    """Do what Ray does to a handler's exit while it waits."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except SystemExit:
        raise SystemExit(1) from None


def test_the_exit_of_a_handler_keeps_its_code(handler):
    exits = Exits()
    exits.watch()
    with pytest.raises(SystemExit) as asked, exits.kept():
        swallowed()
    assert asked.value.code == 143
    exits.forget()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_an_exit_that_no_signal_asked_for_stays_as_it_is(handler):
    exits = Exits()
    exits.watch()
    with pytest.raises(SystemExit) as asked, exits.kept():
        raise SystemExit(7)
    assert asked.value.code == 7
    exits.forget()


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        exits = Exits()
        exits.watch()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        exits.forget()
    finally:
        signal.signal(signal.SIGTERM, before)
