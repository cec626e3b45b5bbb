"""What goes wrong, by intent: a list of values, so that a schedule can be run again with fewer of them.

To add a fault: give it a line in `KINDS`, with how its details are chosen, and a method of its name in `Faults`. What
it leaves behind has to be over after `Faults.heal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaError

from tests.simulation import product
from tests.simulation.job import APPLICATION, DELETED_AT, SINK, Oracle
from tests.simulation.kernel import Process
from tests.simulation.product import FailPoint
from tests.simulation.spark import SOURCE

_SHORT: Final = (0.3, 1.0, 4.0)
_LONG: Final = (6.0, 12.0, 35.0)
"""Beyond an instance's timeout, beyond a request's."""
_ANY: Final = (*_SHORT, *_LONG)


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Args:
        at: when, in seconds of the schedule.
        kind: one of `KINDS`.
        target: of what: a number, taken as the index of an instance or a partition.
        what: how: a fail point, a request, a topic.
        seconds: for how long, or how late.
        count: at which passing.
    """

    at: float
    kind: str
    target: int = 0
    what: str = ""
    seconds: float = 0.0
    count: int = 1

    def __str__(self) -> str:
        details = f" {self.what}" if self.what else ""
        lasts = f" {self.seconds:g} s" if self.seconds else ""
        return f"{self.at:.2f} {self.kind} {self.target}{details}{lasts} @{self.count}"


_POINTS: Final = tuple(str(point) for point in FailPoint)
_COMMITS: Final = ("commit.outputs", "commit.record", "commit.offsets")
_REQUESTS: Final = ("end", "end", "end", "produce", "add", "offsets", "init")
_CONTROL: Final = ("assignment", "status")

KINDS: Final[dict[str, tuple[tuple[str, ...], tuple[float, ...]]]] = {
    "kill": ((), (0.0,)),
    "kill_at": (_POINTS, (0.0,)),
    "kill_worker": ((), (0.0,)),
    "kill_worker_at": (_POINTS, (0.0,)),
    "zombie_worker_at": (_POINTS, (0.5, 2.0, 7.0)),
    "deaf_owner_at": (("fence.before", "fence.before", "fence.done"), (12.0, 15.0)),
    "cut_worker_at": (_COMMITS, (35.0,)),
    "away": ((), (26.0, 40.0)),
    "lose_host": (("disk stays", "disk stays", "disk gone", "disk torn"), (0.0,)),
    "pause": ((), _ANY),
    "pause_at": (_POINTS, _ANY),
    "cut_out": ((), _ANY),
    "cut_in": ((), _ANY),
    "brokers_down": ((), (0.5, 3.0, 8.0)),
    "new_leader": (("changelog", "changelog", "sink", "assignment", "status"), (0.1, 1.0, 5.0)),
    "unclean_leader": ((*_CONTROL, "sink"), (0.1, 1.0, 5.0)),
    "cut_changelog": (("changelog",), (0.1, 1.0, 5.0)),
    "cut_source": ((), (0.1, 1.0, 5.0)),
    "new_coordinator": ((), (0.1, 1.0, 5.0)),
    "late": (_REQUESTS, (0.95, 1.1, 1.4, 2.5, 6.0)),
    "unanswered": (_REQUESTS, (0.0,)),
    "lost": (_REQUESTS, (0.0,)),
    "overtaken": (("produce", "produce", "add", "offsets"), (0.0,)),
    "revoke": (("write changelog", "write sink", "read changelog", "own", "offsets"), (1.0, 4.0, 12.0)),
    "revoke_at": (("fence.before", "fence.done", "fence.done"), (1.0, 4.0, 12.0)),
    "fetch_error": (("source", "changelog"), (0.0,)),
    "refuse_records": (("changelog", "sink"), (1.0, 4.0)),
    "bad_record": ((), (0.0,)),
    "lose_marker": (("changelog",), (0.0,)),
    "lose_commit": (("commit.record", "commit.offsets"), (0.0,)),
    "compact": (("changelog", "changelog", "assignment", "status"), (0.0,)),
    "create_again": (_CONTROL, (0.0,)),
    "begin_again": (("assignment", "both"), (0.0,)),
    "disk_full": ((), (1.0, 8.0, 40.0)),
    "remove_folder": ((), (0.0,)),
    "break_store": ((), (0.0,)),
    "flip_bit": (("key", "block"), (0.0,)),
    "kill_watcher": (("now", "answered"), (0.5, 5.0)),
    "pause_watcher": ((), _ANY),
    "pause_publisher": (("init", "add", "end"), (0.5, 2.0, 6.0)),
    "fail_over_by_hand": ((), (0.0,)),
    "two_failovers": ((), (0.0,)),
    "assign_again": (("balance", "plain"), (0.0,)),
    "add_instance": ((), (15.0,)),
    "stop_instance": ((), (0.0,)),
    "set_clock": ((), (-5000.0, -20.0, 20.0, 5000.0)),
}
"""By kind, the ways in which it happens and for how long."""

