"""Has instances of an application process nothing for a while, or go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_flag, parse_names, parse_optional
from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.waiting.conditions import ProcessingPaused
from airflow_provider.errors import InstanceError
from airflow_provider.operators.control import ControlOperator


class PauseProcessingOperator(ControlOperator):
    """Asks instances to finish their micro-batch and process nothing more until they are resumed. Waits for that.

    They go on living: they keep their tasks, follow changelogs as standbys, send heartbeats, and a failure of one is
    answered. No task of a paused instance counts as standing still. It lasts as long as the process does: one that is
    started afterwards, as a replacement too, processes.

    Args:
        instances: which; None for all that live.
        resume: whether to have them process again instead.
        timeout_s: how long it may take, in seconds.
        kwargs: see `ControlOperator`.

    Returns:
        ``instances``, and whether they are ``paused``.

    Raises:
        InstanceError: one of them does not live, ended before it reported, or was replaced.
        DeadlineError: they did not report it in time.
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (*ControlOperator.template_fields, "instances", "resume")

    def __init__(
        self,
        *,
        application_id: str,
        instances: Sequence[str] | str | None = None,
        resume: bool | str = False,
        timeout_s: float | str | None = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, timeout_s=timeout_s, **kwargs)
        self.instances = instances
        self.resume = resume

    def execute(self, context: Context) -> Any:
        """Command those that are not as wanted, and wait for all."""
        paused = not parse_flag("resume", self.resume)
        view = self.hook.read(self.application_id)
        alive = {name: status for name, status in view.statuses.items() if status.state.alive}
        named = parse_optional(self.instances)
        chosen = sorted(alive) if named is None else parse_names("instances", named)
        gone = [name for name in chosen if name not in alive]
        if gone or not chosen:
            raise InstanceError(
                f"{', '.join(gone) or 'No instance'} of {self.application_id!r} is not alive (alive: "
                f"{', '.join(sorted(alive)) or 'none'}): name those that are, or deploy first."
            )
        kind = CommandKind.PAUSE if paused else CommandKind.RESUME
        # An id for each try: what was resumed in between has to be paused again.
        commands = [
            Command(
                id=f"{kind.value}/{context['run_id']}/{self.task_id}/{now_ms()}",
                kind=kind,
                instance=name,
                incarnation=alive[name].incarnation,
            )
            for name in chosen
            if alive[name].paused != paused
        ]
        self.hook.write(self.application_id, *commands)
        return self.wait_for(ProcessingPaused({name: alive[name].incarnation for name in chosen}, paused))
