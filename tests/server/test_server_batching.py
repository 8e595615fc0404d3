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

from sen2pro.server.batching import Batcher, Lane, Ticket, answer, late, take
from sen2pro.server.metrics import Metrics
from sen2pro.server.problems import Gone, Problem


class Work:
    """A lane that notes its batches, and waits before each until it is let go."""

    def __init__(self, *, waits=True, key="work"):
        self.batches, self.go, self.began = [], threading.Semaphore(0 if waits else 10_000), threading.Semaphore(0)
        self.lane = Lane((key,), self.run)

    def run(self, units):
        self.batches.append(list(units))
        self.began.release()
        self.go.acquire()
        if "bad" in units:
            raise ValueError("a secret of the text")
        return [unit.upper() for unit in units]


async def forever():
    await asyncio.Event().wait()


async def disconnected():
    return {"type": "http.disconnect"}


def batcher(budget=10, most=1000, window=0.0):
    made = Batcher(budget, most, window, Metrics())
    made.start()
    return made


async def until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


def test_a_short_text_is_in_the_next_batch_whoever_has_a_thousand_waiting():
    async def run():
        queue, work = batcher(budget=100), Work()
        long = queue.submit(work.lane, [f"long {n}" for n in range(1000)], [50] * 1000)
        await until(lambda: work.batches)  # the stranger's first batch runs
        short = queue.submit(work.lane, ["short"], [5])
        work.go.release(2)
        assert await short.future == ["SHORT"]
        assert [("short" in batch) for batch in work.batches[:2]] == [False, True]
        queue.cancel(long, Gone())
        work.go.release(10)
        assert queue.waiting == 0
        await asyncio.to_thread(queue.close)
        with pytest.raises(Gone):
            await long.future

    asyncio.run(run())


def test_a_call_of_many_texts_is_not_left_behind_by_many_calls_of_one():
    """A call of 20 texts among 200 clients that ask for one text again and again gets nearly half of each batch."""
    loop, lane = asyncio.new_event_loop(), Lane(("work",), list)
    many = Ticket(lane, list(range(20)), [10] * 20, loop.create_future())
    queue = deque([many, *(Ticket(lane, [0], [10], loop.create_future()) for _ in range(200))])
    batches = 0
    while many.next < len(many.units):
        batch, _ = take(queue, 100)
        queue.extend(Ticket(lane, [0], [10], loop.create_future()) for ticket, _ in batch if ticket is not many)
        batches += 1
    assert batches == 5  # of ten units: five of the first one are its own, four of each later one
    loop.close()


def test_texts_of_several_calls_share_a_batch_up_to_the_budget():
    async def run():
        queue, work = batcher(budget=30), Work()
        first = queue.submit(work.lane, ["0"], [10])
        await until(lambda: work.batches)
        others = [queue.submit(work.lane, [str(n)], [10]) for n in range(1, 8)]
        work.go.release(10)
        assert await asyncio.gather(*(ticket.future for ticket in (first, *others))) == [[str(n)] for n in range(8)]
        assert work.batches == [["0"], ["1", "2", "3"], ["4", "5", "6"], ["7"]]
        await asyncio.to_thread(queue.close)

    asyncio.run(run())


def test_clients_that_ask_again_and_again_share_two_batches_of_one_size():
    """While one half is worked on, the other half waits: nobody is left over for a small batch, which costs more."""

    async def run():
        queue, work = batcher(budget=140), Work()
        tickets = [queue.submit(work.lane, ["0"], [10])]
        await asyncio.to_thread(work.began.acquire)
        tickets += [queue.submit(work.lane, [str(n)], [10]) for n in range(1, 16)]
        for _ in range(6):
            work.go.release()
            await asyncio.to_thread(work.began.acquire)  # the next batch runs; who was answered asks again
            answered = [ticket for ticket in tickets if ticket.future.done() or not ticket.left]
            tickets = [ticket for ticket in tickets if ticket not in answered]
            tickets += [queue.submit(work.lane, ticket.units, [10]) for ticket in answered]
        assert [len(batch) for batch in work.batches] == [1, 8, 8, 8, 8, 8, 8]
        work.go.release(10)
        await asyncio.gather(*(ticket.future for ticket in tickets))
        await asyncio.to_thread(queue.close)

    asyncio.run(run())


