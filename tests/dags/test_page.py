"""The page of a real Airflow: who may see what, what it says through a failover, and what a person sees in Chromium."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from fastapi.routing import APIRoute

from airflow_provider.control.lookup.channel import LookupChannel
from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.records.lookup import Answer, CopyAnswer, KeptState, Question
from airflow_provider.control.records.status import InstanceState, InstanceStatus, Role, TaskState
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import ControlWriter, write_control
from airflow_provider.page import api
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from tests.dags.browser import Browser, running_browser
from tests.dags.stage import ORDERS as ID
from tests.dags.stage import SURVIVOR, HomeWithRoles, Stage, run_stage
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("airflow")

OF_API = [one for one in api.app.routes if isinstance(one, APIRoute) and one.path.startswith("/api/")]
ROUTES = [one.path for one in OF_API if one.methods == {"GET"}]
LOOKUP = f"/api/applications/{ID}/lookup"
KEPT = '{"n":12345678901234567890}'
SHOWN = '{\n  "n": 12345678901234567890\n}'
MARKUP = "<img src=none onerror=\"document.title='taken'\"><b>bold</b>"
PICTURES: Final = os.environ.get("PICTURES")
"""A folder for the pictures of the docs; none are kept without."""
SIZES = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]


class HomeWithGuest(HomeWithRoles):
    """With one user more, who may not read the DAGs of ``orders``."""

    def _settings(self) -> dict[str, str]:
        settings = super()._settings()
        passwords = Path(settings["core__simple_auth_manager_passwords_file"])
        passwords.write_text(json.dumps({**json.loads(passwords.read_text()), "guest": "guest"}))
        return {
            **settings,
            "core__auth_manager": "tests.dags.guest_auth_manager.GuestAuthManager",
            "core__simple_auth_manager_users": f"{settings['core__simple_auth_manager_users']},guest:user",
        }


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        with run_stage(tmp_path_factory.mktemp("stage"), HomeWithGuest) as stage:
            stage.run("op", "deploy")
            wait_until(lambda: card(stage)["word"] == "safe", 60, "the page to say that it is safe", poll_s=0.5)
            yield stage


def token(stage: Stage, role: str) -> str:
    address = stage.service.home.address
    asked = httpx.post(f"{address}/auth/token", json={"username": role, "password": role}, timeout=60)
    return str(asked.raise_for_status().json()["access_token"])


def ask(stage: Stage, path: str, role: str | None, **headers: str) -> httpx.Response:
    """A route of the page's API, as somebody, or as nobody."""
    if role is not None:
        headers["Authorization"] = f"Bearer {token(stage, role)}"
    return httpx.get(f"{stage.service.home.address}/stateful-streams{path}", headers=headers, timeout=60)


def details(stage: Stage, role: str = "viewer") -> Any:
    return ask(stage, f"/api/applications/{ID}", role).raise_for_status().json()


def card(stage: Stage) -> Any:
    cards = ask(stage, "/api/applications", "viewer").raise_for_status().json()["applications"]
    return next(card for card in cards if card["id"] == ID)


@pytest.mark.long
@pytest.mark.parametrize("path", ROUTES)
def test_nobody_is_told_anything(stage: Stage, path: str) -> None:
    named = path.format(application_id=ID, anchor="tools")

    assert ask(stage, named, None).status_code == 401
    assert ask(stage, named, None, Authorization="Bearer nonsense").status_code in (401, 403)
    assert ask(stage, named, "viewer").status_code == 200


@pytest.mark.long
def test_who_may_not_read_its_dags_does_not_see_an_application(stage: Stage) -> None:
    seen = ask(stage, "/api/applications", "guest").json()["applications"]

    assert [card["id"] for card in seen] == [SURVIVOR]
    assert ask(stage, f"/api/applications/{ID}", "guest").status_code == 403
    assert ask(stage, f"/api/applications/{ID}/trend", "guest").status_code == 403
    assert ask(stage, f"/api/applications/{SURVIVOR}", "guest").status_code == 200
    unknown = ask(stage, "/api/applications/none", "viewer")
    assert (unknown.status_code, unknown.json()["detail"]) == (404, "No DAG has the tag of an application 'none'.")


