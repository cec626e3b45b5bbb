"""The page of a real Airflow: who may see what, what it says through a failover, and what a person sees in Chromium."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from fastapi.routing import APIRoute

from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.overview.verdict import Word
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import write_control
from airflow_provider.page import api
from tests.dags.browser import Browser, running_browser
from tests.dags.stage import ORDERS as ID
from tests.dags.stage import SURVIVOR, HomeWithRoles, Stage, run_stage
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("airflow")

ROUTES = [one.path for one in api.app.routes if isinstance(one, APIRoute) and one.path.startswith("/api/")]
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
    before = wait_until(lambda: details(stage)["application"].get("generation"), 30, "more than the card", poll_s=0.2)
    stage.kill_instance(next(name for name in stage.running() if name in stage.actives()))

    def word() -> str:
        return str(details(stage)["application"]["word"])

    wait_until(lambda: word() == "standing still", 30, "it to be red", poll_s=0.2)
    wait_until(lambda: details(stage)["timeline"], 120, "the failover on the time line", poll_s=0.3)
    wait_until(lambda: stage.is_whole() and word() == "safe", 300, "it to be whole", poll_s=0.5)

    def both() -> tuple[Any, ControlView] | None:
        view, found = stage.view(), details(stage)  # the page looks once a second
        same = view.assignment is not None and view.assignment.generation == found["application"]["generation"]
        return (found, view) if same else None

    agreed = wait_until(both, 10, "the page to have read the newest generation", poll_s=0.5)
    assert agreed is not None
    found, view = agreed
    assert view.assignment is not None
    assert view.assignment.generation > before
    state = ApplicationState(view, watched=True)
    assert (found["application"]["word"], state.verdict.word) == ("safe", Word.SAFE)
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
    browser.wait_for("[data-testid=application] >> text=/^since .* ago/")
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


@pytest.mark.browser
def test_page_asks_nobody_but_its_airflow_and_no_program_failed(stage: Stage, browser: Browser) -> None:
    """Of all tests before, but the one of another site, which is this machine by another name."""
    show(browser, stage, "viewer", APPLICATION, "[data-testid=trend] canvas")

    seen, own = browser.seen(), stage.service.home.address.removeprefix("http://")
    assert seen["errors"] == []
    assert {host.replace("localhost", "127.0.0.1") for host in seen["hosts"] if host} == {own}
