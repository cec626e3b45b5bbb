"""What `time`, `threading` and `concurrent.futures` are to simulated code."""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import SimpleNamespace, TracebackType
from typing import Any

from tests.simulation.kernel import EPOCH_S, Fiber, Stopped, Waiters, the


def monotonic() -> float:
    return the().now


def _clock_s() -> float:
    fiber = the().current
    return 0.0 if fiber is None else fiber.process.clock_s


def wall_s() -> float:
    return EPOCH_S + the().now + _clock_s()


def time_ns() -> int:
    return int(wall_s() * 1_000_000) * 1000


def sleep(seconds: float) -> None:
    the().sleep(seconds)


class Lock:
    """A lock, and with `again` one that its holder may take again."""

    again = False

    def __init__(self) -> None:
        self._holder: Fiber | None = None
        self._depth = 0
        self._waiters = Waiters()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        kernel = the()
        if kernel.closing:
            raise Stopped
        me = kernel.current
        deadline = None if timeout < 0 else kernel.now + timeout
        while self._holder is not None and not (self.again and self._holder is me):
            left = None if deadline is None else deadline - kernel.now
            if not blocking or (left is not None and left <= 0):
                return False
            kernel.wait(self._waiters, left)
        self._holder = me
        self._depth += 1
        return True

    def release(self) -> None:
        if the().closing:
            return
        self._depth -= 1
        if self._depth == 0:
            self._holder = None
            the().wake(self._waiters)

    def locked(self) -> bool:
        return self._holder is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class RLock(Lock):
    again = True


class Event:
    def __init__(self) -> None:
        self._set = False
        self._waiters = Waiters()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        if not the().closing:
            the().wake(self._waiters)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        kernel = the()
        if not self._set:
            if timeout is None or timeout > 0:
                kernel.wait(self._waiters, timeout)
            elif kernel.closing:
                raise Stopped
        return self._set


class Thread:
    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, tuple(args), kwargs or {}
        self.name, self.daemon = name or "thread", daemon
        self._fiber: Fiber | None = None

    def start(self) -> None:
        kernel = the()
        if kernel.closing or kernel.current is None:
            raise Stopped
        self._fiber = kernel.spawn(kernel.current.process, self.name, self.run)

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.done

    def join(self, timeout: float | None = None) -> None:
        kernel, fiber = the(), self._fiber
        if fiber is None or fiber.done:
            return
        deadline = None if timeout is None else kernel.now + timeout
        while not fiber.done:
            left = None if deadline is None else deadline - kernel.now
            if left is not None and left <= 0:
                return
            kernel.wait(fiber.joining, left)


class Future:
    """`concurrent.futures.Future`, as much of it as is used."""

    def __init__(self) -> None:
        self._event = Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def set_result(self, result: Any) -> None:
        self._result = result
        self._event.set()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._event.set()

    def done(self) -> bool:
        return self._event.is_set()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self._event.wait(timeout):
            raise TimeoutError
        return self._error

    def result(self, timeout: float | None = None) -> Any:
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._result

    def add_done_callback(self, call: Callable[[Any], object]) -> None:
        def wait() -> None:
            self._event.wait()
            call(self)

        Thread(target=wait, name="callback").start()


class ThreadPoolExecutor:
    """A thread for each call: what is asked of a pool here is as many calls as it has threads."""

    def __init__(self, *_: object, **__: object) -> None:
        self._threads: list[Thread] = []

    def submit(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        future = Future()

        def run() -> None:
            try:
                future.set_result(call(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self._threads.append(Thread(target=run, name="pool"))
        self._threads[-1].start()
        return future

    def __enter__(self) -> ThreadPoolExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        if not the().closing:
            for thread in self._threads:
                thread.join()


class Queue:
    def __init__(self, maxsize: int = 0) -> None:
        self._items: deque[Any] = deque()
        self._size, self._changed = maxsize, Waiters()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        kernel = the()
        deadline = None if timeout is None else kernel.now + timeout
        while self._size and len(self._items) >= self._size:
            left = None if deadline is None else deadline - kernel.now
            if not block or (left is not None and left <= 0):
                raise queue.Full
            kernel.wait(self._changed, left)
        self._items.append(item)
        kernel.wake(self._changed)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        kernel = the()
        deadline = None if timeout is None else kernel.now + timeout
        while not self._items:
            left = None if deadline is None else deadline - kernel.now
            if not block or (left is not None and left <= 0):
                raise queue.Empty
            kernel.wait(self._changed, left)
        item = self._items.popleft()
        kernel.wake(self._changed)
        return item


def run_coroutine(coroutine: Any) -> Any:
    """Run a coroutine in the thread that calls: what it awaits waits there too."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a coroutine waited for something that is not simulated")


async def _sleep(seconds: float) -> None:
    sleep(seconds)


async def _to_thread(call: Callable[..., Any], *args: Any) -> Any:
    return call(*args)


async def _shield(awaitable: Any) -> Any:
    return await awaitable


def uniform(low: float, high: float) -> float:
    return the().random.uniform(low, high)


TIME = SimpleNamespace(
    monotonic=monotonic, time=wall_s, time_ns=time_ns, sleep=sleep, perf_counter=monotonic, thread_time=lambda: 0.0,
    strftime=lambda form: time.strftime(form, time.gmtime(wall_s())), monotonic_ns=lambda: int(monotonic() * 1e9),
)  # fmt: skip
THREADING = SimpleNamespace(
    Lock=Lock, RLock=RLock, Event=Event, Thread=Thread, main_thread=threading.main_thread,
    current_thread=threading.current_thread, get_ident=threading.get_ident,
)  # fmt: skip
ASYNCIO = SimpleNamespace(sleep=_sleep, to_thread=_to_thread, shield=_shield)
RANDOM = SimpleNamespace(uniform=uniform, random=lambda: the().random.random())

REPLACED: tuple[tuple[object, object], ...] = (
    (time, TIME),
    (threading, THREADING),
    (asyncio, ASYNCIO),
    (random, RANDOM),
    (time.monotonic, monotonic),
    (time.time, wall_s),
    (time.time_ns, time_ns),
    (time.sleep, sleep),
    (threading.Thread, Thread),
    (threading.Event, Event),
    (threading.Lock, Lock),
    (threading.RLock, RLock),
    (concurrent.futures.Future, Future),
    (concurrent.futures.ThreadPoolExecutor, ThreadPoolExecutor),
    (queue.Queue, Queue),
)
"""What the product's modules are bound to, and what they are bound to in a simulation."""
