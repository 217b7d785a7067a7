"""JSON over HTTP from the standard library alone, with retries that end."""

from __future__ import annotations

import email.utils
import http.client
import json
import random
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phasefusion.errors import ScoringError

#: Answers that another try may change.
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
#: Answers that are about this one request.
OF_REQUEST = frozenset({400, 413, 422})

_MAX_BODY_BYTES = 2**26
_MAX_WAIT_S = 60.0
_MAX_SAID = 300


class RefusedRequestError(ScoringError):
    """The server refused this request, and would again; others may be fine."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Refuse."""
        return


@dataclass(slots=True)
class Contact:
    """Whether a server has ever answered, whatever it said."""

    is_made: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, and how long they are waited for.

    Attributes
    ----------
    base_url : str
        Such as ``http://localhost:8000/v1``.
    api_key : str or None
        Sent as a bearer token; in no message and no repr.
    headers : mapping of str to str
        Further headers.
    timeout_s : float
        Of one try.
    retries : int
        Tries after the first.
    backoff_s : float
        Wait before the second try; doubled from try to try, with up to a half of it
        added at random, 60 s at most. A server's Retry-After is kept to instead.
    sleep : callable
        For tests.
    contact : Contact
        Of all requests: until there is one, a server that is not there is asked once
        more, and then not waited for.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 120.0
    retries: int = 5
    backoff_s: float = 1.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    contact: Contact = field(default_factory=Contact, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.base_url)
            is_port = parts.port is None or parts.port > 0
        except ValueError:  # said without the address, which may hold a password
            is_port = False
        if not is_port:
            raise ScoringError(
                "base_url has no valid host or port; it must be such as "
                "http://localhost:8000/v1"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ScoringError(
                f"base_url is {self.shown!r}; it must be an http or https address such "
                "as http://localhost:8000/v1"
            )
        if "@" in parts.netloc:
            raise ScoringError(
                f"base_url {self.shown!r} was given with a user or a password before "
                "the host, which are not sent; give api_key (a bearer token), or "
                'headers={"Authorization": "Basic ..."}'
            )
        if parts.query or parts.fragment:
            raise ScoringError(
                f"base_url {self.shown!r} was given with a ? or # part, to which no "
                "path can be added; leave it out"
            )
        if parts.path.rstrip("/").endswith("/completions"):
            raise ScoringError(
                f"base_url {self.shown!r} names a method of the server; end it "
                "before /chat/completions, which is added"
            )
        if not (self.timeout_s > 0 and self.retries >= 0 and self.backoff_s >= 0):
            raise ScoringError(
                f"timeout_s {self.timeout_s} must be > 0, retries {self.retries} and "
                f"backoff_s {self.backoff_s} >= 0"
            )

    @property
    def shown(self) -> str:
        """The address without a name, a password or a query in it."""
        parts = urllib.parse.urlsplit(self.base_url)
        host = parts.netloc.rpartition("@")[2]
        return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send JSON and return the JSON that comes back.

        Raises
        ------
        RefusedRequestError
            If the server refuses this request as such (status 400, 413 or 422).
        ScoringError
            If it cannot be reached, refuses for another reason, or does not answer in
            JSON, after all tries; after the second if nothing answers at an address
            that never did: a closed port, a host that does not exist, https where there
            is none or whose certificate is not trusted.
        """
        data = json.dumps(body).encode()
        for tried in range(self.retries + 1):
            wait_s, problem = self._wait_s(tried), ""
            try:
                return self._once(path, data)
            except urllib.error.HTTPError as error:
                self.contact.is_made = True
                problem = self._read_error(error)
                if error.code in OF_REQUEST:
                    raise RefusedRequestError(self._clean(problem)) from None
                if error.code not in RETRIED:
                    raise ScoringError(self._clean(problem)) from None
                asked_s = _retry_after_s(error.headers.get("Retry-After"))
                wait_s = wait_s if asked_s is None else min(asked_s, _MAX_WAIT_S)
            except (OSError, http.client.HTTPException) as error:
                problem = f"{self.shown}/{path}: {_reason(error)}"
                is_last = tried >= min(self.retries, 1)  # a server may be restarting
                if is_last and not self.contact.is_made and _is_nobody(error):
                    raise ScoringError(
                        self._clean(
                            f"{problem}. Nothing has answered at that address yet: see "
                            "that the server is running, has finished loading, and is "
                            "the one of base_url (host, port, http or https)"
                        )
                    ) from None
            if tried < self.retries:
                self.sleep(wait_s)
        raise ScoringError(
            self._clean(
                f"{problem} (tried {self.retries + 1} times); what was scored "
                "before is kept, and the same call goes on from there"
            )
        )

    def _once(self, path: str, data: bytes) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= self.headers
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        url = f"{self.base_url.rstrip('/')}/{path}"
        request = urllib.request.Request(url, data, headers, method="POST")
        opener = urllib.request.build_opener(_NoRedirects)
        with opener.open(request, timeout=self.timeout_s) as answer:
            self.contact.is_made = True
            text = answer.read(_MAX_BODY_BYTES + 1)
        if len(text) > _MAX_BODY_BYTES:
            raise ScoringError(f"{self.shown}/{path}: answered more than 64 MiB")
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ScoringError(
                self._clean(
                    f"{self.shown}/{path}: answered no JSON object: {_said(text)}"
                )
            )
        return found

    def _wait_s(self, tried: int) -> float:
        wait_s = min(self.backoff_s * 2.0**tried, _MAX_WAIT_S)
        return min(wait_s * (1 + random.random() / 2), _MAX_WAIT_S)

    def _read_error(self, error: urllib.error.HTTPError) -> str:
        try:
            text = error.read(_MAX_BODY_BYTES)
        except (OSError, http.client.HTTPException):
            text = b""
        return f"{self.shown}: status {error.code}: {_said(text) or error.reason}"

    def _clean(self, text: str) -> str:
        """Take the key out of what a server may have echoed."""
        return text.replace(self.api_key, "***") if self.api_key else text


def _said(text: bytes) -> str:
    """Return the message of an error body, on one line."""
    shown = text.decode(errors="replace")
    try:
        found = json.loads(text)
        inner = found.get("error", found) if isinstance(found, dict) else found
        if isinstance(inner, dict):
            shown = str(inner.get("message") or inner.get("detail") or inner)
        elif inner is not None:
            shown = str(inner)
    except ValueError:
        pass
    shown = " ".join(shown.split())
    return shown if len(shown) <= _MAX_SAID else shown[: _MAX_SAID - 3] + "..."


def _cause(error: BaseException) -> object:
    """Return what is inside a URLError; other errors may have a reason that is text."""
    return error.reason if isinstance(error, urllib.error.URLError) else error


def _reason(error: BaseException) -> str:
    inner = _cause(error)
    if isinstance(inner, TimeoutError | socket.timeout):
        return "no answer within the time limit"
    return f"{type(inner).__name__}: {inner}" if str(inner) else type(inner).__name__


def _is_nobody(error: BaseException) -> bool:
    """Whether another try would find the address as it is: nobody serves there."""
    inner = _cause(error)
    if isinstance(inner, socket.gaierror):
        return inner.errno != socket.EAI_AGAIN
    if isinstance(inner, ssl.SSLError) and _is_no_tls(inner):
        return True
    return isinstance(inner, ConnectionRefusedError | ssl.SSLCertVerificationError)


def _is_no_tls(error: ssl.SSLError) -> bool:
    """Whether what answers speaks no TLS, in the words of one OpenSSL or another."""
    said = f"{getattr(error, 'reason', '')} {error}".lower().replace("_", " ")
    words = ("wrong version number", "record layer failure", "http request")
    return any(word in said for word in words)


def _retry_after_s(value: str | None) -> float | None:
    """Seconds of a Retry-After header: a number, or a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(
            0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        )
    except (TypeError, ValueError):
        return None
