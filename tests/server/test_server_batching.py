"""The queue of the server, without HTTP: who is in which batch, who is refused, who leaves."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip(
    "prometheus_client", reason="the server's packages are not installed: pip install 'sen2pro[server]'"
)

from sen2pro.server.batching import Batcher, BatchJob, PendingRequest, take, wait_for_results
from sen2pro.server.http_errors import ClientGone, RequestError
from sen2pro.server.observability import Metrics

pytestmark = pytest.mark.anyio


class Work:
    """A job that notes its batches, and waits before each until it may continue."""

    def __init__(self, *, waits=True, key="work"):
        self.batches, self.go, self.began = [], threading.Semaphore(0 if waits else 10_000), threading.Semaphore(0)
        self.job = BatchJob((key,), self.run)

    def run(self, units):
        self.batches.append(list(units))
        self.began.release()
        self.go.acquire()
        if "bad" in units:
            raise ValueError("a secret of the text")
        return [unit.upper() for unit in units]


async def forever():
    await asyncio.Event().wait()


async def at_once():
    """Be a client that is gone."""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def batcher():
    """A function that starts a queue; all of them end with the test."""
    made = []

    def start(budget=10, most=1000, window=0.0):
        made.append(Batcher(budget, most, window, Metrics()))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        assert each.close(20)


async def until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


async def test_a_short_text_is_in_the_next_batch_whoever_has_a_thousand_waiting(batcher):
    queue, work = batcher(budget=100), Work()
    long = queue.submit(work.job, [f"long {n}" for n in range(1000)], [50] * 1000)
    await until(lambda: work.batches)  # the first batch of the long request runs
    short = queue.submit(work.job, ["short"], [5])
    work.go.release(2)
    assert await short.future == ["SHORT"]
    assert [("short" in batch) for batch in work.batches[:2]] == [False, True]
    queue.cancel(long)
    work.go.release(10)
    assert queue.waiting == 0
    assert long.future.cancelled()


def pending(job, *sizes):
    """Return a request of units with these numbers of tokens, without a future."""
    return PendingRequest(BatchJob((job,), list), list(range(len(sizes))), sizes, future=None)


def batches_until_done(one, others):
    """Take batches of 100 tokens until a request is done, while other clients ask for one text again and again."""
    queue, batches = deque([*others, one]), 0
    while one.next < len(one.units):
        batch, _ = take(queue, 100)
        queue.extend(pending(request.job.key[0], 10) for request, _ in batch if request is not one)
        batches += 1
    return batches


def test_no_request_is_left_behind_by_many_others():
    many = pending("work", *[10] * 20)  # gets five texts of ten in the first batch, and four in each later one
    assert batches_until_done(many, [pending("work", 10) for _ in range(200)]) == 5
    rare = pending("rare", 10)  # waits for 30 clients of another job, ten to a batch
    assert batches_until_done(rare, [pending("busy", 10) for _ in range(30)]) == 4


async def test_texts_of_several_calls_share_a_batch_up_to_the_budget(batcher):
    queue, work = batcher(budget=30), Work()
    first = queue.submit(work.job, ["0"], [10])
    await until(lambda: work.batches)
    others = [queue.submit(work.job, [str(n)], [10]) for n in range(1, 8)]
    work.go.release(10)
    assert await asyncio.gather(*(request.future for request in (first, *others))) == [[str(n)] for n in range(8)]
    assert work.batches == [["0"], ["1", "2", "3"], ["4", "5", "6"], ["7"]]


async def test_clients_that_ask_again_and_again_share_two_batches_of_one_size(batcher):
    """While one half is worked on, the other half waits: no request is left for a small batch, which costs more."""
    queue, work = batcher(budget=140), Work()
    requests = [queue.submit(work.job, ["0"], [10])]
    await asyncio.to_thread(work.began.acquire)
    requests += [queue.submit(work.job, [str(n)], [10]) for n in range(1, 16)]
    for _ in range(6):
        work.go.release()
        await asyncio.to_thread(work.began.acquire)  # the next batch runs; who was answered asks again
        answered = [
            request for request in requests if request.future.done() or len(request.results) == len(request.units)
        ]
        requests = [request for request in requests if request not in answered]
        requests += [queue.submit(work.job, request.units, [10]) for request in answered]
    assert [len(batch) for batch in work.batches] == [1, 8, 8, 8, 8, 8, 8]
    work.go.release(10)
    await asyncio.gather(*(request.future for request in requests))


async def test_a_call_that_finds_the_queue_empty_is_not_cut(batcher):
    queue, work = batcher(budget=1000), Work(waits=False)
    await queue.submit(work.job, ["0"], [10]).future
    await until(lambda: queue.is_idle)
    await queue.submit(work.job, list("abcdefgh"), [10] * 8).future
    assert work.batches == [["0"], list("abcdefgh")]


async def test_a_full_queue_refuses_and_says_when_to_come_back(batcher):
    queue, work = batcher(most=3), Work()
    queue.submit(work.job, ["0"], [10])
    await until(lambda: work.batches)
    waiting = queue.submit(work.job, ["a", "b"], [10, 10])
    with pytest.raises(RequestError) as refused:
        queue.submit(work.job, ["c", "d"], [1, 1])
    assert refused.value.kind == "busy"
    assert refused.value.retry_after >= 1
    work.go.release(10)
    assert await waiting.future == ["A", "B"]


async def test_a_client_that_goes_away_leaves_the_queue(batcher):
    queue, work = batcher(), Work()
    queue.submit(work.job, ["0"], [10])
    await until(lambda: work.batches)
    gone = queue.submit(work.job, ["gone"] * 50, [10] * 50)
    stays = queue.submit(work.job, ["stays"], [10])
    with pytest.raises(ClientGone):
        await wait_for_results(queue, gone, at_once(), 60)
    work.go.release(10)
    assert await stays.future == ["STAYS"]
    assert work.batches == [["0"], ["stays"]]


async def test_a_call_that_takes_too_long_is_given_up(batcher):
    queue, work = batcher(), Work()
    queue.submit(work.job, ["0"], [10])
    await until(lambda: work.batches)
    with pytest.raises(RequestError) as late:
        await wait_for_results(queue, queue.submit(work.job, ["late"], [10]), forever(), 0.05)
    assert late.value.kind == "late"
    assert queue.waiting == 0
    work.go.release(10)


async def test_a_text_that_fails_harms_nobody_else_in_its_batch(batcher, caplog):
    queue, work = batcher(budget=100), Work(waits=False)
    hold = Work()
    queue.submit(hold.job, ["0"], [1])
    await until(lambda: hold.batches)
    requests = [queue.submit(work.job, [unit], [1]) for unit in ("a", "bad", "b")]
    hold.go.release()
    results = await asyncio.gather(*(request.future for request in requests), return_exceptions=True)
    assert results[0] == ["A"]
    assert results[2] == ["B"]
    assert isinstance(results[1], RequestError)
    assert results[1].kind == "failed"
    assert "secret" not in caplog.text  # a log holds no text, and the message of an error may quote one


async def test_a_failed_batch_is_run_again_only_for_those_who_still_wait(batcher):
    queue, work = batcher(budget=100), Work()
    queue.submit(work.job, ["0"], [1])
    await until(lambda: work.batches)
    gone = queue.submit(work.job, ["bad"] * 20, [1] * 20)
    stays = queue.submit(work.job, ["stays"], [1])
    work.go.release()
    await until(lambda: len(work.batches) == 2)
    queue.cancel(gone)  # while its batch runs
    work.go.release(50)
    assert await stays.future == ["STAYS"]
    assert work.batches[2:] == [["stays"]]


async def test_the_queue_is_finished_when_it_is_closed(batcher):
    queue, work = batcher(), Work(waits=False)
    requests = [queue.submit(work.job, [str(n)], [10]) for n in range(20)]
    assert await asyncio.to_thread(queue.close, 20)
    assert await asyncio.gather(*(request.future for request in requests)) == [[str(n)] for n in range(20)]


async def test_a_batch_that_takes_too_long_does_not_hold_up_the_end(batcher):
    queue, work = batcher(), Work()
    queue.submit(work.job, ["0"], [10])
    await until(lambda: work.batches)
    assert not queue.close(0.01)
    work.go.release()
    assert await asyncio.to_thread(queue.close, 20)


async def test_a_job_that_gives_too_few_results_fails_its_request_and_the_worker_goes_on(batcher):
    queue, work = batcher(), Work(waits=False)
    wrong = queue.submit(BatchJob(("wrong",), lambda units: []), ["a"], [1])
    with pytest.raises(RequestError) as failed:
        await asyncio.wait_for(wrong.future, 20)
    assert failed.value.kind == "failed"
    assert await asyncio.wait_for(queue.submit(work.job, ["b"], [1]).future, 20) == ["B"]


@given(
    calls=st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=6), min_size=1, max_size=8),
    jobs=st.integers(1, 3),
    budget=st.integers(1, 120),
)
def test_every_text_is_taken_once_and_no_batch_is_over_its_budget_but_for_a_single_text(calls, jobs, budget):
    requests = [pending(n % jobs, *sizes) for n, sizes in enumerate(calls)]
    queue, taken = deque(requests), []
    while queue:
        first = queue[0]
        batch, tokens = take(queue, budget)
        assert tokens == sum(request.tokens[number] for request, number in batch)
        assert tokens <= budget or len(batch) == 1
        assert {request.job for request, _ in batch} == {first.job}
        assert first in {request for request, _ in batch}
        taken += [(requests.index(request), request.units[number]) for request, number in batch]
    assert sorted(taken) == [(n, i) for n, sizes in enumerate(calls) for i in range(len(sizes))]