def test_a_call_that_finds_the_queue_empty_is_not_cut():
    async def run():
        queue, work = batcher(budget=1000), Work(waits=False)
        await queue.submit(work.lane, ["0"], [10]).future
        await until(lambda: queue.is_idle)
        await queue.submit(work.lane, list("abcdefgh"), [10] * 8).future
        assert work.batches == [["0"], list("abcdefgh")]
        await asyncio.to_thread(queue.close)

    asyncio.run(run())


def test_a_full_queue_refuses_and_says_when_to_come_back():
    async def run():
        queue, work = batcher(most=3), Work()
        queue.submit(work.lane, ["0"], [10])
        await until(lambda: work.batches)
        waiting = queue.submit(work.lane, ["a", "b"], [10, 10])
        with pytest.raises(Problem) as refused:
            queue.submit(work.lane, ["c", "d"], [1, 1])
        assert refused.value.kind == "busy"
        assert refused.value.retry_after >= 1
        work.go.release(10)
        assert await waiting.future == ["A", "B"]
        await asyncio.to_thread(queue.close)

    asyncio.run(run())


def test_who_goes_away_leaves_the_queue():
    async def run():
        queue, work = batcher(), Work()
        queue.submit(work.lane, ["0"], [10])
        await until(lambda: work.batches)
        gone = queue.submit(work.lane, ["gone"] * 50, [10] * 50)
        stays = queue.submit(work.lane, ["stays"], [10])
        with pytest.raises(Gone):
            await answer(queue, gone, disconnected, 60)
        work.go.release(10)
        assert await stays.future == ["STAYS"]
        assert work.batches == [["0"], ["stays"]]
        await asyncio.to_thread(queue.close)

    asyncio.run(run())


def test_a_call_that_takes_too_long_is_given_up():
    async def run():
        queue, work = batcher(), Work()
        queue.submit(work.lane, ["0"], [10])
        await until(lambda: work.batches)
        with pytest.raises(Problem) as late:
            await answer(queue, queue.submit(work.lane, ["late"], [10]), forever, 0.05)
        assert late.value.kind == "late"
        assert queue.waiting == 0
        work.go.release(10)
        await asyncio.to_thread(queue.close)

    asyncio.run(run())


def test_a_text_that_fails_harms_nobody_else_in_its_batch(caplog):
    async def run():
        queue, work = batcher(budget=100), Work(waits=False)
        hold = Work()
        queue.submit(hold.lane, ["0"], [1])
        await until(lambda: hold.batches)
        tickets = [queue.submit(work.lane, [unit], [1]) for unit in ("a", "bad", "b")]
        hold.go.release()
        results = await asyncio.gather(*(ticket.future for ticket in tickets), return_exceptions=True)
        assert results[0] == ["A"]
        assert results[2] == ["B"]
        assert isinstance(results[1], Problem)
        assert results[1].kind == "failed"
        await asyncio.to_thread(queue.close)

    asyncio.run(run())
    assert "secret" not in caplog.text  # a log holds no text, and the message of an error may quote one


def test_a_failed_batch_is_run_again_for_those_alone_who_still_wait():
    async def run():
        queue, work = batcher(budget=100), Work()
        queue.submit(work.lane, ["0"], [1])
        await until(lambda: work.batches)
        gone = queue.submit(work.lane, ["bad"] * 20, [1] * 20)
        stays = queue.submit(work.lane, ["stays"], [1])
        work.go.release()
        await until(lambda: len(work.batches) == 2)
        queue.cancel(gone, late())  # while its batch runs
        work.go.release(50)
        assert await stays.future == ["STAYS"]
        assert work.batches[2:] == [["stays"]]
        await asyncio.to_thread(queue.close)
        assert isinstance(gone.future.exception(), Problem)

    asyncio.run(run())


