"""What the page asks for. Nothing is done to an application here: Airflow's own API does that.

Airflow mounts it without authentication. So each route here asks who it is (401), and shows an application only to whom
may read each of its DAGs (403). Values of records are shown to fewer (`may_look_up`).
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import threading
from collections.abc import Collection
from typing import Annotated, Any, Final

import msgspec
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from airflow.sdk.exceptions import AirflowNotFoundException
from fastapi import Depends, FastAPI, Header, HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from airflow_provider.control.lookup.asking import look_up, value_text
from airflow_provider.errors import AccessError, AssignmentError, ConfigurationError, StatefulStreamsError, TopicError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.page import BUNDLE, NOBODY, OPERATORS, VIEWERS
from airflow_provider.page.applications import Application, KnownApplications, read_applications
from airflow_provider.page.following import Answers, Followers
from airflow_provider.page.runbook import runbook

log = logging.getLogger(__name__)

_YEAR_S: Final = 31_536_000
_MOST_CHARS: Final = 1000
_MOST_COLUMNS: Final = 20
_AT_ONCE: Final = 2
"""Lookups in a process: each holds a thread of the API server until the instances have answered."""
_looking_up: Final = threading.BoundedSemaphore(_AT_ONCE)
_NOT_KEPT: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_WHO: Final = {
    NOBODY: "nobody may, here",
    OPERATORS: "that needs the right to start a run of each of its DAGs",
}


def _connect(kafka_conn_id: str) -> KafkaConnection:
    try:
        return KafkaStreamsHook(kafka_conn_id).connection
    except AirflowNotFoundException as error:
        raise ConfigurationError(
            f"The API server knows no connection {kafka_conn_id!r}: make it in Airflow, or where its environment or "
            "secrets backend is set for workers, set it for the API server, too."
        ) from error


app = FastAPI(title="Stateful streams", docs_url=None, redoc_url=None, openapi_url=None)
known = KnownApplications(read_applications)
followers = Followers(_connect)
atexit.register(followers.close)


@app.exception_handler(RequestValidationError)
def not_valid(_: Request, error: RequestValidationError) -> JSONResponse:
    """What is wrong, without what was sent: that may be no JSON that can be sent back, or somebody's key."""
    said = [{name: one[name] for name in ("loc", "msg", "type")} for one in error.errors()]
    return JSONResponse({"detail": said}, 422)


def readable_applications(user: GetUserDep) -> dict[str, Application]:
    """Those of which the user may read each DAG."""
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return {id_: one for id_, one in known.get().items() if readable.issuperset(one.dags.values())}


def readable_application(application_id: str, user: GetUserDep) -> Application:
    """The one that a path names.

    Raises:
        HTTPException: 404 where there is none, 403 where the user may not read it.
    """
    application = readable_applications(user).get(application_id)
    if application is None:
        if application_id in known.get():
            raise HTTPException(403, f"You may not read the DAGs of {application_id!r}.")
        raise HTTPException(404, f"No DAG has the tag of an application {application_id!r}.")
    return application


Readable = Annotated[dict[str, Application], Depends(readable_applications)]
ReadableApplication = Annotated[Application, Depends(readable_application)]
IfNoneMatch = Annotated[str | None, Header()]


@app.get("/api/applications")
def applications(readable: Readable, if_none_match: IfNoneMatch = None) -> Response:
    """A card of each application."""
    cards = [followers.answers(one).card for one in readable.values()]
    return _tagged(b'{"applications":[' + b",".join(cards) + b"]}", if_none_match)


@app.get("/api/applications/{application_id}")
def application(one: ReadableApplication, user: GetUserDep, if_none_match: IfNoneMatch = None) -> Response:
    """All of one, with its time line and the DAGs of which the user may start a run."""
    answers: Answers = followers.answers(one, closely=True)
    may_start = startable_dags(one, user)
    said = msgspec.json.encode({"may_start": may_start, "may_look_up": may_look_up(one, may_start)})
    body = b'{"application":%s,"timeline":%s,%s' % (answers.details, answers.timeline, said[1:])
    return _tagged(body, if_none_match)