_SEEN_OUT: Final = frozenset({"add_instance", "away", "cut_worker_at", "deaf_owner_at", "overtaken", "pause_publisher"})
_LITTLE: Final = 6
_PATIENCE_S: Final = 12.0
_AFTER_S: Final = 6.0
"""For so long what such a fault leaves behind is still to be seen before all faults end."""


def until(faults: Sequence[Fault], after_s: float, *, patient: bool) -> float:
    """When the faults of a schedule end: soon after the last has begun, and of some kinds when it is over.

    Args:
        after_s: how soon.
        patient: whether those of the other kinds are over by themselves, too.
    """
    return max((fault.at + _lasts_s(fault, after_s, patient) for fault in faults), default=0.0)


def _lasts_s(fault: Fault, after_s: float, patient: bool) -> float:
    if fault.kind in _SEEN_OUT:
        return 2.0 + fault.seconds + _AFTER_S
    return 1.0 + min(fault.seconds, _PATIENCE_S) if patient else after_s


def choose(
    random: Random, number: int, begin: float, end: float, only: Sequence[str] = (), *, lasting: float = 1.0
) -> list[Fault]:
    """So many faults; now and then several soon after each other.

    Args:
        only: the kinds to choose from, or with a colon the one way in which one happens; all where there are none.
        lasting: how often those that last are among them.
    """
    found: list[Fault] = []
    known = sorted(only or KINDS)
    if not only and random.random() >= lasting:
        known = [kind for kind in known if kind not in _SEEN_OUT]
    kinds = random.sample(known, k=min(len(known), random.choice((2, 4, 8, len(KINDS)))))
    at = random.uniform(begin, end)
    for _ in range(number):
        kind, _, way = random.choice(kinds).partition(":")
        what, seconds = KINDS[kind]
        what = (way,) if way else what
        found.append(
            Fault(
                at=round(at, 3),
                kind=kind,
                target=random.randrange(12),
                what=random.choice(what) if what else "",
                seconds=random.choice(seconds),
                count=random.choice((1, 1, 1, 2, 3)),
            )
        )
        at = min(end, at + random.expovariate(1.0)) if random.random() < 0.5 else random.uniform(begin, end)
    return sorted(found, key=lambda fault: fault.at)