@pytest.mark.long
def test_only_who_may_start_a_run_is_offered_one(stage: Stage) -> None:
    offered = {role: set(details(stage, role)["may_start"]) for role in ("viewer", "user", "op", "admin")}

    assert offered["viewer"] == set()
    assert offered["user"] == offered["op"] == offered["admin"] >= {"drill_crash", "failover", "operate", "upgrade"}


@pytest.mark.long
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_done_by_the_pages_api(stage: Stage, method: str) -> None:
    for path in ROUTES:
        at = f"{stage.service.home.address}/stateful-streams{path.format(application_id=ID, anchor='tools')}"
        assert (
            httpx.request(method, at, headers={"Authorization": f"Bearer {token(stage, 'admin')}"}).status_code == 405
        )


def look_up(stage: Stage, role: str | None, body: Any, method: str = "POST") -> httpx.Response:
    headers = {} if role is None else {"Authorization": f"Bearer {token(stage, role)}"}
    at = f"{stage.service.home.address}/stateful-streams{LOOKUP}"
    return httpx.request(method, at, headers=headers, json=body, timeout=60)


@contextmanager
def answering(stage: Stage) -> Iterator[None]:
    """Instances of these tests have no stores: this answers for their tasks, that 0_0 holds something of ``ann``."""
    over = threading.Event()

    def answer() -> None:
        with LookupChannel(stage.connection, ID) as channel:
            opened.set()
            while not over.is_set():
                asked = channel.receive(0.1)
                if not isinstance(asked, Question) or (assignment := stage.view().assignment) is None:
                    continue
                for task, who in assignment.tasks.items():
                    has = asked.key == ("ann",) and task.partition == 0
                    copy = CopyAnswer(
                        task=task,
                        role=Role.ACTIVE,
                        state=TaskState.RUNNING,
                        states=(KeptState(name="ann", value=KEPT),) if has else (),
                        position=7,
                        commit_at=6,
                    )
                    channel.send(Answer(question=asked.id, instance=who.active or "", copies=(copy,)))

    opened = threading.Event()
    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    assert opened.wait(30)
    yield
    over.set()
    thread.join(30)


@pytest.mark.long
def test_values_are_shown_to_whom_the_deployment_names_and_to_nobody_else(stage: Stage) -> None:
    body = {"key": ["ann"], "store": "state"}
    with answering(stage):
        found = look_up(stage, "op", body)
        absent = look_up(stage, "op", {**body, "key": ["bob"]})

    assert found.raise_for_status().headers["Cache-Control"] == "no-store"
    (one,) = found.json()["found"]
    assert (one["task"], one["states"]) == ("0_0", [{"name": "ann", "value": SHOWN}])
    assert one["stands"] == "active, running, of the commit at offset 6"
    assert (absent.json()["found"], absent.json()["absent"]) == ([], ["0_0", "0_1"])
    assert look_up(stage, None, body).status_code == 401
    assert look_up(stage, "guest", body).status_code == 403
    refused = look_up(stage, "viewer", body)
    assert (refused.status_code, "needs the right to start a run" in refused.json()["detail"]) == (403, True)
    may = {role: ask(stage, f"/api/applications/{ID}", role).json()["may_look_up"] for role in ("viewer", "op")}
    assert may == {"viewer": False, "op": True}


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(None, 422, id="nothing"),
        pytest.param({"key": []}, 422, id="no-column"),
        pytest.param({"key": ["x" * 1001], "store": "state"}, 422, id="too-long"),
        pytest.param({"key": ["ann"]}, 404, id="no-store-of-those-that-are-not-known"),
    ],
)
def test_question_that_makes_no_sense_is_refused(stage: Stage, body: Any, status: int) -> None:
    assert look_up(stage, "op", body).status_code == status


@pytest.mark.long
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_lookup_is_asked_in_one_way(stage: Stage, method: str) -> None:
    assert look_up(stage, "admin", {"key": ["ann"]}, method).status_code == 405


