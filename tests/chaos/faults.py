"""The faults, a small class each, in a table. `inject` returns when the fault is over; what follows is the recovery."""

from __future__ import annotations

import contextlib
import fcntl
import random
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceState
from airflow_provider.failpoint import FailPoint
from tests.chaos.cluster import BALLAST, BROKER_START_S, Cluster
from tests.chaos.control_faults import AddInstance, HeldUpstream, LoseControlTopic, StopPublisher
from tests.chaos.deployment_faults import ChangedJob, FailingReplacement, Terminate
from tests.chaos.fault import Fault, is_named, owner_of, promoted, task_of
from tests.chaos.network_faults import LateEnd, OneWayPartition, RightTaken
from tests.chaos.record_faults import ErrorText, LargeRecord

_PROMOTED_S: Final = 40.0


class KillDriver(Fault):
    """SIGKILL to the driver: its JVM, or its Python process."""

    name = "kill-driver"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, jvm = chance.choice(cluster.names), chance.random() < 0.7
        process = cluster.jvm(victim) if jvm else cluster.driver(victim)
        if process is None:
            return ""
        cluster.signal([process], signal.SIGKILL)
        return f"{'JVM' if jvm else 'Python'} of {victim}"


class KillWorker(Fault):
    """SIGKILL to a Python worker, in the middle of whatever it does."""

    name = "kill-worker"
    weight = 6.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim = owner_of(cluster, chance) if chance.random() < 0.8 else chance.choice(cluster.names)
        workers = cluster.workers(victim) if victim else []
        if not workers:
            return ""
        time.sleep(chance.random())
        cluster.signal(workers, signal.SIGKILL)
        return f"{len(workers)} of {victim}"


class KillInstance(Fault):
    """SIGKILL to every process of an instance."""

    name = "kill-instance"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim = chance.choice(cluster.names)
        if not cluster.processes(victim):
            return ""
        cluster.kill(victim)
        return victim


class KillSupervised(Fault):
    """SIGKILL to an instance with its launcher, and a supervisor starts it again before anybody has noticed."""

    name = "kill-supervised"
    weight = 2.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, pause_s = chance.choice(cluster.names), chance.choice([0.0, 0.2, 1.0])
        if not cluster.processes(victim):
            return ""
        cluster.supervisor.held.add(victim)
        try:
            cluster.signal([*cluster.launcher(victim), *cluster.processes(victim)], signal.SIGKILL)
            time.sleep(pause_s)
            cluster.launch(victim)
        finally:
            cluster.supervisor.held.discard(victim)
        return f"{victim}, started again {pause_s:g} s later"


class TwoAtOnce(Fault):
    """SIGKILL to the active instance of a task and to its standby."""

    name = "two-at-once"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        task = task_of(cluster, chance)
        victims = [name for name in (task.active, *task.standbys) if name] if task else []
        pause = chance.choice([0.0, 0.0, 2.0])
        for victim in victims:
            cluster.kill(victim)
            time.sleep(pause)
        return f"{' and '.join(victims)}, {pause:g} s apart" if victims else ""


class Hang(Fault):
    """SIGSTOP to an instance until its tasks are active elsewhere, then SIGCONT: a zombie that believes it owns them.

    No replacement is started, so it comes back under its own name.
    """

    name = "hang"
    weight = 2.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, extra_s = owner_of(cluster, chance), chance.choice([0.0, 1.0, 5.0])
        if victim is None:
            return ""
        cluster.supervisor.held.add(victim)
        stopped = cluster.processes(victim)
        try:
            time.sleep(chance.random() / 2)
            cluster.signal(stopped, signal.SIGSTOP)
            began = time.monotonic()
            while is_named(cluster, victim) and time.monotonic() - began < _PROMOTED_S:
                time.sleep(0.1)
            time.sleep(extra_s)
        finally:
            cluster.signal(stopped, signal.SIGCONT)
            took_s = time.monotonic() - began
            cluster.supervisor.held.discard(victim)
        return f"{victim} for {took_s:.1f} s"


class HangReplaced(Fault):
    """SIGSTOP to an instance; a replacement of its name starts before SIGCONT."""

    name = "hang-replaced"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim = owner_of(cluster, chance)
        if victim is None or victim not in cluster.view.statuses:
            return ""
        incarnation = cluster.view.statuses[victim].incarnation
        stopped = cluster.processes(victim)
        cluster.signal(stopped, signal.SIGSTOP)
        began = time.monotonic()
        while cluster.view.statuses[victim].incarnation == incarnation and time.monotonic() - began < _PROMOTED_S:
            time.sleep(0.1)
        time.sleep(chance.random() * 10)
        cluster.signal(stopped, signal.SIGCONT)
        return f"{victim} for {time.monotonic() - began:.1f} s"


