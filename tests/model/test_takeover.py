"""The takeover protocol keeps its invariants in every state of a small model, and needs each of its rules for that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.model.invariants import INVARIANTS
from tests.model.mutations import LARGE, LARGEST, MUTATIONS, STANDARD, check, in_words
from tests.model.takeover import ACTIONS, RULES, Bounds

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "model.md").read_text(encoding="utf-8")
SPECIFICATION = (DOCS / "model" / "Takeover.tla").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "model" / "Takeover.cfg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("title", "bounds"),
    [
        *STANDARD.items(),
        *(pytest.param(*large, marks=pytest.mark.long) for large in LARGE.items()),
        *(pytest.param(*largest, marks=pytest.mark.schedules) for largest in LARGEST.items()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_state_keeps_the_invariants_and_can_reach_the_end(title: str, bounds: Bounds) -> None:
    found = check(bounds)

    assert found.broken is None, "\n".join(in_words(found.broken))
    assert f"| {title} | {found.states:,} | {found.steps:,} | {found.depth} |" in PAGE


def test_every_action_is_taken() -> None:
    labels = check(Bounds(inputs=1, generations=2)).labels

    assert {label.action for label in labels} == ACTIONS.keys()


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_an_invariant_breaks(rule: str) -> None:
    mutation = MUTATIONS[rule]
    found = check(mutation.bounds, rule).broken

    assert found is not None
    print(*in_words(found), sep="\n")
    assert (found.invariant, len(found.way)) == (mutation.invariant, mutation.steps)
    assert f"| `{rule}` | {RULES[rule]} | `{mutation.invariant}` | {mutation.steps} |" in PAGE


def test_way_to_a_torn_transaction_is_told_in_words() -> None:
    found = check(MUTATIONS["NewProducer"].bounds, "NewProducer").broken

    assert found is not None
    assert [line.strip() for line in in_words(found)][-7:] == [
        "11. A commits; the request was sent twice, and the first is still on its way",
        "changelog: [0] commit(1); outputs: [0]",
        "12. A writes its store",
        "13. A writes a record of a transaction",
        "14. the late request arrives",
        "changelog: [0] commit(1) [0, 1]; outputs: [0]",
        "ExactlyOnce is broken.",
    ]


def test_specification_has_the_same_actions_invariants_and_rules() -> None:
    following = SPECIFICATION.partition("\nNext ==")[2].partition("\nSpec ==")[0]
    invariants = CONFIGURATION.partition("INVARIANTS")[2].split()

    assert set(re.findall(r"(\w+)\([qpi, ]+\)", following)) == ACTIONS.keys()
    assert invariants == list(INVARIANTS)
    assert all(re.search(rf"^{name} ==", SPECIFICATION, re.MULTILINE) for name in INVARIANTS)
    assert set(re.findall(r'Rule\("(\w+)"\)', SPECIFICATION)) == RULES.keys()
