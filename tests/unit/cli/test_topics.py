from __future__ import annotations

from airflow_provider.cli.topics import findings_text
from airflow_provider.kafka.topic_findings import TopicFinding

FINDINGS = (
    TopicFinding("it has cleanup.policy=delete.", "Set it.", topic="t", setting=("cleanup.policy", "compact")),
    TopicFinding("it has 3 partitions.", "Recreate it.", topic="u"),
)


def test_each_finding_has_what_fixes_it_and_a_dry_run_says_what_it_would_do() -> None:
    assert findings_text("orders", FINDINGS, dry_run=True).splitlines() == [
        "it has cleanup.policy=delete.",
        "  fix: Set it.",
        "  --apply would set cleanup.policy=compact on t",
        "it has 3 partitions.",
        "  fix: Recreate it.",
        "  --apply would leave this to you",
    ]
    assert "--apply" not in findings_text("orders", FINDINGS)


def test_what_was_done_and_that_all_is_well_are_said() -> None:
    assert findings_text("orders", (), ["create t"]) == "done: create t\nthe topics of orders are as it needs them"
