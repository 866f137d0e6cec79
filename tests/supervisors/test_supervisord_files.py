"""What supervisord reads back from the files that we render is what the service says."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.errors import SupervisorError
from stoker.model.launch import Service, Timing
from stoker.supervisors.supervisord_files import (
    SupervisordLayout,
    parse_stop_seconds,
    render_daemon,
    render_program,
    socket_path_for,
)
from tests.supervisors.worlds import make_service

#: What each of the three readers might take for its own.
NASTY = (
    " ;", "\t#", "\u00a0;", ";", "#", "%", "%%", "%(here)s", "%%(here)s", "%(program_name)s", "%s",
    "%(ENV_PATH)s", "'", '"', "\\", "\\'", "=", ",", " ", "[program:x]", "${HOME}", "`id`", "~",
    "\u2028", "\x85", "\x0b", "\x1c", "\u00e9", "\U0001f525", "A=1,B=2", '{"a": [1, "b"]}',
)  # fmt: skip
TEXT = st.lists(
    st.sampled_from(NASTY)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), max_size=8),
    max_size=5,
).map("".join)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
ANY_TEXT = st.lists(st.sampled_from((*NASTY, "\n", "\r", "\0", "\ud800")) | st.text(), max_size=5)

Read = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> SupervisordLayout:
    home = tmp_path_factory.mktemp("a state; with % and 'marks'")
    for folder in ("supervisor", "supervisor/programs", "logs"):
        (home / folder).mkdir()
    return SupervisordLayout(
        home=str(home),
        folder=f"{home}/supervisor",
        daemon="/opt/supervisor/bin/supervisord",
        logs=f"{home}/logs",
        is_root=True,
        socket_path=f"{home}/supervisor/s.sock",
    )


@pytest.fixture(scope="module")
def read(supervisord_folder: Path, layout: SupervisordLayout) -> Iterator[Read]:
    """Render services, and let supervisord's own reader say what it makes of them."""
    script = Path(__file__).with_name("reader.py")
    reader = subprocess.Popen(
        [str(supervisord_folder / "python"), "-I", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )

    def ask(*services: Service) -> dict[str, Any]:
        for old in Path(layout.programs).iterdir():
            old.unlink()
        files = render_daemon(layout)
        for service in services:
            files |= render_program(service, layout)
        for path, image in files.items():
            assert image.content is not None
            Path(path).write_bytes(image.content.encode())
        assert reader.stdin is not None
        assert reader.stdout is not None
        print(json.dumps(layout.configuration), file=reader.stdin, flush=True)
        answer: dict[str, Any] = json.loads(reader.stdout.readline())
        return answer

    with reader:
        yield ask
        reader.kill()


def service_with(layout: SupervisordLayout, *, name: str = "one", **changes: Any) -> Service:
    return make_service(name, **{"log_path": layout.log(name), **changes})


def received(program: dict[str, Any], service: Service) -> tuple[list[str], dict[str, str]]:
    """What the service's program gets: env(1), where it is used, sets variables and is gone."""
    argv, env = list(program["argv"]), dict(program["env"])
    if len(argv) > len(service.argv):
        assert argv.pop(0) == "/usr/bin/env"
    while len(argv) > len(service.argv):
        name, _, value = argv.pop(0).partition("=")
        env[name] = value
    return argv, env


def stamped(service: Service, layout: SupervisordLayout) -> dict[str, str]:
    return {
        **service.env,
        "STOKER_DIGEST": service.digest,
        "STOKER_DEPLOYMENT": service.name,
        "STOKER_HOME": layout.home,
    }


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    arguments=st.lists(TEXT, max_size=4),
    env=st.dictionaries(NAMES, TEXT, max_size=4),
)
def test_commands_and_variables_arrive_as_they_are(
    read: Read, layout: SupervisordLayout, arguments: list[str], env: dict[str, str]
) -> None:
    service = service_with(layout, argv=("/opt/an engine/bin/serve", *arguments), env=env)
    (program,) = read(service)["programs"]
    assert received(program, service) == (list(service.argv), stamped(service, layout))


@settings(max_examples=300, deadline=None)
@given(argument=ANY_TEXT.map("".join), value=ANY_TEXT.map("".join))
def test_no_value_becomes_a_line_of_its_own(
    layout: SupervisordLayout, argument: str, value: str
) -> None:
    plain = rendered(service_with(layout, argv=("/bin/x",), env={"A": "a"}), layout)
    service = service_with(layout, argv=("/bin/x", argument), env={"A": value})
    try:
        text = rendered(service, layout)
    except SupervisorError:
        assert {"\n", "\r", "\0"} & {*argument, *value} or not is_utf8(argument + value)
        return
    keys = [line.partition("=")[0] for line in text.split("\n")]
    assert keys == [line.partition("=")[0] for line in plain.split("\n")]


@pytest.mark.parametrize("bad", ["a\nuser=root", "a\rb", "a\0b", "\ud800"])
@pytest.mark.parametrize("place", ["argv", "env", "directory", "log_path", "user"])
def test_what_cannot_be_said_is_refused(layout: SupervisordLayout, bad: str, place: str) -> None:
    values: dict[str, Any] = {
        "argv": ("/bin/x", bad),
        "env": {"A": bad},
        "directory": f"/{bad}",
        "log_path": f"/{bad}",
        "user": bad,
    }
    with pytest.raises(SupervisorError, match="cannot hold"):
        render_program(service_with(layout, **{place: values[place]}), layout)


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"env": {"A B": "1"}},
        {"env": {"A=1,B": "1"}},
        {"name": "one]\n[program:two"},
        {"name": "../one"},
        {"name": "group:one"},
        {"directory": ""},
        {"directory": "/srv/a ;b"},
        {"log_path": "/srv/%(here)s"},
        {"restart": "sometimes"},
        {"argv": ("a=b",), "env": {"A": 'it\'s "so"'}},
    ],
    ids=str,
)
def test_a_service_that_makes_no_sense_is_refused(
    layout: SupervisordLayout, changes: dict[str, Any]
) -> None:
    with pytest.raises(SupervisorError):
        render_program(service_with(layout, **changes), layout)


