"""Whole loads against small servers: how they go, how they end, and what is left of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.bench import load as load_module
from stoker.bench import load_failures
from stoker.bench.load import run_load
from stoker.bench.load_values import Live, Patience, Ran
from stoker.bench.requests import CHAT_PATH, Answer, Planned
from stoker.errors import EndpointError
from stoker.model.benchmark import Arrival, Load
from tests.bench.servers import (
    HASTY,
    OK,
    Script,
    answering,
    body,
    chunked,
    event,
    identity,
    plans,
    read_request,
    serving,
    status,
    target,
)
from tests.endpoints.certificates import make_certificate, needs_openssl

pytestmark = pytest.mark.timeout(60)


def closed(concurrency: int = 2, **fields: Any) -> Load:
    return Load(concurrency=concurrency, **fields)


def at_rate(rate: float, **fields: Any) -> Load:
    return Load(
        **{"arrival": Arrival.CONSTANT, "concurrency": 0, "rate_per_second": rate, **fields}
    )


def send(script: Script, load: Load, *, patience: Patience = HASTY, **options: Any) -> Ran:
    with serving(script) as port:
        return run_load(
            target(port, key=options.pop("key", "")),
            load,
            options.pop("plans", None) or plans(),
            patience=patience,
            **options,
        )


def moments(rate: float = 100.0) -> Iterator[float]:
    return (number / rate for number in itertools.count())


def errors(ran: Ran) -> Counter[str]:
    return Counter(sample.error for sample in ran.samples if sample.error)


class Seen:
    """What a server was asked, and how many it had at the same time at most."""

    def __init__(self, reply: bytes = b"", *, seconds: float = 0.0) -> None:
        self.requests: list[bytes] = []
        self.connections = self.busy = self.most = 0
        self.seconds = seconds
        self.reply = reply or chunked(body())
        self._lock = threading.Lock()

    def __call__(self, connection: socket.socket) -> None:
        self.connections += 1
        while request := read_request(connection):
            with self._lock:
                self.requests.append(request)
                self.busy += 1
                self.most = max(self.most, self.busy)
            time.sleep(self.seconds)
            with self._lock:
                self.busy -= 1
            connection.sendall(self.reply)


# --- what is sent ---


def test_a_closed_loop_sends_so_many_and_no_more() -> None:
    seen = Seen(seconds=0.005)
    ran = send(seen, closed(3, requests=10))
    assert [sample.number for sample in ran.samples] == list(range(10))
    assert not errors(ran)
    assert len(seen.requests) == 10
    assert (seen.connections, seen.most) == (3, 3)
    assert all(sample.tokens.output == 3 for sample in ran.samples)
    assert (ran.said, ran.was_interrupted, ran.has_given_up) == ("", False, False)


def test_a_closed_loop_ends_with_its_time_and_what_is_under_way_may_end() -> None:
    ran = send(Seen(seconds=0.05), closed(2, seconds=0.3))
    assert ran.samples
    assert not errors(ran)
    assert all(sample.sent_seconds <= ran.stopped_seconds for sample in ran.samples)
    assert ran.ended_seconds >= ran.stopped_seconds >= 0.3


def test_plans_that_run_out_end_a_load() -> None:
    ran = send(Seen(), closed(4, seconds=30.0), plans=itertools.islice(plans(), 6))
    assert len(ran.samples) == 6


def test_an_open_loop_does_not_wait_for_answers() -> None:
    seen = Seen(seconds=0.2)
    ran = send(seen, at_rate(100, requests=12), moments=moments())
    assert len(ran.samples) == 12
    assert not errors(ran)
    assert seen.most > 6
    assert [round(sample.due_seconds, 6) for sample in ran.samples] == [
        round(number / 100, 6) for number in range(12)
    ]


def test_an_open_loop_ends_with_its_time() -> None:
    ran = send(Seen(), at_rate(100, seconds=0.3), moments=moments())
    assert 0 < len(ran.samples) <= 31
    assert not errors(ran)


@pytest.mark.parametrize("is_bounded", [True, False])
def test_a_bounded_open_loop_sends_all_however_late(is_bounded: bool) -> None:
    seen = Seen(seconds=0.05)
    load = at_rate(1000, concurrency=2, requests=9 if is_bounded else 0)
    due = moments(1000) if is_bounded else itertools.islice(moments(1000), 9)
    ran = send(seen, load, moments=due)
    assert sorted(sample.number for sample in ran.samples) == list(range(9))
    assert not errors(ran)
    assert (seen.most, len(seen.requests)) == (2, 9)
    assert max(each.sent_seconds - each.due_seconds for each in ran.samples) > 0.1


def test_a_replay_sends_at_the_moments_of_its_trace() -> None:
    due = [0.0, 0.0, 0.05, 0.2]
    ran = send(Seen(), Load(arrival=Arrival.REPLAY, concurrency=0), moments=iter(due))
    assert [round(sample.due_seconds, 6) for sample in ran.samples] == due
    assert all(sample.sent_seconds >= sample.due_seconds for sample in ran.samples)


def test_a_conversation_goes_on_from_the_answer() -> None:
    asked: list[str] = []

    def follow(answer: Answer) -> Planned | None:
        asked.append(answer.text)
        is_last = len(asked) % 3 == 2
        return Planned(path=CHAT_PATH, body=b"{}", session=1, follow=None if is_last else follow)

    first = [Planned(path=CHAT_PATH, body=b"{}", session=1, follow=follow) for _ in range(1)]
    ran = send(Seen(), closed(1, requests=3), plans=iter(first))
    assert asked == ["t0t1t2", "t0t1t2"]
    assert len(ran.samples) == 3


def test_what_a_request_looks_like() -> None:
    seen = Seen()
    send(seen, closed(1, requests=1), key="sk-1234")
    head, _, content = seen.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert "Authorization: Bearer sk-1234" in lines
    assert f"Content-Length: {len(content)}" in lines
    assert content == next(plans()).body


def test_it_is_told_how_far_a_load_is() -> None:
    told: list[Live] = []
    send(Seen(seconds=0.02), closed(2, seconds=1.2), watch=told.append)
    assert told
    assert told[-1].ended > 0
    assert all(live.busy <= 2 and live.failed == 0 for live in told)


# --- connections ---


@pytest.mark.parametrize("closes", [True, False])
def test_connections_that_the_server_closes_between_requests_cost_no_request(closes: bool) -> None:
    script = answering(identity(body()), closes=closes)
    ran = send(script, closed(3, requests=12))
    assert len(ran.samples) == 12
    assert not errors(ran)


def test_a_server_of_http_1_0() -> None:
    head = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    ran = send(answering(head + body(), closes=True), closed(2, requests=6))
    assert len(ran.samples) == 6
    assert not errors(ran)


def test_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("there is no IPv6 here")
    try:
        with serving(Seen(), host="::1", family=socket.AF_INET6) as port:
            ran = run_load(target(port, address="::1"), closed(2, requests=4), plans())
    except OSError:
        pytest.skip("there is no IPv6 here")
    assert len(ran.samples) == 4
    assert not errors(ran)


@needs_openssl
def test_tls(tmp_path: Path) -> None:
    import ssl
    from dataclasses import replace

    certificate, key = make_certificate(tmp_path, "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def script(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as inner:
            answering(chunked(body()))(inner)

    with serving(script) as port:
        trusting = ssl.create_default_context(cafile=str(certificate))
        there = replace(target(port), tls=trusting, server_name="127.0.0.1")
        ran = run_load(there, closed(2, requests=6), plans())
        assert not errors(ran)
        strict = replace(there, tls=ssl.create_default_context())
        with pytest.raises(EndpointError, match="certificate is not trusted"):
            run_load(strict, closed(2, requests=6), plans())


@pytest.mark.parametrize("concurrency", [1, 3000])
def test_nobody_listens(concurrency: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(EndpointError) as caught:
        run_load(target(port), closed(concurrency, requests=5), plans())
    assert caught.value.summary == (
        f"0 of {concurrency} connections to 127.0.0.1:{port} were made, then: Connection refused"
    )
    assert caught.value.hint


def test_too_few_files_may_be_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))

    def run() -> Ran:
        return run_load(target(port), closed(200, requests=400), plans())

    with serving(Seen()) as port:
        # The hard limit stays as it is: only root could raise it again.
        limit = in_use + 40
        with contextlib.ExitStack() as after, pytest.MonkeyPatch.context() as patch:
            after.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
            patch.setattr(load_module, "allow_many_files", lambda: None)
            with pytest.raises(EndpointError) as caught:
                run()
    assert "of 200 connections" in caught.value.summary
    assert "Too many open files" in caught.value.summary
    assert "ulimit -n" in caught.value.hint


# --- servers that fail ---


def test_a_server_that_dies_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_failures, "_GIVE_UP_SECONDS", 0.5)
    left = iter(range(10))

    def script(connection: socket.socket) -> None:
        while read_request(connection):
            if next(left, None) is None:
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                    listener.close()
                return
            connection.sendall(chunked(body()))

    from tests.bench import servers

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=servers._accept, args=(listener, script), daemon=True).start()
        ran = run_load(target(port), closed(4, seconds=60.0), plans(), patience=HASTY)
    assert sum(sample.is_good for sample in ran.samples) == 10
    assert ran.has_given_up
    assert "ended early: nothing but errors" in ran.said
    assert "Connection refused" in ran.said
    assert ran.ended_seconds < 30


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (status("401 No", b'{"error": {"message": "no sk-1234"}}'), "HTTP status 401: no [hidden]"),
        (status("404 No", b'{"message": "no model m"}'), "HTTP status 404: no model m"),
        (status("500 No", b"<html>"), "HTTP status 500: a web page"),
        (identity(b"<html>"), "the answer is no stream of events but a web page"),
        (identity(event({"content": "a"})), "the stream ended before the answer did"),
    ],
)
def test_a_server_that_never_answers_is_left_soon(reply: bytes, error: str) -> None:
    seen = Seen(reply)
    ran = send(seen, closed(4, seconds=60.0), key="sk-1234")
    assert ran.has_given_up
    assert set(errors(ran)) == {error}
    assert error in ran.said
    assert len(seen.requests) < 20


def test_a_limit_is_not_hammered() -> None:
    answers = itertools.count()
    seen = Seen()

    def script(connection: socket.socket) -> None:
        while read_request(connection):
            is_first = next(answers) == 0
            seen.requests.append(b"")
            slow = status("429 Slow", b'{"error": "too many"}', "Retry-After: 1")
            connection.sendall(chunked(body()) if is_first else slow)

    ran = send(script, closed(2, seconds=1.6))
    assert errors(ran)["HTTP status 429: too many"] == len(ran.samples) - 1
    assert ran.wait_seconds == 1
    # Each place at most: at once, and once a second.
    assert len(seen.requests) <= 1 + 2 * 3
    assert ran.stopped_seconds < 5


def test_a_server_that_wants_to_be_left_alone_is() -> None:
    seen = Seen(status("429 Slow", b"", "Retry-After: 3600"))
    ran = send(seen, closed(2, requests=100))
    assert ran.has_given_up
    assert "the server asked to wait 3600 s" in ran.said
    assert len(seen.requests) <= 2


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2026 07:28:00 GMT", "-1", "9" * 50, "soon"])
def test_what_is_no_wait_in_seconds_is_a_moment(value: str) -> None:
    ran = send(answering(status("503 No", b"", f"Retry-After: {value}")), closed(2, requests=8))
    assert ran.wait_seconds == 0
    assert ran.samples


def test_an_open_loop_goes_on_among_failures() -> None:
    replies = itertools.cycle([chunked(body()), status("500 No")])

    def script(connection: socket.socket) -> None:
        while read_request(connection):
            connection.sendall(next(replies))

    ran = send(script, at_rate(100, requests=20), moments=moments())
    assert len(ran.samples) == 20
    assert 5 < sum(sample.is_good for sample in ran.samples) < 15


def test_a_single_failure_does_not_end_a_load() -> None:
    replies = itertools.chain([b"nonsense\r\n\r\n"], itertools.repeat(chunked(body())))

    def script(connection: socket.socket) -> None:
        while read_request(connection):
            connection.sendall(next(replies))

    ran = send(script, closed(2, requests=12))
    assert len(ran.samples) == 12
    assert sum(errors(ran).values()) == 1


def _endless(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    piece = event({"content": "a"})
    while True:
        connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        time.sleep(0.01)


def test_streams_without_end_are_cut_off_when_the_load_is_over() -> None:
    patience = Patience(drain_seconds=0.2)
    ran = send(_endless, closed(2, seconds=0.3), patience=patience)
    assert errors(ran) == {"it had not ended when the load was over": 2}
    assert all(sample.first_seconds is not None for sample in ran.samples)
    assert len(ran.samples[0].gaps_us) > 3
    assert ran.ended_seconds < 5


def test_a_request_has_a_deadline() -> None:
    patience = Patience(request_seconds=0.3, drain_seconds=5)
    ran = send(_endless, closed(2, requests=2), patience=patience)
    assert errors(ran) == {"no whole answer within 0.3 s": 2}


def test_silence_has_a_deadline() -> None:
    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.recv(1)

    ran = send(script, closed(2, requests=2), patience=Patience(request_seconds=0.3))
    assert errors(ran) == {"no whole answer within 0.3 s": 2}


# --- Ctrl-C and a client that stands still ---


def signalling(number: int, replies: Iterator[bytes]) -> Script:
    """A server that sends this very process a signal with the sixth request."""
    left = iter(range(5))

    def script(connection: socket.socket) -> None:
        while read_request(connection):
            if next(left, None) is None:
                os.kill(os.getpid(), number)
                return
            connection.sendall(next(replies))

    return script


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("arrival", [Arrival.CLOSED, Arrival.CONSTANT])
def test_a_signal_keeps_what_was_measured(number: int, arrival: Arrival) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    load = closed(2, seconds=60) if arrival is Arrival.CLOSED else at_rate(50, seconds=60)
    ran = send(signalling(number, itertools.repeat(chunked(body()))), load, moments=moments(50))
    assert ran.was_interrupted
    assert sum(sample.is_good for sample in ran.samples) >= 3
    assert ran.ended_seconds < 30
    after = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == before


def test_a_signal_ends_a_pause() -> None:
    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(status("429 No", b"", "Retry-After: 50"))
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    ran = send(script, closed(1, seconds=60))
    assert ran.was_interrupted
    assert len(ran.samples) == 1
    assert ran.ended_seconds < 30


def test_standing_still_is_seen_at_each_moment() -> None:
    def stand_still(live: Live) -> None:
        if live.seconds < 0.8:
            time.sleep(0.5)

    ran = send(Seen(seconds=0.01), closed(2, seconds=1.4), watch=stand_still)
    late = sorted(ran.lags_seconds)
    assert late[-1] > 0.4
    assert late[int(len(late) * 0.9)] > 0.1