class Faults:
    """Carries faults out.

    Args:
        world: in which.
        faults: which.
    """

    def __init__(self, world: Any, faults: list[Fault]) -> None:
        self._world, self._faults = world, faults
        self._kernel = world.kernel
        self._armed: list[tuple[Fault, Callable[[Process, Fault], None], int]] = []
        self._healed = False
        product.set_fail_points(self._hit)

    def begin(self) -> None:
        """Have each begin at its time."""
        for fault in self._faults:
            self._kernel.at(fault.at, lambda fault=fault: self._begin(fault))

    def _begin(self, fault: Fault) -> None:
        if not self._healed:
            self._kernel.note("fault", fault)
            self._kernel.passed(f"fault:{fault.kind}")
            getattr(self, f"_{fault.kind}")(fault)

    def heal(self) -> None:
        """No further fault; what lasts is over, and people have done what is theirs to do."""
        self._healed = True
        world = self._world
        self._armed.clear()
        world.net.fates.clear()
        world.net.overtaken.clear()
        world.net.fetch_errors.clear()
        now = self._kernel.now
        world.net.down_until = min(world.net.down_until, now)
        world.broker.lose_marker = None
        world.broker.refused.clear()
        world.broker.marker_lost = lambda _: None
        world.disk.full.clear()
        for host in world.hosts.values():
            for process in host.processes():
                process.cut_in_until = process.cut_out_until = process.deaf_until = 0.0
                self._kernel.resume(process)
            host.wanted = True
            host.start()
        world.airflow.watch()
        if world.airflow.watcher is not None:
            self._kernel.resume(world.airflow.watcher)

    # -- who is meant --------------------------------------------------------------------------------------------

    def _host(self, fault: Fault) -> Any:
        hosts = list(self._world.hosts.values())
        return hosts[fault.target % len(hosts)]

    def _partition(self, fault: Fault) -> tuple[str, int]:
        if fault.what == "changelog":
            return self._changelog(fault)
        name = SINK if fault.what == "sink" else f"{APPLICATION}-{fault.what}"
        return name, fault.target % len(self._world.broker.topics[name].partitions)

    def _changelog(self, fault: Fault) -> tuple[str, int]:
        changelogs: list[tuple[str, int]] = self._world.changelogs
        return changelogs[fault.target % len(changelogs)]

    def _hit(self, point: str) -> None:
        fiber = self._kernel.current
        if fiber is None:
            return
        for at, (fault, act, left) in enumerate(self._armed):
            if fault.what != point:
                continue
            if left > 1:
                self._armed[at] = (fault, act, left - 1)
                continue
            del self._armed[at]
            self._kernel.note("fault at", point, fault.kind)
            self._kernel.passed(f"fault:{fault.kind} {point}")
            act(fiber.process, fault)
            return

    def _arm(self, fault: Fault, act: Callable[[Process, Fault], None]) -> None:
        self._armed.append((fault, act, fault.count))

    def _host_of(self, process: Process) -> Any:
        return self._world.hosts[process.name.partition("/")[0]]

    # -- processes -----------------------------------------------------------------------------------------------

    def _kill(self, fault: Fault) -> None:
        self._host(fault).kill()

    def _kill_at(self, fault: Fault) -> None:
        self._arm(fault, lambda process, _: self._host_of(process).kill())

    def _kill_worker(self, fault: Fault) -> None:
        for process in self._host(fault).processes()[1:]:
            self._kernel.kill(process)

    def _kill_worker_at(self, fault: Fault) -> None:
        self._arm(fault, lambda process, _: self._kernel.kill(process))

    def _zombie_worker_at(self, fault: Fault) -> None:
        """The driver is killed while its worker goes on for a while, and stands still in the middle of a step."""

        def act(process: Process, fault: Fault) -> None:
            host = self._host_of(process)
            host.zombie_s = fault.seconds + 0.5
            process.paused_until = self._kernel.now + fault.seconds
            host.kill()
            self._kernel.sleep(0.0)

        self._arm(fault, act)

    def _deaf_owner_at(self, fault: Fault) -> None:
        """A host stands still in the middle of a takeover, and sees no newer assignment when it goes on."""

        def act(process: Process, fault: Fault) -> None:
            host = self._host_of(process)
            for one in host.processes():
                one.paused_until = self._kernel.now + fault.seconds
                one.deaf_until = one.paused_until + _AFTER_S
            self._kernel.sleep(0.0)

        self._arm(fault, act)

    def _away(self, fault: Fault) -> None:
        """A host is gone for so long that the changelogs, which are cleaned meanwhile, forget a key's deletion."""
        host, world, after = self._host(fault), self._world, self._kernel.after
        partitions = range(world.partitions)

        def lose() -> None:
            self._lose_host(fault)
            host.wanted = False

        def delete() -> None:
            for _ in range(DELETED_AT - 1):
                arrive()

        def arrive() -> None:
            for number in partitions:
                world.arrives(number, b"k%d-" % number)

        def clean() -> None:
            for at in world.changelogs:
                self._clean(at)

        def back() -> None:
            host.wanted = True
            host.start()
            world.airflow.repair(2.0)

        arrive()
        after(2.0, lose)
        after(3.0, delete)
        for seconds in range(4, int(fault.seconds) + 2, 2):
            after(float(seconds), clean)
        after(2.0 + fault.seconds, back)

    def _lose_host(self, fault: Fault) -> None:
        host = self._host(fault)
        host.reports_its_end = False
        host.kill()
        host.reports_its_end = True
        if host.workers is not None:
            host.workers.end()  # those too that outlive their driver
        if fault.what == "disk gone":
            host.lose_folder()
        else:
            host.lose_unsynced()
            if fault.what == "disk torn":
                self._break_store(fault) if fault.count > 1 else self._flip_bit(replace(fault, what="block"))

    def _pause(self, fault: Fault) -> None:
        for process in self._host(fault).processes():
            process.paused_until = self._kernel.now + fault.seconds

    def _pause_at(self, fault: Fault) -> None:
        def act(process: Process, fault: Fault) -> None:
            for one in self._host_of(process).processes():
                one.paused_until = self._kernel.now + fault.seconds
            self._kernel.sleep(0.0)

        self._arm(fault, act)

    def _set_clock(self, fault: Fault) -> None:
        host = self._host(fault)
        host.clock_s += fault.seconds
        for process in host.processes():
            process.clock_s = host.clock_s

    # -- the network and the brokers -----------------------------------------------------------------------------

    def _cut_out(self, fault: Fault) -> None:
        for process in self._host(fault).processes():
            process.cut_out_until = self._kernel.now + fault.seconds

    def _cut_in(self, fault: Fault) -> None:
        for process in self._host(fault).processes():
            process.cut_in_until = self._kernel.now + fault.seconds

    def _cut_worker_at(self, fault: Fault) -> None:
        """A worker alone hears nothing from the brokers, for longer than its requests wait."""

        def act(process: Process, fault: Fault) -> None:
            process.cut_in_until = self._kernel.now + fault.seconds

        self._arm(fault, act)

    def _brokers_down(self, fault: Fault) -> None:
        self._world.net.down_until = self._kernel.now + fault.seconds

    def _new_leader(self, fault: Fault) -> None:
        log = self._world.broker.log(self._partition(fault), led=False)
        log.no_leader_until = self._kernel.now + fault.seconds
        if fault.count > 1:
            log.reported_end = (log.no_leader_until + 1.0, log.end - self._kernel.random.randint(1, 4))

    def _unclean_leader(self, fault: Fault) -> None:
        """The new leader has not got the newest records; of a transaction that is open none is cut."""
        at = self._partition(fault)
        log = self._world.broker.log(at, led=False)
        if log.open and fault.what not in _CONTROL:
            self._kernel.after(0.002, lambda: None if self._healed else self._unclean_leader(fault))
            return
        if fault.what == "assignment":
            self._world.judge.forget_assignments()
        self._cut(at, 1 + fault.target, fault.seconds)

    def _cut(self, at: tuple[str, int], count: int, seconds: float) -> None:
        log = self._world.broker.log(at, led=False)
        log.no_leader_until = self._kernel.now + seconds
        log.cut(count)
        self._world.judge.cut(at)

    def _cut_changelog(self, fault: Fault) -> None:
        """Where little is cut, larger transactions follow, so that the log is as long with more in it."""
        self._unclean_leader(fault)
        number = self._partition(fault)[1] % self._world.partitions
        for _ in range(4 * fault.count if fault.target < _LITTLE else 0):
            self._world.arrives(number, b"k%d%d" % (number, self._kernel.random.randint(0, 3)))

    def _cut_source(self, fault: Fault) -> None:
        """A source's new leader has not got what tasks may have read, or processed; others come in its place."""
        if isinstance(self._world.oracle, Oracle):
            self._cut((SOURCE, fault.target % self._world.partitions), 1 + fault.target % 5, fault.seconds)

    def _new_coordinator(self, fault: Fault) -> None:
        self._world.broker.no_coordinator_until = self._kernel.now + fault.seconds

    def _late(self, fault: Fault) -> None:
        self._world.net.fates.append(("i", fault.what, "late", fault.seconds))

    def _unanswered(self, fault: Fault) -> None:
        self._world.net.fates.append(("i", fault.what, "unanswered", 0.0))

    def _lost(self, fault: Fault) -> None:
        self._world.net.fates.append(("i", fault.what, "lost", 0.0))

    def _overtaken(self, fault: Fault) -> None:
        """The first copy of a transaction's end arrives in the middle of the next transaction."""
        self._world.net.fates.append(("i", "end", f"overtaken by {fault.what}", 0.0))

    def _revoke(self, fault: Fault) -> None:
        """A right is taken away, and given back; now and then from one that has to begin anew."""
        what, _, which = fault.what.partition(" ")
        code = {
            "own": KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "offsets": KafkaError.GROUP_AUTHORIZATION_FAILED,
        }.get(what, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        self._refuse(what, self._partition(replace(fault, what=which))[0] if which else "", code, fault.seconds)
        if fault.count > 1:
            self._kill_worker(fault)

    def _revoke_at(self, fault: Fault) -> None:
        """An owner that begins loses a right that it needs next, in the middle."""

        def act(process: Process, fault: Fault) -> None:
            self._revoke(replace(fault, what="own" if fault.what == "fence.before" else "read changelog", count=1))

        self._arm(replace(fault, count=1), act)
        self._kill_worker(fault)

    def _fetch_error(self, fault: Fault) -> None:
        """A broker cannot answer a fetch, says no more than that, and answers the next."""
        source = (SOURCE, fault.target % self._world.partitions)
        self._world.net.fetch_errors.add(source if fault.what == "source" else self._changelog(fault))

    def _refuse_records(self, fault: Fault) -> None:
        """A topic takes no record: a broker's policy, which a person takes back."""
        self._refuse("keep", self._partition(fault)[0], KafkaError.INVALID_RECORD, fault.seconds)

    def _refuse(self, what: str, topic: str, code: int, seconds: float) -> None:
        refused = self._world.broker.refused
        refused[what, topic] = code
        self._kernel.after(seconds, lambda: refused.pop((what, topic), None))

    def _bad_record(self, fault: Fault) -> None:
        """The job cannot process the next record of a partition, until it is corrected."""
        self._world.bad_record(fault.target % self._world.partitions)

    def _lose_marker(self, fault: Fault) -> None:
        at = self._partition(fault)
        self._world.broker.lose_marker = at
        self._world.judge.taint(at)

    def _lose_commit(self, fault: Fault) -> None:
        """The marker of a commit is lost, and the transaction after it is aborted, and with it what was committed."""
        at = self._changelog(fault)
        broker = self._world.broker
        self._world.judge.taint(at)

        def arm(_: object) -> None:
            broker.marker_lost = lambda _: None
            self._arm(fault, lambda process, _: self._kernel.kill(process))

        broker.lose_marker, broker.marker_lost = at, arm

    def _compact(self, fault: Fault) -> None:
        self._clean(self._partition(fault))

    def _clean(self, at: tuple[str, int]) -> None:
        self._world.judge.compacted_at[at] = self._world.broker.log(at, led=False).end
        self._world.broker.compact(at)

    def _create_again(self, fault: Fault) -> None:
        name = f"{APPLICATION}-{fault.what}"
        self._world.broker.create_again(name)
        if fault.what == "assignment":
            self._world.judge.forget_assignments()

    def _begin_again(self, fault: Fault) -> None:
        """Control topics are created again while no instance runs; who runs first gets all, until that is repaired."""
        world = self._world
        for host in world.hosts.values():
            host.reports_its_end = fault.what == "assignment"
            host.kill()
            host.reports_its_end = True
        for name in _CONTROL if fault.what == "both" else ("assignment",):
            world.broker.create_again(f"{APPLICATION}-{name}")
        world.judge.forget_assignments()
        for host in world.hosts.values():
            self._kernel.after(self._kernel.random.uniform(0.1, 2.0), host.start)
        world.airflow.deploy(running=1)
        world.airflow.repair(self._kernel.random.uniform(1.0, 4.0))

    # -- disks ---------------------------------------------------------------------------------------------------

    def _disk_full(self, fault: Fault) -> None:
        root = self._host(fault).root
        self._world.disk.full.add(root)
        self._kernel.after(fault.seconds, lambda: self._world.disk.full.discard(root))

    def _remove_folder(self, fault: Fault) -> None:
        self._host(fault).lose_folder()

    def _break_store(self, fault: Fault) -> None:
        found = list(self._world.disk.of_host(self._host(fault).root))
        if found:
            found[fault.count % len(found)].broken = True

    def _flip_bit(self, fault: Fault) -> None:
        """A block of a store cannot be read: to ask for its keys fails, and to read over it ends there.

        It holds one key, or half of a family's.
        """
        found = list(self._world.disk.of_host(self._host(fault).root))
        if found:
            database = found[fault.count % len(found)]
            keys = [(family, key) for family, data in database.families.items() if family != "default" for key in data]
            size = max(1, len(keys) // 2) if fault.what == "block" else 1
            database.flipped |= set(sorted(keys)[fault.target % max(1, len(keys)) :][:size])

    # -- Airflow -------------------------------------------------------------------------------------------------

    def _kill_watcher(self, fault: Fault) -> None:
        airflow = self._world.airflow
        if fault.what == "answered":
            airflow.dies_answered_s.append(fault.seconds)
            return
        if airflow.watcher is not None:
            self._kernel.kill(airflow.watcher)
        self._kernel.after(fault.seconds, airflow.watch)

    def _pause_watcher(self, fault: Fault) -> None:
        if self._world.airflow.watcher is not None:
            self._world.airflow.watcher.paused_until = self._kernel.now + fault.seconds

    def _pause_publisher(self, fault: Fault) -> None:
        """Who publishes next stands still before that request: before it fences, or between its look and its answer."""
        self._world.net.fates.append(("air/", fault.what, "pause", fault.seconds))

    def _fail_over_by_hand(self, fault: Fault) -> None:
        self._world.airflow.fail_over(instance=self._host(fault).name)

    def _two_failovers(self, fault: Fault) -> None:
        for _ in range(2):
            self._world.airflow.fail_over(instance=self._host(fault).name)

    def _assign_again(self, fault: Fault) -> None:
        airflow = self._world.airflow

        def run() -> None:
            try:
                airflow.place(balance=fault.what == "balance")
            except product.StatefulStreamsError as error:
                self._kernel.note("assign", type(error).__name__)

        self._kernel.spawn(Process("air/assign"), "assign", run)

    def _add_instance(self, fault: Fault) -> None:
        name = f"i{len(self._world.hosts) + 1}"
        if len(self._world.hosts) < 5:
            self._world.add_host(name).start()
            self._world.airflow.repair(3.0)

    def _stop_instance(self, fault: Fault) -> None:
        """SIGTERM, as a reboot gives."""
        host = self._host(fault)
        if host.stop is not None and host.alive:
            host.stop()
