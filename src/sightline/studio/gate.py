"""Who may open the page: only this machine by default, or whoever has the access token. viser itself lets everybody in.

Every request passes here before viser sees it: its Host must be ours (no other site can lead a browser here under its own name),
a connection must come from our own page (Origin), and, where there is a token, it must be in the address or in the cookie that
the address leaves.
"""

from __future__ import annotations

import hmac
import http
import ipaddress
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sightline.errors import SightlineError

COOKIE = "sightline-studio"
_MIN_TOKEN = 8  # letters
_TOKEN = re.compile(r"[\w.~-]*", re.ASCII)  # what an address and a cookie hold as it is


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address(host: str, port: int, token: str | None) -> str:
    """Where the page of a server that listens at this host is opened on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/" + (f"?token={token}" if token else "")


class Gate:
    """Decides about requests. token: None lets everybody on this machine in."""

    def __init__(self, host: str, token: str | None) -> None:
        if not is_loopback(host) and token is None:
            such = secrets.token_urlsafe(12)
            raise SightlineError(
                f"host is {host!r}, which other machines can reach: expected --token with it, such as {such}."
            )
        if token is not None and len(token) < _MIN_TOKEN:
            raise SightlineError(f"token has {len(token)} letters: expected at least {_MIN_TOKEN}.")
        if token is not None and not _TOKEN.fullmatch(token):
            raise SightlineError("token is no part of an address: expected letters from a to z, digits and . _ ~ -.")
        self.local, self.token = is_loopback(host), token

    def refusal(self, path: str, headers: Any) -> str | None:
        """Why a request is refused, in a sentence; None where it is welcome."""
        host = headers.get("Host", "")
        if self.local and not is_loopback(_name(host)):
            return "This page is only open to this machine."
        origin = headers.get("Origin")
        if headers.get("Upgrade", "").lower() == "websocket" and (
            origin is None or urlsplit(origin).netloc.lower() != host.lower()
        ):
            return "Connections are only accepted from the page itself."
        if self.token is not None and not self._has_token(path, headers):
            return "Open the address with its access token: http://HOST:PORT/?token=TOKEN"
        return None

    def _has_token(self, path: str, headers: Any) -> bool:
        assert self.token is not None
        given = parse_qs(urlsplit(path).query).get("token", [])
        try:
            cookie = SimpleCookie(headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        given += [cookie.value] if cookie is not None else []
        return any(hmac.compare_digest(one.encode(errors="replace"), self.token.encode()) for one in given)

    def wrap(self, process_request: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """A handler of requests that asks the gate first."""
        from websockets.datastructures import Headers
        from websockets.http11 import Response

        def checked(connection: Any, request: Any) -> Any:
            sentence = self.refusal(request.path, request.headers)
            if sentence is not None:
                body = f"{sentence}\n".encode()
                kind = Headers({"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))})
                return Response(http.HTTPStatus.FORBIDDEN, "FORBIDDEN", kind, body)
            response = process_request(connection, request)
            if response is not None and self.token is not None:
                response.headers["Set-Cookie"] = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return response

        return checked

    @contextmanager
    def installed(self, **options: Any) -> Iterator[None]:
        """Put the gate before the server that is started in this block; refuses to go on where that did not work.

        viser has no way to look at requests, so the function with which it starts its server is replaced for a moment.
        options: of websockets' server, in place of viser's.
        """
        import websockets.asyncio.server as server

        original, used = server.serve, []

        def serve(*arguments: Any, **own: Any) -> Any:
            used.append(True)
            return original(*arguments, **{**own, **options, "process_request": self.wrap(own["process_request"])})

        server.serve = serve  # type: ignore[assignment, misc]
        try:
            yield
        finally:
            server.serve = original  # type: ignore[misc]
        if not used:
            raise SightlineError("this version of viser starts its server in another way: expected viser 1.1.")


def _name(host: str) -> str:
    """The host without its port and the brackets of an IPv6 address."""
    name = host.rsplit(":", 1)[0] if host.rsplit(":", 1)[-1].isdigit() else host
    return name.lower().removeprefix("[").removesuffix("]")
