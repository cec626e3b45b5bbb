"""What one call an application promises, without running a DAG."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Asset, Param, TaskGroup
from airflow.sdk.definitions.param import process_params
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider import Callbacks, Drill, Instance, Slo, StreamDags, stream_dags
from airflow_provider.assets import answers, drills
from airflow_provider.control.records.drill_fault import DrillKind
from airflow_provider.errors import ConfigurationError
from airflow_provider.factory import operate, parts
from airflow_provider.operators.checks import SkippedDrillNote
from tests.unit.factory.read_fields import read_fields

FILE = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider import Drill, Instance, stream_dags

arguments = {"job": "jobs/orders.py", "source_topics": ["orders"], "instances": [Instance("a"), Instance("b")]}
orders = stream_dags("orders", drills=[Drill("crash")], **arguments)
payments = stream_dags("payments", **arguments)
with payments["operate"]:
    EmptyOperator(task_id="tell")
with DAG("another"):
    EmptyOperator(task_id="nothing")
"""
ARGUMENTS: dict[str, Any] = {
    "job": "jobs/orders.py",
    "source_topics": ["orders"],
    "instances": [Instance("a", queue="streams-1"), Instance("b", queue="streams-2", state_dir="/mnt/fast/b")],
}


def all_dags(made: StreamDags) -> list[DAG]:
    return list(made.values())


@pytest.fixture
def made() -> StreamDags:
    return stream_dags(
        "orders",
        **ARGUMENTS,
        slo=Slo(rto_s=10, lag_s=30, disk_free_bytes=1 << 30, late_per_hour=100, left_out_per_hour=0),
        drills=[Drill("crash", schedule="@weekly", blackout=["mon-fri 08:00-18:00 Europe/Vienna", "sun"])],
        default_args={"retries": 3, "owner": "payments"},
        tags=["team:payments"],
        dag_args={"access_control": {"Op": {"DAGs": {"can_read"}}}},
        callbacks=Callbacks(on_failover=[print], on_repair_failed=[print], on_slo_missed=[print]),
        failover_pool="urgent",
    )


def test_every_dag_is_named_after_the_application_and_can_be_stored(made: StreamDags) -> None:
    for dag in all_dags(made):
        assert dag.dag_id.startswith("orders_")
        assert dag.doc_md
        assert dag.description
        assert dag.description.endswith(".")
        assert len(dag.description) <= 120
        assert dag.render_template_as_native_obj is False, "a name such as 3.10 would become a number"
        DagSerialization.from_dict(DagSerialization.to_dict(dag))


def test_every_form_is_filled_and_explained(made: StreamDags) -> None:
    for dag in all_dags(made):
        dag.params.validate()
        for name in dag.params:
            param = dag.params.get_param(name)
            assert isinstance(param, Param)
            assert {"title", "section"} <= set(param.schema), name


def test_list_that_a_person_cleared_is_taken_as_a_browser_sends_it(made: StreamDags) -> None:
    cleared = [
        (dag, name)
        for dag in all_dags(made)
        for name in dag.params
        if "array" in (schema := dag.params.get_param(name).schema).get("type", ()) and "minItems" not in schema
    ]

    assert {name for _, name in cleared} == {"blackout", "tasks"}
    for dag, name in cleared:
        dag.params[name] = None
        dag.params.validate()


def test_every_field_of_every_form_is_read_by_a_task(made: StreamDags) -> None:
    unread = {dag.dag_id: set(dag.params) - read_fields(dag) for dag in all_dags(made)}

    assert not any(unread.values()), unread


@pytest.mark.parametrize(
    ("dag", "field", "value"),
    [
        ("scale", "instances", []),
        ("scale", "instances", ["z"]),
        ("operate", "instances", ["z"]),
        ("operate", "tasks", ["3"]),
        ("operate", "action", "copy"),
        ("failover", "instance", "z"),
    ],
)
def test_form_refuses_unknown_instances(made: StreamDags, dag: str, field: str, value: Any) -> None:
    params = made[dag].params

    with pytest.raises(ValueError, match="Invalid input for param"):
        params[field] = value