@pytest.mark.long
def test_what_has_not_changed_is_not_sent_again(stage: Stage) -> None:
    path = "/api/runbook/tools"
    assert ask(stage, path, "viewer").status_code == 200

    def same() -> bool:  # one that was not deployed says the same all the time
        first = ask(stage, f"/api/applications/{SURVIVOR}", "viewer")
        again = ask(stage, f"/api/applications/{SURVIVOR}", "viewer", **{"If-None-Match": first.headers["ETag"]})
        return again.status_code == 304 and again.content == b""

    wait_until(same, 60, "two answers that are the same", poll_s=0.5)


@pytest.mark.long
def test_application_that_was_not_deployed_says_so_with_the_step(stage: Stage) -> None:
    def said() -> Any:
        return ask(stage, f"/api/applications/{SURVIVOR}", "viewer").json()["application"]

    wait_until(lambda: "not deployed yet" in said()["reasons"][0]["text"], 60, "it to say why", poll_s=0.5)
    assert (said()["word"], said()["reasons"][0]["step_title"]) == ("unknown", "A deploy that does not come up")


@pytest.mark.long
def test_page_says_through_a_failover_what_the_topics_say(stage: Stage) -> None:
    def word() -> str:
        return str(details(stage)["application"]["word"])

    before = wait_until(lambda: details(stage)["application"].get("generation"), 30, "more than the card", poll_s=0.2)
    wait_until(lambda: word() == "safe", 60, "it to be safe", poll_s=0.2)
    stage.kill_instance(next(name for name in stage.running() if name in stage.actives()))

    # It is red for less than a second, and lacks its standbys for longer: the page looks once a second.
    wait_until(lambda: word() in ("standing still", "degraded"), 30, "it to be safe no more", poll_s=0.2)
    wait_until(lambda: details(stage)["timeline"], 120, "the failover on the time line", poll_s=0.3)
    wait_until(lambda: stage.is_whole() and word() == "safe", 300, "it to be whole", poll_s=0.5)

    def both() -> tuple[Any, ControlView] | None:
        view, found = stage.view(), details(stage)  # the page looks once a second
        shown = found["application"].get("generation")  # a card alone, where nobody looked for ten seconds
        same = view.assignment is not None and view.assignment.generation == shown
        # Its last look may be from the moment before a standby of that generation said that it is warm.
        words = (found["application"]["word"], ApplicationState(view, watched=True).verdict.word.value)
        agree = same and words == ("safe", "safe")
        return (found, view) if agree and found["timeline"][0]["outcome"] != "open" else None

    agreed = wait_until(both, 60, "the page to say of the newest generation what the topics say", poll_s=0.5)
    assert agreed is not None
    found, view = agreed
    assert view.assignment is not None
    assert view.assignment.generation > before
    (shown,) = found["application"]["tasks_by_stage"]
    placed = {task["task"]: [copy["instance"] for copy in task["copies"]] for task in shown["tasks"]}
    assert placed == {str(id_): [one.active, *one.standbys] for id_, one in view.assignment.tasks.items()}
    event = found["timeline"][0]
    assert (event["kind"], event["outcome"], event["dag_id"]) == ("failover", "passed", f"{ID}_failover")
    assert [name for name, _ in event["phases_ms"]][:3] == ["detected", "decided", "owned"]
    assert event["run_id"] in [run["dag_run_id"] for run in stage.client.runs(f"{ID}_failover")]


# --- What a person sees. ---


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def show(browser: Browser, stage: Stage, role: str, path: str, wanted: str) -> None:
    browser.log_in(stage.service.home.address, token(stage, role))
    browser.open(f"{stage.service.home.address}{path}")
    browser.wait_for(wanted, 120)


def keep(browser: Browser, name: str) -> None:
    if PICTURES:
        browser.picture(Path(PICTURES) / f"{name}.png")


APPLICATION = f"/plugin/streams?application={ID}"