def test_a_refusal_does_not_tell_the_value(layout: SupervisordLayout) -> None:
    service = service_with(layout, env={"TOKEN": "hush\nhush"})
    with pytest.raises(SupervisorError) as caught:
        render_program(service, layout)
    assert "TOKEN" in caught.value.summary
    assert "hush" not in caught.value.summary


def test_options_are_read_as_they_are_meant(read: Read, layout: SupervisordLayout) -> None:
    service = service_with(
        layout,
        directory="/srv/a % b",
        user="root",
        timing=Timing(stop_seconds=42),
        argv=("/bin/x",),
    )
    answer = read(service)
    assert answer["warnings"] == []
    (program,) = answer["programs"]
    assert (
        program.items()
        >= {
            "name": "one",
            "argv": ["/bin/x"],
            "directory": "/srv/a % b",
            "uid": 0,
            "umask": 0o022,
            "autostart": False,
            "autorestart": "RestartWhenExitUnexpected",
            "startsecs": 1,
            "startretries": 3,
            "stopsignal": 15,
            "stopwaitsecs": 42,
            "stopasgroup": True,
            "killasgroup": True,
            "redirect_stderr": True,
            "log": layout.log("one"),
            "log_bytes": 50 * 1024 * 1024,
            "log_backups": 3,
        }.items()
    )
    assert program["exitcodes"] == [0, 2, 126, 127]


@pytest.mark.parametrize(
    ("restart", "expected"),
    [
        ("on-failure", "RestartWhenExitUnexpected"),
        ("always", "RestartUnconditionally"),
        ("never", False),
    ],
)
def test_restart_policies(
    read: Read, layout: SupervisordLayout, restart: str, expected: object
) -> None:
    (program,) = read(service_with(layout, restart=restart, on_boot=True))["programs"]
    assert (program["autorestart"], program["autostart"]) == (expected, False)


def test_the_user_is_left_out_where_it_cannot_be_changed(layout: SupervisordLayout) -> None:
    service = service_with(layout, user="nobody")
    unprivileged = dataclasses.replace(layout, is_root=False)
    assert "user=nobody" in rendered(service, layout)
    assert "user=" not in rendered(service, unprivileged)
    assert "user=" not in rendered(service_with(layout, user=None), layout)


def test_the_daemon_listens_at_one_private_socket(read: Read, layout: SupervisordLayout) -> None:
    daemon = read()["daemon"]
    assert daemon["servers"] == [
        {"family": socket.AF_UNIX, "file": layout.socket_path, "chmod": 0o700}
    ]
    assert daemon["pidfile"] == layout.pid_file
    assert Path(daemon["logfile"]).parent == Path(layout.folder)
    assert (daemon["user"], daemon["umask"], daemon["directory"]) == ("root", 0o022, "/")


def test_many_programs_are_read_together(read: Read, layout: SupervisordLayout) -> None:
    services = [service_with(layout, name=name, digest=name) for name in ("one", "two", "three")]
    programs = {program["name"]: program for program in read(*services)["programs"]}
    assert {name: program["env"]["STOKER_DIGEST"] for name, program in programs.items()} == {
        name: name for name in ("one", "two", "three")
    }


def test_files_are_for_their_owner_alone(layout: SupervisordLayout) -> None:
    files = render_daemon(layout) | render_program(service_with(layout), layout)
    assert {image.mode for image in files.values()} == {0o600}


@pytest.mark.parametrize("folder", ["/srv/[a]", "/srv/*", "/srv/a ;b", "/srv/a\nb", "/srv/a "])
def test_a_folder_that_cannot_be_said_is_refused(layout: SupervisordLayout, folder: str) -> None:
    with pytest.raises(SupervisorError):
        render_daemon(dataclasses.replace(layout, folder=folder))


@pytest.mark.parametrize("seconds", [0, 1, 600])
def test_the_stop_timeout_is_found_again(layout: SupervisordLayout, seconds: int) -> None:
    service = service_with(layout, timing=Timing(stop_seconds=seconds), env={"A": "stopwaitsecs=7"})
    assert parse_stop_seconds(rendered(service, layout)) == seconds
    assert parse_stop_seconds("") is None


class TestSocketPath:
    def test_it_lies_in_the_state_folder(self) -> None:
        path = socket_path_for("/var/lib/stoker", runtime_folder="/run/stoker")
        assert path == "/var/lib/stoker/supervisor/s.sock"

    def test_a_long_state_folder_gets_a_short_path_of_its_own(self) -> None:
        one, two = (
            socket_path_for(f"/srv/{'a' * 90}/{name}", runtime_folder="/run/stoker")
            for name in ("one", "two")
        )
        assert one != two
        assert one.startswith("/run/stoker/stoker-")

    def test_nothing_fits_in_a_long_folder(self) -> None:
        with pytest.raises(SupervisorError):
            socket_path_for(f"/srv/{'a' * 90}", runtime_folder=f"/run/{'a' * 90}")

    @given(st.integers(min_value=0, max_value=120))
    def test_it_can_be_bound_as_supervisord_does(self, length: int) -> None:
        path = socket_path_for(f"/{'é' * (length // 2)}", runtime_folder="/run/stoker")
        assert len(f"{path}.4194304".encode()) <= 107


def rendered(service: Service, layout: SupervisordLayout) -> str:
    (image,) = render_program(service, layout).values()
    assert image.content is not None
    return image.content


def is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
