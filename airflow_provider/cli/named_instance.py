"""The instance that a command is about."""

from __future__ import annotations

from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError


def check_instance(view: ControlView, instance: str | None) -> None:
    """Refuse a name that the application does not have.

    Args:
        instance: as it was given; None where none was.

    Raises:
        InstanceError: there is no such instance.
    """
    known = {*view.statuses, *(view.assignment.instances if view.assignment else ())}
    if instance is not None and instance not in known:
        raise InstanceError(
            f"{view.application_id!r} has no instance {instance!r}, but {', '.join(sorted(known)) or 'none'}: correct "
            "its name."
        )
