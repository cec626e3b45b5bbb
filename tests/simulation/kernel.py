"""One virtual clock, and a scheduler that decides who goes on: simulated threads, of which only one ever runs.

A thread gives the turn away where it waits: at each request to a broker, each write of a store, each wait, each sleep.
Who comes next is who is due first; what is due at the same moment comes in an order that the seed decides. Nothing else
is random, so a seed is a schedule.

A simulated thread is a greenlet: threads of the system that hand the turn to each other take half as long again.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]  # which Airflow brings

EPOCH_S: Final = 1_800_000_000
"""Where the clocks of all hosts stand when a schedule begins, but for what they are apart."""


class Stopped(BaseException):
    """Raised where a thread waits, once the schedule is over."""


class Process:
    """A simulated process: it lives, stands still, or is gone.

    Args:
        name: for the trace.
        clock_s: how far its host's clock is ahead.
    """

    def __init__(self, name: str, clock_s: float = 0.0) -> None:
        self.name, self.clock_s = name, clock_s
        self.dead = False
        self.paused_until = 0.0
        self.parked: list[tuple[Fiber, int]] = []
        """What was due while it stood still."""
        self.cut_out_until = self.cut_in_until = 0.0
        """Until when its requests, or the answers to them, are lost."""
        self.deaf_until = 0.0
        """Until when nothing of the control topics comes to it."""
        self.on_death: list[Callable[[], None]] = []
        self.waiting_for_death: list[Fiber] = []

    def __repr__(self) -> str:
        return self.name


class Fiber:
    """A simulated thread."""

    __slots__ = ("body", "done", "joining", "name", "process", "runner", "token", "woken")

    def __init__(self, process: Process, name: str, body: Callable[[], None]) -> None:
        self.process, self.name, self.body = process, name, body
        self.token = 0
        self.done = False
        self.woken = False
        self.joining = Waiters()
        self.runner: _Runner | None = None

    @property
    def goes_on(self) -> bool:
        """Whether it has something left to do, and is there to do it."""
        return not self.done and not self.process.dead


class Waiters:
    """Threads that wait for something to happen."""

    __slots__ = ("fibers",)

    def __init__(self) -> None:
        self.fibers: list[tuple[Fiber, int]] = []


class _Runner:
    """A greenlet, used by one simulated thread after the other."""

    idle: Final[list[_Runner]] = []

    def __init__(self) -> None:
        self.job: Callable[[], greenlet] | None = None
        """Runs a simulated thread, and returns who goes on after it."""
        self.greenlet = greenlet(self._run)

    def _run(self) -> None:
        while True:
            job, self.job = self.job, None
            assert job is not None
            following = job()
            del job  # which holds a whole schedule
            self.idle.append(self)
            following.switch()


class Kernel:
    """Runs one schedule.

    Args:
        seed: decides every order and every delay.
        traced: whether a trace is kept, as lines.
    """

    def __init__(self, seed: object, traced: bool = False) -> None:
        self.random = Random(f"{seed}/schedule")
        self.now = 0.0
        self.steps = 0
        self.failure: BaseException | None = None
        self.trace: list[str] = []
        self._traced = traced
        self.seen = Counter[str]()
        """What was passed, for the table of coverage."""
        self.current: Fiber | None = None
        self.closing = False
        self._end = 0.0
        self._heap: list[tuple[float, float, int, Fiber | None, int, Callable[[], None] | None]] = []
        self._seq = itertools.count()
        self._main = getcurrent()
        self._fibers: list[Fiber] = []
        self._ended = self._killing = False

    # -- what a schedule is made of ------------------------------------------------------------------------------

    def note(self, what: str, *args: object) -> None:
        """Add a line to the trace."""
        if not self._traced:
            return
        fiber = self.current
        who = fiber.process.name if fiber is not None else "-"
        self.trace.append(f"{self.now:.6f} {who} {what} {' '.join(map(str, args))}")

    def passed(self, what: str) -> None:
        """Count for the table of coverage."""
        self.seen[what] += 1

    def spawn(self, process: Process, name: str, body: Callable[[], None], after_s: float = 0.0) -> Fiber:
        """Begin a thread of a process."""
        fiber = Fiber(process, name, body)
        self._fibers.append(fiber)
        self._push(self.now + after_s, fiber)
        return fiber

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Call something that does not wait at a time."""
        heapq.heappush(self._heap, (when, self.random.random(), next(self._seq), None, 0, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call something that does not wait after a while."""
        self.at(self.now + seconds, action)

    def fail(self, error: BaseException) -> None:
        """End the schedule: a promise was broken."""
        if self.failure is None:
            self.failure = error

    # -- where a thread waits ------------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Give the turn away for so long."""
        me = self._me()
        self._push(self.now + max(0.0, seconds), me)
        self._switch(me)

    def wait(self, waiters: Waiters, timeout_s: float | None = None) -> bool:
        """Give the turn away until something happens; returns whether it did, before the time was over."""
        me = self._me()
        me.woken = False
        waiters.fibers.append((me, me.token))
        if timeout_s is not None:
            self._push(self.now + max(0.0, timeout_s), me)
        self._switch(me)
        return me.woken

    def wake(self, waiters: Waiters, delay_s: float = 0.0) -> None:
        """What was waited for happened."""
        fibers, waiters.fibers = waiters.fibers, []
        for fiber, token in fibers:
            if fiber.token == token and not fiber.done:
                fiber.woken = True
                self._push(self.now + delay_s, fiber)

    def resume(self, process: Process) -> None:
        """A process that stands still goes on."""
        process.paused_until = min(process.paused_until, self.now)
        parked, process.parked = process.parked, []
        for fiber, token in parked:
            if fiber.token == token and not fiber.done:
                self._push(self.now + self.random.random() * 0.01, fiber)

    def kill(self, process: Process) -> None:
        """A process is gone between two steps: none of its threads takes another one."""
        if process.dead:
            return
        process.dead = True
        self.note("killed", process)
        outermost, self._killing = not self._killing, True
        for action in process.on_death:
            action()
        if outermost:
            self._killing = False
            if self.current is not None and self.current.process.dead:
                self._switch(self.current)

    def _me(self) -> Fiber:
        if self.closing or self.current is None:
            raise Stopped
        return self.current

    def _push(self, when: float, fiber: Fiber) -> None:
        heapq.heappush(self._heap, (when, self.random.random(), next(self._seq), fiber, fiber.token, None))

    def _next(self) -> Fiber | None:
        """Who goes on; what is due before and waits for nothing is done on the way."""
        heap = self._heap
        while heap and self.failure is None and not self._ended:
            if heap[0][0] > self._end:
                self.now = self._end
                break
            when, _, _, fiber, token, action = heapq.heappop(heap)
            if action is not None:
                self.now, self.current = max(self.now, when), None
                try:
                    action()
                except BaseException as error:
                    self.fail(error)
                continue
            assert fiber is not None
            process = fiber.process
            if fiber.token != token or process.dead or fiber.done:
                continue
            if process.paused_until > when:
                process.parked.append((fiber, token))
                self._push(process.paused_until + self.random.random() * 0.01, fiber)
                continue
            self.now = max(self.now, when)
            fiber.token += 1
            self.steps += 1
            return fiber
        return None

    def _switch(self, me: Fiber) -> None:
        following = self._next()
        self.current = following
        if following is me:
            return
        self._greenlet_of(following).switch()
        if self.closing:
            raise Stopped
        self.current = me

    def _greenlet_of(self, fiber: Fiber | None) -> greenlet:
        if fiber is None:
            return self._main
        if fiber.runner is None:
            fiber.runner = _Runner.idle.pop() if _Runner.idle else _Runner()
            fiber.runner.job = lambda: self._life(fiber)
        return fiber.runner.greenlet

    def _life(self, fiber: Fiber) -> greenlet:
        self.current = fiber
        try:
            fiber.body()
        except Stopped:
            pass
        except BaseException as error:
            self.fail(error)
        fiber.done = True
        fiber.runner = None
        if self.closing:
            return self._main
        self.wake(fiber.joining)
        self.current = following = self._next()
        return self._greenlet_of(following)

    # -- the schedule --------------------------------------------------------------------------------------------

    def run(self, until: float) -> None:
        """Go on until a time, or until something fails or `stop` is called."""
        self._end, self._ended, self._main = until, False, getcurrent()
        self.current = following = self._next()
        if following is not None:
            self._greenlet_of(following).switch()
        self.current = None
        if self.failure is None and not self._ended:
            self.now = until

    def stop(self) -> None:
        """Have `run` return once the turn is given away."""
        self._ended = True

    def close(self) -> None:
        """End every thread. Whatever they still do while they unwind counts for nothing."""
        self.closing, self._main = True, getcurrent()
        for fiber in self._fibers:
            if not fiber.done and fiber.runner is not None:
                fiber.runner.greenlet.switch()
        self._fibers.clear()
        self._heap.clear()


current: Any = None
"""The kernel of the schedule that runs in this process; one at a time."""


def the() -> Kernel:
    """The kernel of the schedule that runs."""
    kernel: Kernel = current
    return kernel


def use(kernel: Kernel | None) -> None:
    """Make a kernel that of this process."""
    global current  # the product's seams have no other way to it
    current = kernel