@pytest.mark.browser
@pytest.mark.parametrize(("width", "colours"), SIZES)
def test_page_is_accessible_and_fits_on_every_screen(stage: Stage, browser: Browser, width: int, colours: str) -> None:
    show(browser, stage, "op", "/plugin/streams", "[data-testid=card]")
    browser.look(width=width, dark=colours == "dark")
    show(browser, stage, "op", "/plugin/streams", f"text={ID}")
    assert browser.axe("[data-testid=overview]") == []
    show(browser, stage, "op", APPLICATION, "[data-testid=hosts]")
    browser.click("[data-testid=cell]")
    browser.wait_for("[data-testid=task]")
    browser.wait_for("[data-testid=trend] canvas")
    if (width, colours) == (390, "dark"):
        keep(browser, "phone")
    assert browser.axe("[data-testid=application]") == []
    wide = "(e => [e.scrollWidth, e.clientWidth])(document.querySelector('[data-testid=application]').parentElement)"
    content, room = browser.evaluate(wide)
    assert content <= room
    assert browser.evaluate("document.documentElement.classList.contains('dark')") == (colours == "dark")


@pytest.mark.browser
def test_dag_of_an_application_has_its_page_and_another_says_that_it_is_none(stage: Stage, browser: Browser) -> None:
    show(browser, stage, "viewer", f"/dags/{ID}_deploy/plugin/stream", "[data-testid=application]")

    assert browser.text("[data-testid=application] h2") == ID


@pytest.mark.browser
def test_viewer_sees_all_but_the_buttons(stage: Stage, browser: Browser) -> None:
    show(browser, stage, "op", APPLICATION, "[data-testid=actions]")
    show(browser, stage, "viewer", APPLICATION, "[data-testid=hosts]")

    assert browser.count("[data-testid=actions]") == 0


@pytest.mark.browser
def test_button_asks_first_and_starts_a_run_with_the_forms_defaults(stage: Stage, browser: Browser) -> None:
    dag_id = f"{ID}_upgrade"
    before = stage.client.runs(dag_id)
    show(browser, stage, "user", APPLICATION, "[data-testid=actions]")
    browser.look(width=1280, dark=False)
    browser.click("text=Upgrade: dry run")
    browser.wait_for("[data-testid=confirmation]")
    assert "Nothing is changed" in browser.text("[data-testid=confirmation]")
    browser.press("Escape")
    assert (browser.count("[data-testid=confirmation]"), stage.client.runs(dag_id)) == (0, before)

    browser.click("text=Upgrade: dry run")
    browser.click("text=Yes, start the run")
    browser.wait_for("[data-testid=started]")

    (run,) = [run for run in stage.client.runs(dag_id) if run not in before]
    assert run["conf"] == {"dry_run": True}
    assert run["dag_run_id"] in browser.text("[data-testid=started]")


@pytest.mark.browser
def test_what_a_run_came_to_is_said_where_it_was_started(stage: Stage, browser: Browser) -> None:
    show(browser, stage, "user", f"/plugin/streams?application={SURVIVOR}", "[data-testid=actions]")
    browser.look(width=1280, dark=False)
    browser.click('[data-testid=actions] >> text="Stop"')
    browser.click("text=Yes, start the run")

    # It was never deployed.
    browser.wait_for("[data-testid=started] >> text=/, failed/", 240)
    browser.wait_for("[data-testid=started] >> text=/stop.* failed: see its log/")
    browser.wait_for("[data-testid=failed-runs] >> text=/_operate/", 60)


@pytest.mark.browser
def test_keys_alone_lead_to_what_a_failure_of_a_task_costs(stage: Stage, browser: Browser) -> None:
    show(browser, stage, "viewer", "/plugin/streams", f"text={ID}")
    press_until(browser, f"document.activeElement.textContent === '{ID}'")
    browser.press("Enter")
    browser.wait_for("[data-testid=hosts]")
    press_until(browser, "document.activeElement.dataset.testid === 'cell'")
    browser.press("Enter")
    browser.wait_for("[data-testid=task]")

    assert re.search(r"task 0_\d from \w to \w, a warm standby", browser.text("[data-testid=task]"))


def press_until(browser: Browser, reached: str) -> None:
    for _ in range(60):
        if browser.evaluate(reached):
            return
        browser.press("Tab")
    raise AssertionError(f"60 times Tab, and never {reached}")


