"""A server of tokens on loopback: exchanges a client's id and secret for a signed one, and shows its public key."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

_KEY_ID: Final = "key-of-the-test"
_LIFETIME_S: Final = 300


class TokenServer:
    """Knows one client, whose id is the subject of its tokens."""

    def __init__(self, port: int, client_id: str, client_secret: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.scopes: list[str | None] = []
        """What was asked for, the oldest first."""
        self.refused = 0
        self._client = (client_id, client_secret)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    def keys(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [{**found, "kid": _KEY_ID, "alg": "RS256", "use": "sig"}]}

    def exchange(self, authorization: str, form: dict[str, list[str]]) -> dict[str, Any] | None:
        """The answer to a request of a token; None where the client is not known."""
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode() if authorization else ""
        if tuple(given.split(":", 1)) != self._client or form.get("grant_type") != ["client_credentials"]:
            self.refused += 1
            return None
        scope = form.get("scope", [None])[0]
        self.scopes.append(scope)
        now = int(time.time())
        claims = {"sub": self._client[0], "aud": "brokers", "iat": now, "exp": now + _LIFETIME_S, "scope": scope or ""}
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": _KEY_ID})
        return {"access_token": token, "token_type": "bearer", "expires_in": _LIFETIME_S}

    @contextmanager
    def running(self) -> Iterator[TokenServer]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, server.keys())

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
                answer = server.exchange(self.headers.get("Authorization", ""), form)
                self._answer(*((401, {"error": "invalid_client"}) if answer is None else (200, answer)))

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        host, port = self.url.removeprefix("http://").split(":")
        with ThreadingHTTPServer((host, int(port)), Handler) as http:
            thread = threading.Thread(target=http.serve_forever, daemon=True)
            thread.start()
            try:
                yield self
            finally:
                http.shutdown()
                thread.join()
