"""Deletes all that an application has, in Kafka and on the hosts, or lists it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_flag, parse_names, parse_optional
from airflow_provider.common.clock import now_ms
from airflow_provider.common.host_name import host_name
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.application.reset import plan_reset
from airflow_provider.control.records.deployment import Placement, parse_placement
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.liveness import Timeouts, may_be_starting
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, InstanceError, TopicMissingError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.operators.control import ControlOperator


class ResetApplicationOperator(ControlOperator):
    """Deletes an application's changelogs and control topics, so that its next deployment begins with nothing.

    It lists what it deletes, and does so only where `confirm` is the application's id; without `confirm` it ends with
    the list. It refuses while an instance lives. Its source and output topics stay, and so does its history unless
    `delete_history` says otherwise. Remove the instances' stores first (`RemoveStateOperator`): a new application would
    refuse them, because its topics have other ids.

    Tried again after it was interrupted, it deletes what is left.

    Args:
        confirm: the application's id, typed by a person; empty deletes nothing.
        stores: the names of its job's stores.
        delete_history: whether what is remembered of drills and failovers goes too.

    Returns:
        ``topics``, ``state`` (by instance the host and the folder of its stores), ``records`` (of the control topics,
        by kind) and whether they were ``deleted``.

    Raises:
        InstanceError: an instance lives, or may be starting.
        ConfigurationError: `confirm` is something else.
        TopicMismatchError: a changelog may be another application's.
        BrokerUnreachableError: no broker answered, or one did not delete a topic in time.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "confirm", "stores", "delete_history")

    def __init__(
        self,
        *,
        application_id: str,
        confirm: str | None = None,
        stores: str | Sequence[str] = ("state",),
        delete_history: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.confirm = confirm
        self.stores = stores
        self.delete_history = delete_history

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider.kafka.application_topics import refuse_those_of_others

        confirmed = is_confirmed(self.application_id, self.confirm)
        topics, stores = self.hook.topics(), parse_names("stores", self.stores)
        refuse_those_of_others(topics, self.application_id, stores)
        view, living = living_instances(self.hook, self.application_id, self.timeouts)
        plan = plan_reset(
            view, topics.names(), stores, delete_history=parse_flag("delete_history", self.delete_history)
        )
        self.log.info("A reset of %s deletes:\n%s", self.application_id, plan)
        if living:
            raise InstanceError(
                f"{', '.join(living)} of {self.application_id!r} lives, so nothing was deleted: stop every instance "
                "first."
            )
        if confirmed:
            topics.delete(plan.topics)
            self.log.info("Deleted %d topics", len(plan.topics))
        else:
            self.log.info("Nothing was deleted: give the application's id as 'confirm' to do it.")
        return {**to_plain(plan), "deleted": confirmed}


class RemoveStateOperator(ControlOperator):
    """Removes an application's stores from an instance's state folder, on the host on which this task runs.

    For a reset: the changelog restores what is removed while that is there. It acts only where `confirm` is the
    application's id, and refuses while the instance lives. What lies in the application's folder and is not its own
    stays, and is named in the log.

    Args:
        state_dir: its state folder, as it was given to `DeployInstanceOperator`.
        confirm: the application's id, typed by a person; empty removes nothing.
        placement: of the instance. The stores of one that a supervisor keeps are on a host without a worker, and those
            of one on a Spark cluster on an executor's: what lies there is named, and left to a person.

    Returns:
        The ``folder``, the ``tasks`` whose stores lay there, and whether they were ``removed``.

    Raises:
        InstanceError: the instance lives, or may be starting.
        ConfigurationError: `confirm` is something else.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instance", "state_dir", "confirm", "placement")

    def __init__(
        self,
        *,
        application_id: str,
        instance: str,
        state_dir: str,
        confirm: str | None = None,
        placement: str = Placement.WORKER.value,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.instance = instance
        self.state_dir = state_dir
        self.confirm = confirm
        self.placement = placement

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider.state.directory import StateDirectory

        confirmed = is_confirmed(self.application_id, self.confirm)
        view, living = living_instances(self.hook, self.application_id, self.timeouts)
        if self.instance in living:
            raise InstanceError(
                f"{self.instance} of {self.application_id!r} lives, so its stores were not removed: stop it first."
            )
        status = view.statuses.get(self.instance)
        if parse_placement(self.placement) is Placement.SUPERVISED:
            return self._leave_to_a_person(status, "is kept by a supervisor")
        if status is not None and status.disk.host not in ("", host_name()):
            return self._leave_to_a_person(status, "had its stores on another host than this worker")
        directory = StateDirectory(Path(self.state_dir).expanduser(), self.application_id)
        tasks = [str(task) for task in directory.tasks()]
        self.log.info("%s holds the stores of %s", directory.path, ", ".join(tasks) or "no task")
        if confirmed and (left := directory.clear()):
            self.log.warning("Not this application's, so they stay: %s", ", ".join(map(str, left)))
        return {"folder": str(directory.path), "tasks": tasks, "removed": confirmed}

    def _leave_to_a_person(self, status: InstanceStatus | None, why: str) -> dict[str, Any]:
        folder = (status.disk.folder if status else "") or self.state_dir
        self.log.warning(
            "%s %s: remove %s/%s on %s yourself, or leave it: its stores are of changelogs that "
            "are gone, so they are set aside and restored afresh.",
            self.instance,
            why,
            folder,
            self.application_id,
            (status.stores_host if status else "") or "its host",
        )
        return {"folder": f"{folder}/{self.application_id}", "tasks": [], "removed": False}


def is_confirmed(application_id: str, typed: Any) -> bool:
    """Whether a person typed the application's id; not so where the field was left empty.

    Raises:
        ConfigurationError: something else was typed.
    """
    if (given := parse_optional(typed)) is None:
        return False
    if given != application_id:
        raise ConfigurationError(
            f"confirm is {given!r}, and the application is {application_id!r}, so nothing was deleted: type its id, or "
            "leave it empty to see what would go."
        )
    return True


def living_instances(hook: KafkaStreamsHook, application_id: str, timeouts: Timeouts) -> tuple[ControlView, list[str]]:
    """What the control topics hold, and the instances that live or may be starting, sorted.

    It listens for heartbeats as long as an instance may be silent. Where a control topic is missing, as after a reset
    that was interrupted, nothing is known of any.

    Args:
        timeouts: how long an instance may be silent.
    """
    try:
        with hook.reader(application_id) as reader:
            view = reader.read_to_end()
            alive = {name: status for name, status in view.statuses.items() if status.state.alive}
            starting = {name for name, status in alive.items() if may_be_starting(status, now_ms(), timeouts)}
            silent = reader.listen(lambda: alive.keys() - starting, timeouts.instance_s)
    except TopicMissingError:
        return ControlView(application_id), []
    return view, sorted(alive.keys() - silent)