@pytest.mark.parametrize(
    ("parsed_for", "made"),
    [
        pytest.param("orders_failover", {"orders_failover"}, id="task of one DAG"),
        pytest.param("orders_drill_crash", {"orders_drill_crash"}, id="task of a drill"),
        pytest.param("another", set(), id="task of another DAG in the file"),
    ],
)
def test_file_that_is_parsed_for_one_task_makes_only_the_dag_of_that(
    parsed_for: str, made: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "streams.py"
    file.write_text(FILE)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", parsed_for)

    bag = DagBag(str(file))

    assert not bag.import_errors
    # What the file itself asks for is made too.
    assert set(bag.dags) == made | {"another", "payments_operate"}
    assert bag.dags["payments_operate"].has_task("tell")


def test_file_that_is_parsed_for_all_makes_every_dag(tmp_path: Path) -> None:
    file = tmp_path / "streams.py"
    file.write_text(FILE)

    bag = DagBag(str(file))

    assert not bag.import_errors
    assert {name for name in bag.dags if name.startswith("orders_")} == {
        "orders_deploy",
        "orders_upgrade",
        "orders_scale",
        "orders_operate",
        "orders_failover",
        "orders_repair",
        "orders_monitor",
        "orders_reset",
        "orders_drill_crash",
    }


@pytest.mark.parametrize(
    "again",
    ['stream_dags("orders", **arguments)', 'DAG("payments_stop_")\nstream_dags("payments_stop_x", **arguments)'],
    ids=["twice", "another"],
)
def test_two_applications_of_one_id_in_one_file_are_refused(again: str, tmp_path: Path) -> None:
    file = tmp_path / "streams.py"
    file.write_text(f"{FILE}\n{again}\n")

    bag = DagBag(str(file))

    (error,) = bag.import_errors.values() or [""]
    assert ("This file has a DAG 'orders_deploy' already" in error) is ("orders" in again)


def test_dag_that_is_asked_for_within_another_one_is_the_same(
    made: StreamDags, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "another")
    late = stream_dags("orders", **ARGUMENTS)

    with DAG("another") as another, TaskGroup("group"):
        assert late["repair"].task_ids == made["repair"].task_ids

    assert another.task_ids == []


def test_runs_form_is_its_dags_and_no_operator_carries_a_copy(made: StreamDags) -> None:
    for dag in all_dags(made):
        for task in dag.tasks:
            assert not task.params
            assert process_params(dag, task, {}, suppress_exception=False) == dag.params.dump()


def test_instance_is_deployed_replaced_and_upgraded_on_its_own_queue(made: StreamDags) -> None:
    for dag, task in ((made["deploy"], "deploy_b"), (made["repair"], "replace_b"), (made["upgrade"], "upgrade_b")):
        found: Any = dag.get_task(task)
        assert found.queue == "streams-2"
        assert found.state_dir == "/mnt/fast/b"


def test_monitors_of_many_applications_do_not_begin_in_the_same_minute() -> None:
    def schedule(application_id: str) -> str:
        return str(stream_dags(application_id, **ARGUMENTS)["monitor"].schedule)

    minutes = [schedule(f"application-{number}") for number in range(50)]

    assert set(minutes) == {f"{minute}-59/10 * * * *" for minute in range(10)}
    assert max(minutes.count(minute) for minute in minutes) <= 10
    assert schedule("orders") == schedule("orders"), "another one in each process would be another schedule each time"


def test_monitor_has_its_own_pool_and_schedule_where_they_are_named() -> None:
    monitor = stream_dags("orders", **ARGUMENTS, monitor_pool="monitors", monitor_schedule="@hourly")["monitor"]

    assert {task.pool for task in monitor.tasks} == {"monitors"}
    assert stream_dags("orders", **ARGUMENTS, monitor_schedule=None)["monitor"].schedule is None


def test_relative_job_lies_beside_the_dag_file(made: StreamDags) -> None:
    deploy: Any = made["deploy"].get_task("deploy_a")

    assert deploy.application == __file__.replace("test_dags.py", "jobs/orders.py")


def test_owners_arguments_reach_every_task(made: StreamDags) -> None:
    for dag in all_dags(made):
        assert {task.owner for task in dag.tasks} == {"payments"}
        assert {task.retries for task in dag.tasks} == {3}
        assert dag.access_control == {"Op": {"DAGs": {"can_read"}}}


def test_failover_is_one_task_in_its_own_pool_that_nothing_waits_behind(made: StreamDags) -> None:
    (task,) = made["failover"].tasks

    assert (task.pool, task.priority_weight) == ("urgent", 1000)
    assert made["failover"].max_active_runs > 8
    assert made["failover"].is_paused_upon_creation is False
    condition: Any = made["failover"].timetable.asset_condition
    (watcher,) = condition.watchers
    assert watcher.trigger.application_id == "orders"
    assert task.on_success_callback == [print]


def test_repair_is_started_by_the_failover_of_its_application_alone(made: StreamDags) -> None:
    other = stream_dags("payments", **ARGUMENTS)

    assert made["repair"].timetable.asset_condition == answers("orders")
    assert other["repair"].timetable.asset_condition == answers("payments")
    (mine,), (theirs,) = made["failover"].get_task("fail_over").outlets, other["failover"].get_task("fail_over").outlets
    assert mine.name != theirs.name


def test_repair_assigns_standbys_whatever_became_of_the_replacements_and_is_red_then(made: StreamDags) -> None:
    assign, last = made["repair"].get_task("assign_standbys"), made["repair"].get_task("balance")

    assert assign.trigger_rule == "all_done"
    assert {"replace_a", "replace_b"} <= assign.upstream_task_ids
    assert {"replace_a", "replace_b"} <= last.upstream_task_ids
    assert last.trigger_rule == "none_failed"
    assert not last.downstream_task_ids


def test_repair_asks_about_held_tasks_where_that_is_wanted_and_nothing_else_waits_for_it(made: StreamDags) -> None:
    assert not [name for name in made["repair"].task_ids if "held" in name]

    asking = stream_dags("orders", **ARGUMENTS, ask_on_hold=True, callbacks=Callbacks(on_hold=print))["repair"]

    ask: Any = asking.get_task("ask_about_held_tasks")
    replay = asking.get_task("replay_held_tasks")
    assert ask.upstream_task_ids == {"list_repairs"}
    assert (ask.downstream_task_ids, replay.downstream_task_ids) == ({"replay_held_tasks"}, {"wait_until_warm"})
    assert ask.notifiers == [print]
    # Skipped where nothing is held, or where the person leaves it; the run is judged then, too.
    assert asking.get_task("wait_until_warm").trigger_rule == "none_failed_min_one_success"
    DagSerialization.from_dict(DagSerialization.to_dict(asking))


def test_owner_bounds_the_work_of_the_question_and_the_time_for_its_answer_apart() -> None:
    hour, days = timedelta(hours=1), timedelta(days=2)

    for default_args, expected in (
        ({"execution_timeout": hour}, (hour, None)),
        ({"execution_timeout": hour, "response_timeout": days}, (hour, days)),
    ):
        asking = stream_dags("orders", **{**ARGUMENTS, "default_args": default_args}, ask_on_hold=True)["repair"]
        ask: Any = asking.get_task("ask_about_held_tasks")
        assert (ask.execution_timeout, ask.response_timeout) == expected


def test_repair_replaces_what_is_gone_and_still_named(made: StreamDags) -> None:
    task: Any = made["repair"].get_task("choose")
    repairs = [
        {"instance": "a", "replace": True},
        {"instance": "b", "replace": False},
        {"instance": "removed", "replace": True},
    ]

    assert task.python_callable(repairs, ["a", "b"]) == ["replace_a", "assign_standbys"]


def test_drill_that_does_not_begin_is_noted_beside_the_callbacks_of_the_default_arguments() -> None:
    made = stream_dags("orders", **ARGUMENTS, drills=[Drill("hang")], default_args={"on_failure_callback": print})
    dag = made["drill_hang"]

    for name in ("be_ready", "check_watch", "inject_fault"):
        assert dag.get_task(name).on_failure_callback == [print, SkippedDrillNote("hang")]
    assert dag.get_task("check_recovery").on_failure_callback == [print]
    blackout: Any = dag.get_task("check_blackout")
    assert blackout.kind == "hang"


def asset_of(failover: Any) -> str:
    """The one whose events start it."""
    name: str = failover.schedule.name
    return name


def test_monitor_looks_whether_the_failover_dag_is_unpaused(made: StreamDags) -> None:
    task: Any = made["monitor"].get_task("check_slo")

    assert task.failover_dag_id == made["failover"].dag_id
    assert task.failover_asset == asset_of(made["failover"])


def test_monitor_checks_all_that_is_promised(made: StreamDags) -> None:
    task: Any = made["monitor"].get_task("check_slo")

    assert Slo.parse(task.slo) == made.stream.slo


@pytest.mark.parametrize(
    ("action", "instances", "tasks"),
    [
        ("check_topics", ["a", "b"], ["check_topics"]),
        ("repair_topics", ["a", "b"], ["check_topics"]),
        ("pause", ["a", "b"], ["pause"]),
        ("resume", ["a", "b"], ["pause"]),
        ("stop", ["b"], ["stop_b"]),
        ("certify_standbys", ["a"], ["certify_standbys"]),
        ("snapshot_standbys", ["a"], ["snapshot_standbys"]),
    ],
)
def test_operate_does_what_its_form_says(
    action: str, instances: list[str], tasks: list[str], made: StreamDags, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = made["operate"]
    choose: Any = dag.get_task("choose")
    given = {"action": action, "instances": instances}
    for module in (operate, parts):
        monkeypatch.setattr(module, "get_current_context", lambda: {"params": given})

    assert choose.python_callable() == tasks
    assert set(tasks) <= choose.downstream_task_ids


def test_every_action_of_operate_is_explained_and_the_one_that_is_chosen_already_only_looks(made: StreamDags) -> None:
    action = made["operate"].params.get_param("action")

    assert action.schema["enum"] == list(action.schema["values_display"])
    assert action.value == "check_topics"
    check: Any = made["operate"].get_task("check_topics")
    assert check.render_template(check.repair, {"params": {"action": action.value}}) == "False"
    assert check.render_template(check.repair, {"params": {"action": "repair_topics"}}) == "True"


def test_pause_waits_for_no_other_run_of_operate(made: StreamDags) -> None:
    assert made["operate"].max_active_runs > 1


@pytest.mark.parametrize(
    ("chosen", "rendered", "hands_over"),
    [
        pytest.param(["a", "b"], "", "False", id="all: those that live"),
        pytest.param(["b"], '["b"]', "True", id="some: those by name"),
    ],
)
def test_operate_asks_those_that_live_unless_some_are_named(
    made: StreamDags, chosen: list[str], rendered: str, hands_over: str
) -> None:
    pause: Any = made["operate"].get_task("pause")
    stop: Any = made["operate"].get_task("stop_b")
    context: Any = {"params": {"instances": chosen}}

    assert pause.render_template(pause.instances, context) == rendered
    assert stop.render_template(stop.hand_over, context) == hands_over


def test_list_of_dags_can_be_searched_by_application_and_by_kind(made: StreamDags) -> None:
    assert set(made["failover"].tags) == {"orders", "stateful-streams:failover", "team:payments"}
    assert set(made["drill_crash"].tags) == {"orders", "stateful-streams:drill", "team:payments"}


def test_reset_can_be_given_to_fewer_people_than_the_rest(made: StreamDags) -> None:
    made["reset"].access_control = {"Admin": {"DAGs": {"can_edit"}}}

    stored = DagSerialization.from_dict(DagSerialization.to_dict(made["reset"]))

    assert stored.access_control == {"Admin": {"DAGs": {"can_edit"}}}
    assert made["operate"].access_control == {"Op": {"DAGs": {"can_read"}}}


def test_reset_lists_before_a_person_confirms_and_deletes_the_truth_last(made: StreamDags) -> None:
    tasks: list[Any] = [
        made["reset"].get_task(f"{name}") for name in ("list_what_goes", "remove_state_b", "delete_topics")
    ]
    listed, removed, deleted = tasks

    assert not listed.upstream_task_ids
    assert listed.confirm is None
    assert removed.upstream_task_ids == {"confirm"}
    assert (removed.queue, removed.state_dir) == ("streams-2", "/mnt/fast/b")
    assert deleted.upstream_task_ids == {"remove_state_a", "remove_state_b"}
    assert removed.confirm == deleted.confirm == "{{ params.confirm or '' }}"


def test_upgrade_touches_one_instance_at_a_time(made: StreamDags) -> None:
    dag = made["upgrade"]

    assert dag.get_task("upgrade_b").upstream_task_ids == {"wait_until_warm_a"}
    assert dag.get_task("wait_until_warm_a").upstream_task_ids == {"assign_standbys_a"}
    assert dag.get_task("balance").upstream_task_ids == {"wait_until_warm_b"}


def test_drill_is_scheduled_and_tells_when_it_was_passed(made: StreamDags) -> None:
    dag = made["drill_crash"]
    check: Any = dag.get_task("check_recovery")

    assert str(dag.schedule) == "@weekly"
    assert dag.params["blackout"] == ["mon,tue,wed,thu,fri 08:00-18:00 Europe/Vienna", "sun UTC"]
    watched: Any = dag.get_task("check_watch")
    assert watched.failover_dag_id == made["failover"].dag_id
    assert watched.failover_asset == asset_of(made["failover"])
    assert dag.get_task("inject_fault").upstream_task_ids == {"check_watch"}
    fault: Any = dag.get_task("inject_fault")
    assert watched.instance == fault.instance
    assert fault.num_standby_replicas == check.num_standby_replicas
    # A drill in its blackout times is skipped before anything could fail.
    assert not dag.get_task("check_blackout").upstream_task_ids
    assert dag.get_task("be_ready").upstream_task_ids == {"check_blackout"}
    assert check.max_rto_s == 10
    assert check.outlets == [drills("orders")]
    assert isinstance(check.outlets[0], Asset)


def test_drill_gives_every_task_its_standbys_again_whatever_became_of_it_and_stays_red(made: StreamDags) -> None:
    again = made["drill_crash"].get_task("restore_redundancy")

    assert again.is_teardown
    assert made["drill_crash"].get_task("inject_fault").is_setup
    assert again.upstream_task_ids == {"check_recovery", "inject_fault"}
    assert not again.on_failure_fail_dagrun


def test_topics_are_those_of_the_job_file_where_none_are_named() -> None:
    given = {name: value for name, value in ARGUMENTS.items() if name not in ("source_topics", "output_topics")}
    where = [Instance("a", queue="h1", env_vars={"B": "2"}), Instance("b", queue="h2")]
    dags = stream_dags("orders", **given | {"instances": where, "env_vars": {"A": "1"}, "application_args": ["x"]})

    created: Any = dags["deploy"].get_task("create_topics")
    checked: Any = dags["operate"].get_task("check_topics")
    assert created.application.endswith("/jobs/orders.py")
    assert (created.queue, created.env_vars, created.application_args) == ("h1", {"A": "1", "B": "2"}, ["x"])
    assert (list(created.source_topics), list(checked.source_topics)) == ([], [])


def test_topics_that_are_named_are_those_of_a_job_of_one_stage() -> None:
    created: Any = stream_dags("orders", **ARGUMENTS)["deploy"].get_task("create_topics")

    assert (created.application, created.source_topics) == (None, ["orders"])


@pytest.mark.parametrize("kind", DrillKind)
def test_each_kind_of_drill_has_a_dag(kind: DrillKind) -> None:
    dag = stream_dags("orders", **ARGUMENTS | {"drills": [Drill(kind.value)]})[f"drill_{kind.value}"]

    assert dag.dag_id == f"orders_drill_{kind.value}"
    fault: Any = dag.get_task("inject_fault")
    assert fault.kind == kind.value


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"instances": []}, "instances=\\[\\]"),
        ({"instances": [Instance("a"), Instance("a")]}, "twice"),
        ({"instances": [Instance("a")]}, "a standby needs an instance besides"),
        ({"source_topics": "orders"}, "give a list"),
        ({"source_topics": [], "output_topics": ["totals"]}, "name both, or neither"),
        ({"drills": [Drill("crash"), Drill("crash")]}, "two drills"),
        ({"drills": [Drill("crash", instance="z")]}, "drills instance 'z', which it does not have"),
        ({"instances": ["a", "b"]}, r"'a' among its instances: give Instance\(...\)"),
        ({"drills": ["crash"]}, r"'crash' among its drills: give Drill\(...\)"),
        ({"output_topics": ["orders"]}, "reads what it writes"),
        ({"dag_args": {"schedule": "@daily"}}, "dag_args=.'schedule': .* the failover what starts it"),
        ({"dag_args": {"default_args": {"retries": 1}}}, "use default_args="),
        ({"monitor_schedule": "every hour"}, "has the monitor_schedule 'every hour', which is no schedule"),
    ],
)
def test_wrong_argument_is_refused_in_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as found:
        stream_dags("orders", **{**ARGUMENTS, **wrong})

    assert "\n" not in str(found.value)


