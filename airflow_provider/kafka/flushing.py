"""Waits until a producer's records are stored, and says why none of them may be."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Producer


def flush(producer: Producer, timeout_s: float) -> int:
    """Send what is queued, and call the callbacks.

    A fatal error is raised by the client while it calls a callback, which then fails with a `SystemError` that says
    nothing. An idempotent producer has one where its user may write to no topic at all: the brokers give it no id.

    Args:
        timeout_s: how long to wait at most.

    Returns:
        How many records are still queued.

    Raises:
        KafkaException: a fatal error.
    """
    try:
        return producer.flush(timeout_s)
    except (KafkaException, SystemError) as error:
        cause = error if isinstance(error, KafkaException) else error.__cause__
        if not isinstance(cause, KafkaException):
            raise
        if cause.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, cause.args[0].str())) from error
        raise cause from None
