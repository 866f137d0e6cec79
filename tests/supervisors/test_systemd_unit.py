"""Units as they are rendered, and what systemd itself reads in them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stoker.errors import SupervisorError
from stoker.model.launch import Service
from stoker.supervisors.systemd_unit import (
    HEADER,
    USER_LAYERS,
    SystemdLayout,
    is_own,
    is_wanted,
    load_hardening,
    parse_digest,
    render_unit,
    service_name,
    unit_name,
    user_layout,
)
from tests.supervisors.worlds import SystemdWorld, define, make_service

LAYOUT = SystemdLayout(home="/var/lib/stoker", logs="/var/lib/stoker/logs", is_root=True)
USER_LAYOUT = user_layout("/home/a/state", logs="/home/a/logs", config="/home/a/c", user_id=1000)

#: Most exposed that a unit of the system may be, of ten (systemd-analyze(1), security).
MOST_EXPOSED = 5.0


def is_text(text: str) -> bool:
    """Whether systemd takes it for text at all."""
    marks = (ord(mark) for mark in text)
    return not any(
        mark == 0 or 0xD800 <= mark < 0xE000 or 0xFDD0 <= mark < 0xFDF0 or mark & 0xFFFE == 0xFFFE
        for mark in marks
    )


def is_line(path: str) -> bool:
    """Whether a unit can hold a path that has no quotation marks around it."""
    return path == path.strip() and not path.endswith("\\")


def is_program(path: str) -> bool:
    """Whether systemd starts a program of this name."""
    return not {"'", '"', "\\"} & {*path}


#: What systemd reads as something else in one place or another, beside any text at all.
PIECES = ["$HOME", "${HOME}", "$$", "%h", "%%", "\\", '"', "'", ";", "#", " ", "\t", "\n", "\r"]
PREFIXES = ["-", "@", "+", "!", ":", "|", "~", "\\;", "\x01", "\x7f", "\x85", "\u2028", "é", "🔥"]
ANY_TEXT = st.lists(st.sampled_from(PIECES + PREFIXES) | st.text(max_size=3), max_size=6).map(
    "".join
)
TEXT = ANY_TEXT.filter(is_text)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
FOLDERS = st.lists(
    st.text(
        st.sampled_from("aé🔥 %$\"'\\;#=:") | st.characters(categories=["L", "N", "P", "S"]),
        min_size=1,
        max_size=8,
    ).filter(lambda part: part not in (".", "..") and "/" not in part),
    min_size=1,
    max_size=3,
).map(lambda parts: "/" + "/".join(parts))


SERVICES = st.fixed_dictionaries(
    {
        "argv": st.tuples(FOLDERS.filter(is_program)).flatmap(
            lambda program: st.lists(TEXT, max_size=4).map(lambda words: (*program, *words))
        ),
        "env": st.dictionaries(NAMES, TEXT, max_size=4),
        "directory": FOLDERS.filter(is_line),
    }
)


def service_with(**changes: Any) -> Service:
    fields = {"name": "one", "log_path": LAYOUT.log("one"), **changes}
    return make_service(fields.pop("name"), **fields)


def rendered(service: Service, layout: SystemdLayout = LAYOUT, *, uses_gpu: bool = True) -> str:
    (image,) = render_unit(service, layout, uses_gpu=uses_gpu).values()
    assert image.content is not None
    return image.content


def stamped(service: Service, *, home: str) -> dict[str, str]:
    return {
        **service.env,
        "STOKER_DIGEST": service.digest,
        "STOKER_DEPLOYMENT": service.name,
        "STOKER_HOME": home,
    }


class TestReading:
    """What systemd has in memory once it has read a unit of ours."""

    @settings(
        max_examples=12,
        # Examples are lists of services, which share the time that systemd takes; to make them
        # smaller after a failure would take minutes.
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    @given(services=st.lists(SERVICES, min_size=3, max_size=8))
    def test_everything_arrives_as_it_is(
        self, systemd_world: SystemdWorld, services: list[dict[str, Any]]
    ) -> None:
        made = [service_with(name=f"n{index}", **each) for index, each in enumerate(services)]
        for service in made:
            define(systemd_world, service)
        systemd_world.supervisor.reload()
        for service in made:
            read = systemd_world.read_service(unit_name(service.name))
            ((program, argv, *_),) = read["ExecStart"]
            variables = dict(pair.split("=", 1) for pair in read["Environment"])
            assert (program, argv) == (service.argv[0], list(service.argv))
            assert variables == stamped(service, home=systemd_world.home)
            assert read["WorkingDirectory"] == service.directory

    def test_nothing_is_complained_about(self, systemd_world: SystemdWorld) -> None:
        """Every directive of the sandbox is known to this systemd, and every value is right."""
        service = service_with(user="nobody" if systemd_world.layout.is_root else None)
        (path,) = systemd_world.supervisor.render(service)
        for uses_gpu in (True, False):
            Path(path).write_text(rendered(service, systemd_world.layout, uses_gpu=uses_gpu))
            scope = "--user" if systemd_world.layout.layers == USER_LAYERS else "--system"
            command = ["systemd-analyze", scope, "--man=no", "verify", path]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            about = [line for line in done.stderr.splitlines() if path in line]
            assert [line for line in about if "Special user nobody" not in line] == []


class TestRendering:
    @settings(max_examples=300, deadline=None)
    @given(argument=ANY_TEXT, value=ANY_TEXT, folder=ANY_TEXT)
    def test_no_value_becomes_a_line_of_its_own(
        self, argument: str, value: str, folder: str
    ) -> None:
        plain = rendered(service_with(argv=("/bin/x",), env={"A": "a"}))
        service = service_with(argv=("/bin/x", argument), env={"A": value}, directory=f"/{folder}")
        try:
            text = rendered(service)
        except SupervisorError:
            return
        keys = [line.partition("=")[0] for line in text.split("\n")]
        assert keys == [line.partition("=")[0] for line in plain.split("\n")]
        assert not [line for line in text.split("\n") if line.endswith("\\")]

    @pytest.mark.parametrize("bad", ["a\0b", "\ud800", "\ufdd0", "\U0001ffff"])
    @pytest.mark.parametrize("place", ["argv", "env", "directory", "log_path", "user"])
    def test_what_cannot_be_said_is_refused(self, bad: str, place: str) -> None:
        values: dict[str, Any] = {
            "argv": ("/bin/x", bad),
            "env": {"A": bad},
            "directory": f"/{bad}",
            "log_path": f"/{bad}",
            "user": bad,
        }
        with pytest.raises(SupervisorError, match="cannot hold"):
            rendered(service_with(**{place: values[place]}))

    @pytest.mark.parametrize(
        "changes",
        [
            {"argv": ()},
            {"argv": ("",)},
            {"argv": ("serve",)},
            {"argv": ("/opt/bin/",)},
            {"argv": ("/opt/it's/serve",)},
            {"argv": ("/opt/\\/serve",)},
            {"env": {"A B": "1"}},
            {"env": {"A=1": "1"}},
            {"name": "one.service\n[Service]"},
            {"name": "../one"},
            {"name": "one@two"},
            {"digest": "a\nb"},
            {"digest": ""},
            {"directory": ""},
            {"directory": "srv"},
            {"directory": "/srv\nUser=root"},
            {"directory": "/srv "},
            {"directory": "/srv\\"},
            {"log_path": "/log\n"},
            {"user": "a b"},
            {"user": "%u"},
            {"restart": "sometimes"},
        ],
    )
    def test_what_is_no_service_is_refused(self, changes: dict[str, Any]) -> None:
        with pytest.raises(SupervisorError):
            rendered(service_with(**changes))

    def test_what_is_asked_for_stands_there(self) -> None:
        service = service_with(user="model", restart="always", stop_timeout_seconds=77)
        lines = rendered(service).splitlines()
        assert lines[0] == HEADER
        assert {
            "User=model",
            "Restart=always",
            "TimeoutStopSec=77",
            "KillMode=control-group",
            "LimitMEMLOCK=infinity",
            f"StandardOutput=append:{LAYOUT.log('one')}",
            "WantedBy=multi-user.target",
        } <= set(lines)

    def test_a_service_that_does_not_start_at_boot_is_wanted_by_nothing(self) -> None:
        text = rendered(service_with(on_boot=False))
        assert not is_wanted(text)
        assert "[Install]" not in text
        assert is_wanted(rendered(service_with()))

    def test_a_user_has_another_target_and_only_the_sandbox_that_needs_no_privilege(self) -> None:
        text = rendered(service_with(user="model"), USER_LAYOUT)
        assert "WantedBy=default.target" in text
        for word in ("User=", "ProtectSystem=", "CapabilityBoundingSet=", "DevicePolicy="):
            assert f"\n{word}" not in text
        assert "\nNoNewPrivileges=yes\n" in text


class TestOwnership:
    def test_a_unit_of_this_state_folder_is_ours(self) -> None:
        text = rendered(service_with(digest="0123"))
        assert is_own(text, home=LAYOUT.home)
        assert parse_digest(text) == "0123"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[Service]\nExecStart=/bin/true\n",
            rendered(service_with()).removeprefix(HEADER),
            rendered(service_with(), USER_LAYOUT),
            rendered(
                service_with(env={"A": f"\nEnvironment=STOKER_HOME={LAYOUT.home}"}), USER_LAYOUT
            ),
        ],
    )
    def test_any_other_is_not(self, text: str) -> None:
        assert not is_own(text, home=LAYOUT.home)

    @pytest.mark.parametrize("name", ["one", "a-b.c_D9", "0"])
    def test_names_come_back(self, name: str) -> None:
        assert service_name(unit_name(name)) == name

    @pytest.mark.parametrize(
        "unit", ["ssh.service", "stoker-.service", "stoker-a.socket", "stoker-a@b.service"]
    )
    def test_other_units_have_none(self, unit: str) -> None:
        assert service_name(unit) is None


class TestHardening:
    def test_every_line_has_its_reason_and_source(self) -> None:
        rows = load_hardening()
        assert rows
        for row in rows:
            assert re.fullmatch(r"[A-Z][A-Za-z]+", row.directive)
            assert row.value
            assert row.layer in LAYOUT.layers
            assert row.gpu in ("both", "gpu", "cpu")
            assert row.reason
            assert row.source

    def test_engines_may_compile_and_reach_their_gpus(self) -> None:
        text = rendered(service_with())
        assert "MemoryDenyWriteExecute" not in text
        assert "PrivateDevices" not in text
        assert "DeviceAllow=char-nvidia* rw" in text
        assert "PrivateDevices=yes" in rendered(service_with(), uses_gpu=False)

    @pytest.mark.parametrize("uses_gpu", [True, False])
    def test_little_is_exposed(self, tmp_path: Path, uses_gpu: bool) -> None:
        analyze = shutil.which("systemd-analyze")
        if analyze is None:
            pytest.skip("there is no systemd-analyze here; it is in the lab's containers")
        path = tmp_path / unit_name("one")
        path.write_text(rendered(service_with(user="model"), uses_gpu=uses_gpu))
        done = subprocess.run(
            [analyze, "security", "--offline=true", "--no-pager", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
        assert found, done.stderr
        assert float(found[1]) <= MOST_EXPOSED, done.stdout


def test_the_adapter_is_quick_to_import() -> None:
    """Most commands never speak to systemd."""
    code = (
        "import sys, stoker.supervisors.systemd; print({'asyncio', 'dbus_fast'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