@app.get("/api/applications/{application_id}/trend")
def trend(one: ReadableApplication, if_none_match: IfNoneMatch = None) -> Response:
    """Its figures of the last hours, and what they say of the next."""
    return _tagged(followers.answers(one).trend, if_none_match)


class LookupRequest(BaseModel):
    """A key, by the texts of its columns; of the only store where none is named."""

    key: Annotated[list[Annotated[str, Field(max_length=_MOST_CHARS)]], Field(min_length=1, max_length=_MOST_COLUMNS)]
    store: Annotated[str | None, Field(max_length=_MOST_CHARS)] = None


@app.post("/api/applications/{application_id}/lookup")
def lookup(one: ReadableApplication, user: GetUserDep, asked: LookupRequest) -> Response:
    """What a store holds of a key. The key is not in the address, which is logged.

    Raises:
        HTTPException: 403 where the user may not look values up, 429 where too many are looked up already, 404 where
            there is no such store, 409 where nobody can be asked, 503 where the brokers do not answer.
    """
    if not may_look_up(one, startable_dags(one, user)):
        raise HTTPException(403, f"You may not look up what the stores of {one.id!r} hold: {_WHO[one.lookups_by]}.")
    if not _looking_up.acquire(blocking=False):
        raise HTTPException(429, "Too many keys are being looked up: ask again in some seconds.")
    try:
        log.info("%r looks up a key in store %r of %r", user.get_name(), asked.store, one.id)
        found = look_up(_connect(one.kafka_conn_id), one.id, asked.key, asked.store)
    except StatefulStreamsError as error:
        raise HTTPException(_status_of(error), str(error)) from error
    finally:
        _looking_up.release()
    return Response(msgspec.json.encode(found.to_plain(value_text)), media_type="application/json", headers=_NOT_KEPT)


def may_look_up(one: Application, may_start: Collection[str]) -> bool:
    """Whether somebody may see values of records, who may read the application's DAGs.

    Args:
        may_start: the DAGs of which they may start a run.
    """
    return one.lookups_by == VIEWERS or (one.lookups_by == OPERATORS and set(may_start) == set(one.dags))


def _status_of(error: StatefulStreamsError) -> int:
    if isinstance(error, (AccessError, AssignmentError, TopicError)):
        return 409
    return 404 if isinstance(error, ConfigurationError) else 503


@app.get("/api/runbook/{anchor}")
def step(anchor: str, _: GetUserDep) -> dict[str, str]:
    """A part of the runbook."""
    if anchor not in runbook():
        raise HTTPException(404, f"The runbook has no part {anchor!r}: it has {', '.join(runbook())}.")
    title, text = runbook()[anchor]
    return {"title": title, "text": text}


@app.get("/ui/page.js")
def bundle() -> FileResponse:
    """The program of the page, which holds nothing of any application. Its address names its version."""
    headers = {"Cache-Control": f"public, max-age={_YEAR_S}, immutable", "X-Content-Type-Options": "nosniff"}
    return FileResponse(BUNDLE, media_type="text/javascript", headers=headers)


def startable_dags(one: Application, user: Any) -> list[str]:
    """By what stands behind the application's id in theirs, the DAGs of which the user may start a run."""
    manager, teams = get_auth_manager(), DagModel.get_dag_id_to_team_name_mapping(list(one.dags.values()))
    return [
        name
        for name, dag_id in sorted(one.dags.items())
        if manager.is_authorized_dag(
            method="POST",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id, team_name=teams.get(dag_id)),
            user=user,
        )
    ]


def _tagged(body: bytes, if_none_match: str | None) -> Response:
    """The body, or 304 where the browser has the same already; whatever process answered it before."""
    tag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}
    if if_none_match == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