def test_what_is_in_hand_is_finished_when_the_queue_is_closed():
    async def run():
        queue, work = batcher(), Work(waits=False)
        tickets = [queue.submit(work.lane, [str(n)], [10]) for n in range(20)]
        await asyncio.to_thread(queue.close)
        assert await asyncio.gather(*(ticket.future for ticket in tickets)) == [[str(n)] for n in range(20)]

    asyncio.run(run())


def test_a_batch_that_takes_too_long_does_not_hold_up_the_end():
    async def run():
        queue, work = batcher(), Work()
        queue.submit(work.lane, ["0"], [10])
        await until(lambda: work.batches)
        assert not queue.close(0.01)
        work.go.release()
        assert await asyncio.to_thread(queue.close, 20)

    asyncio.run(run())


def test_work_of_another_kind_gets_its_turn():
    async def run():
        queue, work, other = batcher(budget=10), Work(), Work(waits=False, key="other")
        many = queue.submit(work.lane, ["x"] * 100, [10] * 100)
        await until(lambda: work.batches)
        ticket = queue.submit(other.lane, ["y"], [10])
        work.go.release(2)
        assert await ticket.future == ["Y"]
        assert len(work.batches) <= 3
        queue.cancel(many, Gone())
        work.go.release(10)
        await asyncio.to_thread(queue.close)
        assert isinstance(many.future.exception(), Gone)

    asyncio.run(run())


def test_a_lane_of_one_call_is_served_however_many_calls_another_lane_has():
    """30 clients of one lane, ten to a batch, ask again and again: one call of another lane waits three batches."""
    loop, busy, rare = asyncio.new_event_loop(), Lane(("busy",), list), Lane(("rare",), list)
    queue = deque(Ticket(busy, [0], [10], loop.create_future()) for _ in range(30))
    one = Ticket(rare, [0], [10], loop.create_future())
    queue.append(one)
    batches = 0
    while not one.next and batches < 20:
        batch, _ = take(queue, 100)
        queue.extend(Ticket(busy, [0], [10], loop.create_future()) for ticket, _ in batch if ticket is not one)
        batches += 1
    assert one.next == 1
    assert batches == 4
    loop.close()


def test_a_lane_that_gives_too_few_results_fails_its_call_and_the_worker_goes_on():
    async def run():
        queue, work = batcher(), Work(waits=False)
        wrong = queue.submit(Lane(("wrong",), lambda units: []), ["a"], [1])
        with pytest.raises(Problem) as failed:
            await asyncio.wait_for(wrong.future, 20)
        assert failed.value.kind == "failed"
        assert await asyncio.wait_for(queue.submit(work.lane, ["b"], [1]).future, 20) == ["B"]
        await asyncio.to_thread(queue.close)

    asyncio.run(run())


@given(
    calls=st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=6), min_size=1, max_size=8),
    lanes=st.integers(1, 3),
    budget=st.integers(1, 120),
)
def test_every_text_is_taken_once_and_no_batch_is_over_its_budget_but_for_a_single_text(calls, lanes, budget):
    loop = asyncio.new_event_loop()
    kinds = [Lane((number,), list) for number in range(lanes)]
    tickets = [
        Ticket(kinds[n % lanes], [(n, i) for i in range(len(sizes))], sizes, loop.create_future())
        for n, sizes in enumerate(calls)
    ]
    queue, taken = deque(tickets), []
    while queue:
        first = queue[0]
        batch, tokens = take(queue, budget)
        assert tokens == sum(ticket.tokens[number] for ticket, number in batch)
        assert tokens <= budget or len(batch) == 1
        assert {ticket.lane for ticket, _ in batch} == {first.lane}
        assert first in {ticket for ticket, _ in batch}
        taken += [ticket.units[number] for ticket, number in batch]
    assert sorted(taken) == [(n, i) for n, sizes in enumerate(calls) for i in range(len(sizes))]
    loop.close()