class RestartBroker(Fault):
    """The broker is stopped or killed, and started again on its data."""

    name = "restart-broker"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        kill, pause_s = chance.random() < 0.5, chance.random() * 3
        if kill:
            cluster.broker.kill()
        else:
            cluster.broker.stop()
        time.sleep(pause_s)
        cluster.broker.start(BROKER_START_S)
        return "killed" if kill else "stopped"


class PauseBroker(Fault):
    """SIGSTOP to the broker for 2 to 30 s."""

    name = "pause-broker"
    weight = 2.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        pause_s = chance.choice([2.0, 2.0, 4.0, 6.0, 8.0, 30.0])
        tenant = cluster.broker.folder.living_tenant()
        if tenant is None:
            return ""
        tenant.leader.signal_group(signal.SIGSTOP)
        try:
            time.sleep(pause_s)
        finally:
            tenant.leader.signal_group(signal.SIGCONT)
        return f"for {pause_s:g} s"


class LoseStateFolder(Fault):
    """An instance is killed, and its stores are gone when it comes back."""

    name = "lose-state-folder"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim = chance.choice(cluster.names)
        folder = cluster.state_dir(victim)

        cluster.before_launch[victim].append(lambda: empty(folder))
        cluster.kill(victim)
        return victim


class CorruptSst(Fault):
    """Bytes of a store's file are flipped: of a dead instance, or under a living standby, which then dies."""

    name = "corrupt-sst"
    weight = 2.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, living, which = chance.choice(cluster.names), chance.random() < 0.4, chance.random()
        bits = random.Random(chance.random())
        flipped: list[str] = []

        def corrupt() -> None:
            stores = cluster.stores(victim)
            files = [f for store in stores for f in sorted(store.glob("*.sst"))]
            files = files or [f for store in stores for f in sorted(store.glob("*.log")) if f.stat().st_size]
            if files:
                file = files[int(which * len(files))]
                _flip(file, bits)
                cluster.tampered.add(file.parent)
                flipped.append(f"{file.parent.parent.name}/{file.name}")
                cluster.supervisor.say(f"flipped bytes of {file}")

        if living:
            corrupt()
            cluster.signal(cluster.workers(victim), signal.SIGKILL)
        else:
            cluster.before_launch[victim].append(corrupt)
            cluster.kill(victim)
        return f"{victim} {'living' if living else 'dead'} {' '.join(flipped)}"


class DamageFiles(Fault):
    """A file of a dead instance's store is scribbled over, or is missing, when it comes back."""

    name = "damage-files"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, pattern = chance.choice(cluster.names), chance.choice(["MANIFEST-*", "*.sst", "CURRENT", "*.log"])
        missing, which = chance.random() < 0.5, chance.random()

        def damage() -> None:
            files = [f for store in cluster.stores(victim) for f in sorted(store.glob(pattern)) if f.stat().st_size]
            if files:
                file = files[int(which * len(files))]
                if missing:
                    file.unlink()
                else:
                    file.write_bytes(b"\0" * file.stat().st_size)
                cluster.tampered.add(file.parent)
                cluster.supervisor.say(f"{'removed' if missing else 'zeroed'} {file}")

        cluster.before_launch[victim].append(damage)
        cluster.kill(victim)
        return f"{pattern} of {victim} {'missing' if missing else 'zeroed'}"


class HoldLock(Fault):
    """A process that is none of the instance's holds the LOCK of one of its stores when it comes back."""

    name = "hold-lock"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, which, hold_s = chance.choice(cluster.names), chance.random(), chance.choice([15.0, 30.0])

        def hold() -> None:
            if stores := cluster.stores(victim):
                lock = (stores[int(which * len(stores))] / "LOCK").open("ab")
                fcntl.lockf(lock, fcntl.LOCK_EX)  # as RocksDB does it
                cluster.supervisor.say(f"hold {lock.name} for {hold_s:g} s")
                threading.Timer(hold_s, lock.close).start()

        cluster.before_launch[victim].append(hold)
        cluster.kill(victim)
        return f"of {victim} for {hold_s:g} s"


class FullDisk(Fault):
    """The disk of an instance's stores is full for some seconds."""

    name = "full-disk"
    weight = 3.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, full_s = chance.choice(cluster.names), chance.choice([2.0, 5.0])
        if not cluster.has_small_disk(victim):
            return ""
        ballast = cluster.state_dir(victim) / BALLAST
        try:
            with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 65536)
            time.sleep(full_s)
        finally:
            ballast.unlink(missing_ok=True)
        return f"of {victim} for {full_s:g} s"


class ClockJump(Fault):
    """An instance's clock jumps by an hour, either way, and stays there until it jumps again."""

    name = "clock-jump"
    weight = 2.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, shift_s = chance.choice(cluster.names), chance.choice([-3600, 0, 3600])
        cluster.clock(victim).write_text(str(shift_s))
        return f"{victim} by {shift_s} s"


