"""Whose turn it is: played through with jobs whose turns take what the test says."""

from collections import Counter

import pytest

from playground.runs.scheduler import Schedule, State


class Job:
    """Something that always has more to do."""

    def __init__(self, owner: str, seconds: float = 1.0) -> None:
        self.owner, self.seconds = owner, seconds
        self.state, self.requests = State.IDLE, []

    def admitted(self) -> None:
        pass


def admitted(schedule: Schedule, *jobs: Job) -> None:
    with schedule.lock:
        for job in jobs:
            schedule.admit(job)


def played(schedule: Schedule, turns: int, workers: int = 1) -> Counter[str]:
    """Seconds that each visitor gets while so many turns begin."""
    had, held, clock = Counter(), [], 0.0
    with schedule.lock:
        for _ in range(turns):
            while len(held) < workers and (job := schedule.take()):
                held.append((clock + job.seconds, id(job), job))
            clock, _, job = held.pop(held.index(min(held)))
            had[job.owner] += job.seconds
            schedule.hand_back(job, job.seconds)
        for _, _, job in held:
            schedule.hand_back(job, job.seconds)
    return had


@pytest.mark.parametrize("runs", [1, 5, 60])
def test_a_visitor_with_many_runs_gets_as_much_as_one_with_one(runs):
    schedule = Schedule(max_active=100)
    hers = [Job("ann") for _ in range(runs)]
    admitted(schedule, *hers, Job("bob"), Job("cid"))
    assert played(schedule, 300) == {"ann": 100, "bob": 100, "cid": 100}


def test_a_visitors_runs_take_their_turns_in_order():
    schedule = Schedule(max_active=100)
    hers = [Job("ann") for _ in range(3)]
    admitted(schedule, *hers)
    with schedule.lock:
        turns = []
        for _ in range(6):
            turns.append(schedule.take())
            schedule.hand_back(turns[-1], 1.0)
    assert turns == hers + hers


def test_long_turns_come_less_often():
    schedule = Schedule(max_active=100)
    admitted(schedule, Job("ann", seconds=10.0), Job("bob"))
    had = played(schedule, 110)
    assert had["ann"] == pytest.approx(had["bob"], rel=0.15)


def test_whoever_comes_starts_even_and_idle_time_is_not_saved_up():
    schedule = Schedule(max_active=100)
    ann, bob = Job("ann"), Job("bob")
    admitted(schedule, ann, bob)
    played(schedule, 100)
    with schedule.lock:
        schedule.withdraw(bob)
    played(schedule, 100)
    admitted(schedule, bob, Job("cid"))
    had = played(schedule, 30)
    assert max(had.values()) - min(had.values()) <= 2


def test_one_run_that_cannot_use_its_share_leaves_no_debt_to_the_others():
    """Bob's one run is with one of four workers at most; cid, who comes later, is no bob."""
    schedule = Schedule(max_active=100)
    admitted(schedule, *(Job("ann") for _ in range(20)), Job("bob"))
    had = played(schedule, 400, workers=4)
    assert had["bob"] == pytest.approx(100, abs=3)
    admitted(schedule, *(Job("cid") for _ in range(20)))
    had = played(schedule, 300, workers=4)
    assert had["ann"] == pytest.approx(had["cid"], rel=0.25)
    assert had["bob"] >= 60


def test_who_waits_for_a_worker_comes_before_those_who_train():
    schedule = Schedule(max_active=100)
    asking = Job("ann")
    admitted(schedule, *(Job("bob") for _ in range(5)), asking)
    played(schedule, 20)
    with schedule.lock:
        asking.requests.append("a question")
        schedule.call(asking)
        assert schedule.take() is asking


def test_only_a_visitors_further_runs_wait_and_those_who_train_least_come_first():
    schedule = Schedule(max_active=3)
    ann, bob = [Job("ann") for _ in range(5)], [Job("bob") for _ in range(3)]
    admitted(schedule, *ann, *bob, cid := Job("cid"))
    assert schedule.active == {*ann[:3], bob[0], cid}
    with schedule.lock:
        assert [schedule.position(job) for job in (*ann, *bob)] == [
            *(None, None, None, 3, 4),
            *(None, 1, 2),
        ]
        schedule.withdraw(cid)
        assert len(schedule.active) == 4, "there were too many already"
        schedule.withdraw(ann[0])
        assert schedule.active == {*ann[1:3], bob[0]}
        schedule.withdraw(ann[1])
        assert schedule.active == {*ann[2:4], bob[0]}, "both have one, and hers came first"
        schedule.withdraw(ann[2])
        assert schedule.active == {*ann[3:], bob[0]}, "as before"
        schedule.withdraw(bob[0])
        assert bob[1] in schedule.active
