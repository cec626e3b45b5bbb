"""The cause in what Spark raises: its texts go on for pages, and say it somewhere in the middle."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from airflow_provider.error_text import bounded, error_text
from airflow_provider.errors import ConfigurationError, StepError
from airflow_provider.kafka.broker_error import broker_error
from airflow_provider.streaming.terms.steps import Step, step_text

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_TRACEBACK: Final = "Traceback (most recent call last):\n"
_NAMED: Final = re.compile(r"(?:Caused by: )?(?P<name>[A-Za-z_][\w.$]*)(?:: (?P<text>.*))?")
_CAUSED_BY: Final = "Caused by: "
_LOOK_CHARS: Final = 200_000
_LINES: Final = 4
_OF_THE_JVM: Final = "Py4JJavaError"
_REFUSALS: Final = {
    "ClusterAuthorizationException": KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    "GroupAuthorizationException": KafkaError.GROUP_AUTHORIZATION_FAILED,
    "SaslAuthenticationException": KafkaError.SASL_AUTHENTICATION_FAILED,
    "TopicAuthorizationException": KafkaError.TOPIC_AUTHORIZATION_FAILED,
}
"""By the class of the Java client, the brokers' code."""
_UNNAMED: Final = "StreamingQueryException"
_OF_DATA: Final = re.compile(r"\[(?!KAFKA)[A-Z_.0-9]+\] .*?SQLSTATE: (?:22(?!000)\w{3}|P0001)", re.S)
"""What Spark says of an expression that cannot be computed for a value: class 22 of SQL's states, data exceptions, and
what ``raise_error()`` makes. Input that is lost has 22000.
"""
_LISTED: Final = re.compile(r"\[(`[^\]]*`)\]")
"""The columns that Spark proposes."""


@dataclass(frozen=True)
class Cause:
    """What went wrong.

    Args:
        kind: the name of the error's class, without its module.
    """

    kind: str
    message: str


def cause_of(error: BaseException) -> Cause:
    """Of an error that was raised: its own, unless Spark or Py4J wrapped another's."""
    kind, text = type(error).__name__, error_text(error)
    if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        return Cause(kind, _one_line(text))
    try:
        found = cause_in(str(error))
    except Exception:  # Py4J asks the JVM for the text, and that may be gone
        return Cause(kind, _one_line(text))
    return found if found.kind != _UNNAMED else Cause(kind, found.message)


def cause_in(text: str) -> Cause:
    """Of a text of Spark's: what a Python worker raised, else the JVM's innermost exception, else its beginning."""
    if _TRACEBACK in text:
        # Where one error was raised because of another, the last traceback is that of the outer one.
        raised = _after_frames(text[text.rindex(_TRACEBACK) + len(_TRACEBACK) :])
    elif _CAUSED_BY in text:
        raised = text[text.rindex(_CAUSED_BY) :]
    else:
        raised = text
    raised = bounded(raised, _LOOK_CHARS)
    found = _NAMED.fullmatch(raised.partition("\n")[0].strip())
    if found is None or not _is_class(found["name"]):
        return Cause(_UNNAMED, _one_line(raised))
    kind = found["name"].rpartition(".")[2]
    if kind == _OF_THE_JVM and _CAUSED_BY in raised:
        return cause_in(raised[raised.rindex(_CAUSED_BY) :])
    return _advised(kind, _one_line((found["text"] or "") + "\n" + raised.partition("\n")[2]))


def _advised(kind: str, message: str) -> Cause:
    """The same error, with the same advice, whoever met it: what brokers refuse, and what a step cannot compute."""
    if (of_data := _OF_DATA.match(message)) is not None:
        return Cause(
            StepError.__name__,
            bounded(
                "A step's expression cannot be computed for a record, and on_error() is not asked for steps: use what "
                "gives null instead, such as try_to_timestamp(), try_cast(), try_divide() or CASE WHEN; a filter() "
                f"before it does not keep it from being computed. Spark says: {of_data[0]}"
            ),
        )
    code = _REFUSALS.get(kind)
    if code is None:
        return Cause(kind, message)
    refused = broker_error(KafkaError(code, message), "What Spark asks of the brokers", "check that they answer.")
    return Cause(type(refused).__name__, str(refused))


def _after_frames(traceback: str) -> str:
    at = 0
    while traceback.startswith(" ", at):
        at = traceback.find("\n", at) + 1
        if at == 0:
            return traceback
    return traceback[at:]


def _is_class(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last[:1].isupper() and ("." in name or last.endswith(("Error", "Exception")))


def _one_line(text: str) -> str:
    """The first lines, without the stack and without the query's plan."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("\tat ", "  at ", "\t...", "JVM stacktrace", "== ", "'", "+- ")) or len(lines) == _LINES:
            break
        if line.strip():
            lines.append(line.strip())
    return bounded(" / ".join(lines)).rstrip(";")


def step_refusal(application_id: str, topic: str, step: Step, error: PySparkException) -> ConfigurationError:
    """The error for a step that Spark does not take."""
    return ConfigurationError(
        f"Spark refuses a step of job {application_id!r} for the rows of {topic!r}, {step_text(step)}: "
        f"{said_by_spark(error)} Correct its expression, or the schema."
    )


def said_by_spark(error: PySparkException) -> str:
    """The first line of what Spark says, without the columns that no job can name."""
    first = str(error).strip().splitlines()[0]
    return _LISTED.sub(lambda found: f"[{', '.join(_of_the_job(found[1]))}]", first)


def _of_the_job(listed: str) -> list[str]:
    return [name for name in listed.split(", ") if not name.startswith("`__")]
