"""The gate: this machine alone, or a token; and never from the page of another site."""

from __future__ import annotations

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from sightline.errors import SightlineError
from sightline.studio.gate import COOKIE, Gate, address

HERE = {"Host": "127.0.0.1:8080"}


def socket(origin, host="127.0.0.1:8080", **more):
    return {"Host": host, "Upgrade": "websocket", **({} if origin is None else {"Origin": origin}), **more}


def test_this_machine_is_welcome_without_a_token():
    gate = Gate("127.0.0.1", None)
    assert gate.refusal("/", HERE) is None and gate.refusal("/", {"Host": "localhost:8080"}) is None
    assert gate.refusal("/", socket("http://127.0.0.1:8080")) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8080"},  # a name of another site that leads to this machine
        {"Host": "evil.127.0.0.1"},
        {"Host": "[evil]:80"},
        {},
        socket("http://evil.example"),
        socket("http://127.0.0.1:9999"),
        socket(None),
        socket("null"),
    ],
)
def test_other_names_and_the_pages_of_other_sites_are_refused(headers):
    assert Gate("127.0.0.1", None).refusal("/", headers)


@pytest.mark.parametrize(
    "host, shown",
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("localhost", "localhost"),
        ("::1", "[::1]"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("192.168.1.4", "192.168.1.4"),
    ],
)
def test_the_address_leads_to_the_page_and_is_let_in(host, shown):
    token = "a-good.token_~1"
    assert address(host, 80, None) == f"http://{shown}:80/"
    assert address(host, 80, token) == f"http://{shown}:80/?token={token}"
    assert Gate(host, token).refusal(f"/?token={token}", {"Host": f"{shown}:80"}) is None


@pytest.mark.parametrize(
    "token", ["with a space", "one&two#three", "a+sign+more", "per%20cent", "gehörtmir", "a;cookie"]
)
def test_a_token_that_an_address_or_a_cookie_cannot_hold_is_refused(token):
    with pytest.raises(SightlineError, match="expected letters from a to z"):
        Gate("0.0.0.0", token)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "::", "studio.example"])
def test_a_host_that_others_can_reach_needs_a_token(host):
    with pytest.raises(SightlineError, match="expected --token with it"):
        Gate(host, None)
    with pytest.raises(SightlineError, match="expected at least 8"):
        Gate(host, "short")
    Gate(host, "long-enough")


def test_the_token_is_taken_from_the_address_or_the_cookie():
    gate, there = Gate("0.0.0.0", "a-good-token"), {"Host": "studio.example:8080"}
    assert "access token" in gate.refusal("/", there)
    assert gate.refusal("/?token=a-good-token", there) is None
    assert gate.refusal("/assets/x.js", {**there, "Cookie": f"a=b; {COOKIE}=a-good-token"}) is None
    for path, cookie in (
        ("/?token=a-good-toke", ""),
        ("/?token=", ""),
        ("/", f"{COOKIE}=wrong"),
        ("/?token=é", "\x00=;"),
    ):
        assert gate.refusal(path, {**there, "Cookie": cookie})
    welcome = socket("http://studio.example:8080", "studio.example:8080", Cookie=f"{COOKIE}=a-good-token")
    assert gate.refusal("/", welcome) is None


def test_a_refused_request_never_reaches_the_page_and_a_welcome_one_gets_the_cookie():
    asked = []

    def page(connection, request):
        asked.append(request.path)
        return Response(200, "OK", Headers(), b"the page")

    handle = Gate("0.0.0.0", "a-good-token").wrap(page)
    refused = handle(None, Request("/", Headers(Host="x")))
    assert refused.status_code == 403 and b"access token" in refused.body and not asked
    welcome = handle(None, Request("/?token=a-good-token", Headers(Host="x")))
    assert welcome.body == b"the page" and asked == ["/?token=a-good-token"]
    assert welcome.headers["Set-Cookie"] == f"{COOKIE}=a-good-token; HttpOnly; SameSite=Strict; Path=/"