@pytest.mark.browser
def test_another_site_cannot_start_a_run_in_the_name_of_who_is_logged_in(stage: Stage, browser: Browser) -> None:
    address, dag_id = stage.service.home.address, f"{ID}_operate"
    before = stage.client.runs(dag_id)
    show(browser, stage, "admin", APPLICATION, "[data-testid=actions]")
    browser.open(f"{address.replace('127.0.0.1', 'localhost')}/api/v2/version")  # another site, which has no cookie
    body = json.dumps({"logical_date": None, "conf": {"action": "stop"}})
    post = (
        f"fetch('{address}/api/v2/dags/{dag_id}/dagRuns', {{method: 'POST', credentials: 'include', body: "
        f"{json.dumps(body)}, headers: {{'Content-Type': 'TYPE'}}, mode: 'MODE'}}).then(() => 'sent', () => 'refused')"
    )

    assert browser.evaluate(post.replace("TYPE", "application/json").replace("MODE", "cors")) == "refused"
    browser.evaluate(post.replace("TYPE", "text/plain").replace("MODE", "no-cors"))  # sent, whatever becomes of it

    assert stage.client.runs(dag_id) == before


@pytest.mark.browser
def test_five_questions_are_answered_within_a_click_each(stage: Stage, browser: Browser) -> None:
    """Is it safe, why is it red, since when, how long does it take, what now."""
    wait_until(lambda: stage.is_whole() and card(stage)["word"] == "safe", 300, "it to be whole", poll_s=0.5)
    show(browser, stage, "op", "/plugin/streams", f"text={ID}")
    browser.look(width=1280, dark=False)
    show(browser, stage, "op", "/plugin/streams", f"text={ID}")
    victim = next(name for name in stage.running() if name in stage.actives())
    stage.kill_instance(victim)
    of_card = f"[data-testid=card]:has-text('{ID}')"
    browser.wait_for(f"{of_card} >> text=/degraded|standing still/")  # is it safe: no click
    keep(browser, "overview")
    browser.click(f"{of_card} >> a")  # why, and since when: one click
    browser.wait_for("[data-testid=reasons] >> text=/killed by signal 9/")
    browser.wait_for("[data-testid=application] >> text=/^not safe since .* ago/")
    event = f"[data-testid=event] >> text=/failover instance_ended {victim}: open/"
    browser.wait_for(event, 120)
    browser.click(event)  # how long: one click
    browser.wait_for("[data-testid=evidence] >> text=/detected .* s, decided .* s/")
    # The watcher has decided; a run takes it up once Airflow has begun one.
    wait_until(lambda: "the run" in browser.text("[data-testid=evidence]"), 120, "a run to take it up", poll_s=0.5)
    browser.tell("page", "setViewportSize", {"width": 1280, "height": 1100})
    browser.evaluate("document.querySelector('[data-testid=application]').parentElement.scrollTop = 0")
    keep(browser, "application")
    browser.click("[data-testid=reasons] >> text=/What to do/")  # what now: one click
    browser.wait_for("[data-testid=step]")
    assert browser.text("[data-testid=step] h3") in browser.text("[data-testid=reasons]")
    assert browser.axe("[data-testid=application]") == []


@pytest.mark.browser
def test_markup_in_what_an_instance_says_stays_text(stage: Stage, browser: Browser) -> None:
    of_another = InstanceStatus(
        application_id=ID, instance="z", incarnation=1, state=InstanceState.ENDED, error=MARKUP, error_kind="StateError"
    )
    write_control(stage.connection, ID, of_another)
    show(browser, stage, "op", APPLICATION, f"[data-testid=reasons] >> text={MARKUP[:9]}")

    assert MARKUP in browser.text("[data-testid=application]")
    assert browser.count("[data-testid=application] img, [data-testid=application] b") == 0
    assert browser.evaluate("document.title") != "taken"


@contextmanager
def described(stage: Stage) -> Iterator[JobDescription]:
    """The application is said to have a job of three stages, of which no topic was made."""
    orders = stream("orders", schema="customer STRING, product STRING, amount BIGINT", key="customer")
    spent = orders.group_by("customer").aggregate(F.sum("amount").alias("spent"), name="spent")
    of_products = orders.group_by("product", "customer").aggregate(F.count().alias("n"), name="of-products")
    job = StatefulJob(ID, spent.sink("totals"), of_products.sink("products")).description()
    job = job.with_partitions({"orders": 2})
    with ControlWriter(stage.connection, ID) as writer:
        writer.write(job)
        try:
            yield job
        finally:
            writer.forget(job)


