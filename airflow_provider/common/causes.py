"""What is wrong, by its cause: many sentences as few. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

_MOST_NAMES: Final = 6
_TASK: Final = re.compile(r"\d+_\d+")
_OF_TASK: Final = re.compile(r"task (?P<task>\d+_\d+): (?P<said>.*)", re.DOTALL)
_OF_INSTANCE: Final = re.compile(r"instance (?P<instance>[^\s:]+): ")
_WITH_REASON: Final = re.compile(r"(?P<what>[^:(]*): (?P<why>.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"\d[\d.,:_]*")


@dataclass
class _Saying:
    """What is said of some tasks, such as ``failed on a``."""

    text: str
    tasks: list[str] = field(default_factory=list)
    instances: list[str] = field(default_factory=list)

    @property
    def of_standbys(self) -> bool:
        return "standby" in self.text

    def __str__(self) -> str:
        """``tasks 0_0, 0_1: failed on a, b``."""
        text = self.text
        if len(self.instances) > 1:
            text = text.replace(f"on {self.instances[0]}", f"on {listed_names(sorted(self.instances))}", 1)
        return f"task{'s' if len(self.tasks) > 1 else ''} {listed_names(self.tasks)}: {text}"


@dataclass
class _Cause:
    """Sentences with one reason.

    Args:
        why: the reason, as the first of them has it; the sentence where it has none.
        sayings: what is said of which tasks, by its shape; none for a sentence that is of no task.
        follows: what is said of tasks because of an instance that is named here.
        tasks: that the sentences name elsewhere, behind those of the first.
    """

    why: str
    others: int = 0
    sayings: dict[str, _Saying] = field(default_factory=dict)
    follows: dict[str, _Saying] = field(default_factory=dict)
    tasks: dict[str, None] = field(default_factory=dict)

    @property
    def of_standbys_alone(self) -> bool:
        """Whether every task does its work."""
        return bool(self.sayings) and all(saying.of_standbys for saying in self.sayings.values())

    def __str__(self) -> str:
        said = _of_tasks(self.sayings.values())
        text = f"{said}: {self.why}" if said and self.why else said or self.why
        if self.follows:
            text += f" ({_of_tasks(self.follows.values())})"
        more = [task for task in self.tasks if task not in _TASK.findall(self.why)]
        if self.others:
            names = f", of {listed_names(more)}" if more and not self.sayings else ""
            text += f" [and {self.others} more that {'differs' if self.others == 1 else 'differ'} in numbers{names}]"
        return text


def causes(sentences: Iterable[str], instances: Collection[str] = ()) -> tuple[str, ...]:
    """The same, each fact once, the most important first: what keeps tasks from their work before what standbys lack.

    Sentences that begin with ``task 0_3:`` and have one reason become one, with the tasks that it concerns. What
    follows for tasks from an instance that is named by itself (``instance a: ...``) is said there. Reasons that differ
    in numbers are one reason: that of the first is given.

    Args:
        instances: the names of the application's instances, which are told from other words by that.
    """
    names = "|".join(sorted(map(re.escape, instances), key=len, reverse=True)) or r"(?!)"
    on, name = re.compile(rf"\bon ({names})(?![\w-])"), re.compile(rf"(?<![\w-])({names})(?![\w-])")
    sentences = tuple(sentences)
    gone = {found["instance"] for sentence in sentences if (found := _OF_INSTANCE.match(sentence)) is not None}
    by_shape: dict[str, _Cause] = {}
    later: list[tuple[str, str, str]] = []

    def shape(text: str) -> str:
        return name.sub("@", _NUMBER.sub("#", text))

    def add(sayings: dict[str, _Saying], task: str, what: str) -> bool:
        """Whether it is said in other numbers than of the first one."""
        saying = sayings.setdefault(shape(what), _Saying(what))
        if task not in saying.tasks:
            saying.tasks.append(task)
        if (place := on.search(what)) is not None and place[1] not in saying.instances:
            saying.instances.append(place[1])
        return name.sub("@", what) != name.sub("@", saying.text)

    for sentence in sentences:
        of_task = _OF_TASK.fullmatch(sentence)
        said = sentence if of_task is None else of_task["said"]
        reason = None if of_task is None else _WITH_REASON.fullmatch(said)
        place = on.search(said)
        if of_task is not None and reason is None and place is not None and place[1] in gone:
            later.append((place[1], of_task["task"], said))
            continue
        why = said if of_task is None else "" if reason is None else reason["why"]
        # Which instance it is, is all that is said of one.
        cause = by_shape.setdefault(said if _OF_INSTANCE.match(said) else shape(why or said), _Cause(why))
        differs = why != cause.why
        if of_task is not None:
            differs |= add(cause.sayings, of_task["task"], said if reason is None else reason["what"])
        cause.others += differs
        cause.tasks |= dict.fromkeys(_TASK.findall(said))
    for instance, task, said in later:
        of_it = next(one for one in by_shape.values() if one.why.startswith(f"instance {instance}: "))
        add(of_it.follows, task, on.sub("", said).rstrip())
    return tuple(map(str, sorted(by_shape.values(), key=lambda cause: cause.of_standbys_alone)))


def listed_names(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Names with commas between them; of many the first ones, and how many more."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def _of_tasks(sayings: Iterable[_Saying]) -> str:
    return "; ".join(map(str, sorted(sayings, key=lambda saying: saying.of_standbys)))
