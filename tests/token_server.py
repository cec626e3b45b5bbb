"""A server of tokens on loopback: exchanges a client's id and secret for a signed one, and shows its public key.

One port has TLS, the other has not.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

_KEY_ID: Final = "key-of-the-test"
_LIFETIME_S: Final = 300


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that does not trust the certificate hangs up, which is its test's affair."""


class TokenServer:
    """Knows one client, whose id is the subject of its tokens.

    Args:
        ports: with TLS, and without.
        identity: PEM file with the private key and the certificate that it shows.
        client_id: of the client.
        client_secret: of the client.
    """

    def __init__(self, ports: tuple[int, int], identity: Path, *, client_id: str, client_secret: str) -> None:
        self._ports, self._identity = ports, identity
        self.scopes: list[str | None] = []
        """What was asked for, the oldest first."""
        self.refused = 0
        self._client = (client_id, client_secret)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def token_url(self) -> str:
        return f"https://127.0.0.1:{self._ports[0]}/token"

    @property
    def plain_token_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[1]}/token"

    @property
    def jwks_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[1]}/jwks"

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

        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._identity)
        with ExitStack() as ends:
            for port, context in zip(self._ports, (tls, None), strict=True):
                http = ends.enter_context(_Server(("127.0.0.1", port), Handler))
                if context is not None:
                    # A handshake is a request's affair, in its own thread: one that fails holds nobody up.
                    http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
                thread = threading.Thread(target=http.serve_forever, daemon=True)
                thread.start()
                ends.callback(thread.join)
                ends.callback(http.shutdown)
            yield self