def test_instances_of_one_queue_with_one_state_folder_are_refused() -> None:
    apart = [Instance("a", queue="h1", state_dir="/data/s"), Instance("b", queue="h2", state_dir="/data/s")]
    together = [Instance("a", state_dir="/data/s"), Instance("b", state_dir="/data/x/../s/")]

    assert isinstance(stream_dags("orders", **{**ARGUMENTS, "instances": apart}), StreamDags)
    with pytest.raises(ConfigurationError, match="gives 'a' the state_dir '/data/s', which another instance"):
        stream_dags("orders", **{**ARGUMENTS, "instances": together})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Instance("a/b"),
        lambda: Drill("flood"),
        lambda: Drill(blackout="weekends"),
        lambda: Drill(schedule="every night"),
        lambda: Drill(schedule="0 4 * *"),
        lambda: Drill(schedule="@wekly"),
        lambda: Instance("a", queue=""),
        lambda: Slo(rto_s=0),
        lambda: Slo(rto_s="15"),  # type: ignore[arg-type]
        lambda: stream_dags("a b", **ARGUMENTS),
    ],
)
def test_part_that_cannot_be_is_refused_where_it_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()


class TestPlacement:
    """Airflow launches what is on a worker, and waits for what a supervisor starts."""

    def test_placement_reaches_every_task_that_would_launch_or_remove(self) -> None:
        instances = [Instance("a", python="/opt/a/python"), Instance("b", placement="supervised"), Instance("c")]

        made = stream_dags("orders", **{**ARGUMENTS, "instances": instances}, python="/opt/job/python")

        tasks: list[Any] = [task for dag in all_dags(made) for task in dag.tasks if hasattr(task, "placement")]
        assert {(task.instance, task.placement) for task in tasks} == {
            ("a", "worker"),
            ("b", "supervised"),
            ("c", "worker"),
        }
        assert {task.python for task in tasks if task.task_id.startswith("deploy_")} >= {
            "/opt/a/python",
            "/opt/job/python",
        }
        assert {"deploy_b", "replace_b", "upgrade_b", "remove_state_b"} <= {task.task_id for task in tasks}

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            ({"placement": "moon"}, "use 'worker' or 'supervised'"),
            ({"placement": "supervised", "conf": {"spark.x": "1"}}, "which nothing would read"),
            ({"placement": "supervised", "python": "/opt/python"}, "which nothing would read"),
        ],
        ids=["unknown", "settings", "python"],
    )
    def test_what_cannot_be_is_refused(self, more: dict[str, Any], why: str) -> None:
        with pytest.raises(ConfigurationError, match=why):
            Instance("a", **more)

    def test_folders_of_supervised_instances_are_not_compared_with_a_workers(self) -> None:
        instances = [Instance("a", state_dir="/data"), Instance("b", placement="supervised", state_dir="/data")]

        assert stream_dags("orders", **{**ARGUMENTS, "instances": instances})["deploy"].task_ids