class LoseReplacement(Fault):
    """An instance is killed and its stores are lost; its replacement is killed while it starts or restores."""

    name = "lose-replacement"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, wait_s = chance.choice(cluster.names), 6.0 * chance.random()
        known, folder = cluster.view.statuses.get(victim), cluster.state_dir(victim)
        cluster.before_launch[victim].append(lambda: empty(folder))
        cluster.kill(victim)
        began = time.monotonic()
        while time.monotonic() - began < 60.0:
            now = cluster.view.statuses.get(victim)
            if now is not None and (known is None or now.incarnation > known.incarnation):
                break
            time.sleep(0.1)
        time.sleep(wait_s)
        cluster.kill(victim)
        return f"{victim}, {wait_s:.1f} s after it was launched again"


class DieAtFailPoint(Fault):
    """An instance is started again to die at a named place of the protocol, and is given tasks to die with."""

    name = "fail-points"

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, point, nth = chance.choice(cluster.names), chance.choice(list(FailPoint)), chance.randrange(1, 6)
        entry = point if point.startswith("fence") else f"{point}@{nth}"
        known = cluster.view.statuses.get(victim)
        cluster.fail_points[victim] = (entry,)
        cluster.kill(victim)
        began = time.monotonic()
        while time.monotonic() - began < 45.0:
            now = cluster.view.statuses.get(victim)
            newer = now is not None and (known is None or now.incarnation > known.incarnation)
            if newer and now is not None and now.state is InstanceState.RUNNING:
                break
            time.sleep(0.1)

        def to_victim(newest: Assignment) -> dict[TaskId, TaskAssignment]:
            return {task_id: promoted(task, victim) for task_id, task in newest.tasks.items()}

        cluster.publish(to_victim, f"{victim} is to reach {point}")
        marker = Path("failpoint-" + point)
        while time.monotonic() - began < 55.0:
            if victim in cluster.run_dirs and (cluster.run_dirs[victim] / marker).exists():
                return f"{victim} at {entry}"
            time.sleep(0.1)
        return f"{victim}, {entry} was not reached"


class AssignmentFlip(Fault):
    """A needless generation moves actives to their standbys and back, again and again."""

    name = "assignment-flip"
    weight = 4.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        times, published = chance.randrange(1, 4), 0
        for _ in range(times):

            def flipped(newest: Assignment, seed: float = chance.random()) -> dict[TaskId, TaskAssignment]:
                inner = random.Random(seed)
                return {
                    task_id: promoted(t, inner.choice(t.standbys)) if t.standbys and inner.random() < 0.6 else t
                    for task_id, t in newest.tasks.items()
                }

            published += cluster.publish(flipped, "moved for no reason")
            time.sleep(chance.choice([0.0, 0.3, 1.0, 3.0]))
        return f"{published} generations" if published else ""


class FlipWhileStopped(Fault):
    """An owner stands still for less than its timeout while its tasks are given to others: two believe they own."""

    name = "flip-while-stopped"
    weight = 4.0

    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        victim, stop_s = owner_of(cluster, chance), chance.choice([1.0, 2.0, 3.5])
        if victim is None:
            return ""

        def away(newest: Assignment) -> dict[TaskId, TaskAssignment]:
            return {
                task_id: promoted(t, t.standbys[0]) if t.active == victim and t.standbys else t
                for task_id, t in newest.tasks.items()
            }

        stopped = cluster.processes(victim)
        time.sleep(chance.random() / 2)
        cluster.signal(stopped, signal.SIGSTOP)
        try:
            published = cluster.publish(away, f"moved while {victim} stands still")
            time.sleep(stop_s)
        finally:
            cluster.signal(stopped, signal.SIGCONT)
        return f"{victim} for {stop_s:g} s" if published else ""


FAULTS: Final[dict[str, type[Fault]]] = {
    fault.name: fault
    for fault in (
        KillDriver,
        KillWorker,
        KillInstance,
        KillSupervised,
        TwoAtOnce,
        Hang,
        HangReplaced,
        RestartBroker,
        PauseBroker,
        LoseStateFolder,
        CorruptSst,
        DamageFiles,
        HoldLock,
        FullDisk,
        ClockJump,
        LoseReplacement,
        DieAtFailPoint,
        AssignmentFlip,
        FlipWhileStopped,
        Terminate,
        StopPublisher,
        FailingReplacement,
        LargeRecord,
        ErrorText,
        LoseControlTopic,
        AddInstance,
        ChangedJob,
        LateEnd,
        OneWayPartition,
        RightTaken,
        HeldUpstream,
    )
}


def empty(folder: Path) -> None:
    """Lose what lies in it; it may be where a disk is mounted."""
    for path in folder.glob("*"):
        shutil.rmtree(path, ignore_errors=True)


def _flip(file: Path, bits: random.Random) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        for _ in range(4):
            at = bits.randrange(max(1, size))
            opened.seek(at)
            byte = opened.read(1) or b"\0"
            opened.seek(at)
            opened.write(bytes([byte[0] ^ 0xFF]))