BOXES = """[...document.querySelectorAll('[data-testid=drawing] [data-testid=node] rect')].map(e => {
  const at = e.getBoundingClientRect(); return [at.left, at.top, at.right, at.bottom]; })"""
ENDS = """[...document.querySelectorAll('[data-testid=drawing] [data-testid=arrow]')].map(e => {
  const [a, b] = [e.getPointAtLength(0), e.getPointAtLength(e.getTotalLength())]; return [b.x - a.x, b.y - a.y]; })"""


@pytest.mark.browser
@pytest.mark.parametrize(("width", "forward"), [(390, 1), (1280, 0)], ids=["down", "to-the-right"])
def test_job_is_drawn_in_the_direction_of_its_records_and_no_box_covers_another(
    stage: Stage, browser: Browser, width: int, forward: int
) -> None:
    with described(stage) as job:
        show(browser, stage, "viewer", APPLICATION, "[data-testid=hosts]")
        browser.look(width=width, dark=False)
        show(browser, stage, "viewer", APPLICATION, "[data-testid=drawing] [data-testid=node]")
        wait_until(lambda: all(ends[forward] > 0 for ends in browser.evaluate(ENDS)), 10, "all arrows to lead on")
        boxes, ends = browser.evaluate(BOXES), browser.evaluate(ENDS)

        topics = {topic for one in job.stages for topic in (one.source, *one.outputs)}
        assert len(boxes) == len(job.stages) + len(topics)
        assert len(ends) == sum(1 + len(one.outputs) for one in job.stages)
        for number, (left, top, right, bottom) in enumerate(boxes):
            for other in boxes[number + 1 :]:
                assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
        assert browser.count("[data-testid=drawing] [data-testid=rate]") == len(job.stages)
        assert browser.count("[data-testid=graph] [data-testid=stage]") == len(job.stages)
        assert browser.axe("[data-testid=graph]") == []
        if width == 1280:
            browser.evaluate("document.querySelector('[data-testid=graph]').scrollIntoView()")
            keep(browser, "graph")


@pytest.mark.browser
def test_topics_that_are_not_as_needed_have_the_command_that_repairs_them(stage: Stage, browser: Browser) -> None:
    with described(stage):
        show(browser, stage, "viewer", APPLICATION, "[data-testid=topics]")
        browser.wait_for("[data-testid=finding]", 120)
        said = browser.text("[data-testid=topics]")

        assert f"topic '{ID}-spent-changelog' does not exist" in said
        assert f"stateful-streams topics repair {ID} --apply" in said
        assert browser.axe("[data-testid=topics]") == []


@pytest.mark.browser
def test_key_is_looked_up_with_a_form_that_viewers_do_not_have(stage: Stage, browser: Browser) -> None:
    with answering(stage):
        show(browser, stage, "viewer", APPLICATION, "[data-testid=topics]")
        assert browser.count("[data-testid=lookup]") == 0
        show(browser, stage, "op", APPLICATION, "[data-testid=lookup]")
        browser.tell("page", "fill", "[data-testid=lookup] label:has-text('key') input", "ann")
        browser.press("Enter")
        browser.wait_for("[data-testid=looked-up] >> text=/12345678901234567890/")

        assert "Task 0_0 on" in browser.text("[data-testid=looked-up]")
        assert browser.axe("[data-testid=lookup]") == []


@pytest.mark.browser
def test_page_asks_nobody_but_its_airflow_and_no_program_failed(stage: Stage, browser: Browser) -> None:
    """Of all tests before, but the one of another site, which is this machine by another name."""
    show(browser, stage, "viewer", APPLICATION, "[data-testid=trend] canvas")

    seen, own = browser.seen(), stage.service.home.address.removeprefix("http://")
    assert seen["errors"] == []
    assert {host.replace("localhost", "127.0.0.1") for host in seen["hosts"] if host} == {own}
