"""Units as they are rendered, and what systemd itself reads in them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stoker.errors import SupervisorError
from stoker.model.launch import Service, Timing
from stoker.supervisors.systemd_unit import (
    HEADER,
    SYSTEM_LAYERS,
    USER_LAYERS,
    SystemdLayout,
    is_own,
    is_too_old,
    is_untouched,
    is_wanted,
    load_hardening,
    parse_digest,
    parse_folder,
    parse_layers,
    render_unit,
    sandbox_properties,
    service_name,
    unit_name,
    user_layout,
)
from tests.conftest import PROJECT
from tests.supervisors.worlds import SystemdWorld, define, make_service

#: Of a service that says by itself when it is ready and that it lives.
GUARDED = Timing(stop_seconds=90, start_seconds=700, watchdog_seconds=400)

LAYOUT = SystemdLayout(home="/var/lib/stoker", logs="/var/lib/stoker/logs", is_root=True)
USER_LAYOUT = user_layout("/home/a/state", logs="/home/a/logs", config="/home/a/c", user_id=1000)

HARDENING = PROJECT / "src/stoker/supervisors/systemd_hardening.toml"

#: Most exposed that a unit of the system may be, of ten (systemd-analyze(1), security).
MOST_EXPOSED = 5.0
#: The same of a user's manager, which lacks the privileges for mounts, capabilities and devices:
#: of the four points between the two, none can be had without them.
MOST_EXPOSED_OF_A_USER = 6.6


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


def rendered(service: Service, layout: SystemdLayout = LAYOUT) -> str:
    (image,) = render_unit(service, layout).values()
    assert image.content is not None
    return image.content


def stamped(service: Service, *, home: str) -> dict[str, str]:
    return {
        **service.env,
        "STOKER_DIGEST": service.digest,
        "STOKER_DEPLOYMENT": service.name,
        "STOKER_HOME": home,
    }


@pytest.mark.parametrize(
    ("changes", "is_private"),
    [
        ({}, True),
        ({"directory": "/tmp/data/services/one/work"}, False),
        ({"argv": ("/var/tmp/env/bin/python", "-I")}, False),
        ({"argv": ("/opt/env/bin/python", "/tmp/guard.json")}, False),
        ({"directory": "/tmpfiles/one"}, True),
    ],
)
def test_a_service_that_works_in_tmp_sees_it(changes: dict[str, Any], is_private: bool) -> None:
    service = service_with(**{"argv": ("/opt/env/bin/python",), **changes})
    assert ("PrivateTmp=yes" in rendered(service).splitlines()) is is_private


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
            is_sandboxed = "mount" in systemd_world.layout.layers
            assert read["ReadWritePaths"] == ([service.directory] if is_sandboxed else [])

    def test_nothing_is_complained_about(self, systemd_world: SystemdWorld) -> None:
        """Every directive of the sandbox is known to this systemd, and every value is right."""
        user = "nobody" if systemd_world.layout.is_root else None
        for timing in (Timing(stop_seconds=9), GUARDED):
            for uses_gpu in (True, False):
                self.check(systemd_world, service_with(user=user, timing=timing, uses_gpu=uses_gpu))

    def check(self, systemd_world: SystemdWorld, service: Service) -> None:
        for path, image in systemd_world.supervisor.render(service).items():
            Path(path).write_text(image.content or "")
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
        plain_folder = "/srv" if folder else "/"
        plain = rendered(service_with(argv=("/bin/x",), env={"A": "a"}, directory=plain_folder))
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
        service = service_with(user="model", restart="always", timing=Timing(stop_seconds=77))
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

    def test_one_that_reports_is_waited_for_and_listened_to(self) -> None:
        lines = rendered(service_with(timing=GUARDED)).splitlines()
        assert {
            "Type=notify",
            "NotifyAccess=main",
            "TimeoutStartSec=86400",
            "After=multi-user.target",
            "WatchdogSec=400",
            "RestartPreventExitStatus=2 126 127",
            "KillMode=mixed",
            "TimeoutStopSec=90",
        } <= set(lines)
        assert "Type=exec" not in lines

    def test_one_that_need_not_speak_has_no_watchdog(self) -> None:
        text = rendered(service_with(timing=Timing(stop_seconds=90, start_seconds=700)))
        assert "Type=notify" in text
        assert "WatchdogSec" not in text

    def test_a_longer_start_is_as_long_as_it_is_asked_for(self) -> None:
        timing = Timing(stop_seconds=90, start_seconds=100_000)
        assert "\nTimeoutStartSec=100000\n" in rendered(service_with(timing=timing))

    @pytest.mark.parametrize("word", ["TimeoutStartSec", "WatchdogSec", "NotifyAccess"])
    def test_one_that_reports_nothing_is_asked_for_nothing(self, word: str) -> None:
        text = rendered(service_with())
        assert "\nType=exec\n" in text
        assert word not in text

    def test_one_folder_may_be_written_in(self) -> None:
        service = service_with(directory='/srv/a "b" \\ % c', user="model")
        text = rendered(service)
        assert '\nReadWritePaths="/srv/a \\"b\\" \\\\ %% c"\n' in text
        assert parse_folder(text) == (service.directory, "model")

    def test_one_that_writes_nothing_has_no_folder(self) -> None:
        text = rendered(service_with(directory="/", user="model"))
        assert "ReadWritePaths" not in text
        assert "CacheDirectory" not in text
        assert parse_folder(text) == ("", "model")
        assert parse_folder(rendered(service_with(directory="/srv"))) == ("/srv", "")

    @pytest.mark.parametrize("layer", sorted(SYSTEM_LAYERS))
    def test_a_layer_that_is_left_out_leaves_no_line(self, layer: str) -> None:
        layout = replace(LAYOUT, layers=SYSTEM_LAYERS - {layer})
        service = service_with(directory="/srv/a", timing=GUARDED)
        lines, whole = rendered(service, layout).splitlines(), rendered(service).splitlines()
        left_out = {line for line in whole if line not in lines and not line.startswith("X-")}
        expected = {*sandbox_properties()[layer]} & {*whole}
        assert left_out == expected | ({'ReadWritePaths="/srv/a"'} if layer == "mount" else set())
        assert parse_layers("\n".join(lines)) == SYSTEM_LAYERS - {layer}

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

    def test_an_edit_shows_in_the_file(self) -> None:
        text = rendered(service_with(env={"A": "1"}, timing=GUARDED))
        assert is_untouched(text)
        lines = text.splitlines(keepends=True)
        for number in range(len(lines)):
            assert not is_untouched("".join(lines[:number] + lines[number + 1 :])), lines[number]
        assert not is_untouched(text + "Restart=no\n")
        assert not is_untouched(text.replace("WatchdogSec=400", "WatchdogSec=4000"))

    @pytest.mark.parametrize("name", ["one", "a-b.c_D9", "0"])
    def test_names_come_back(self, name: str) -> None:
        assert service_name(unit_name(name)) == name

    @pytest.mark.parametrize(
        "unit", ["ssh.service", "stoker-.service", "stoker-a.socket", "stoker-a@b.service"]
    )
    def test_other_units_have_none(self, unit: str) -> None:
        assert service_name(unit) is None


@pytest.mark.parametrize(
    ("version", "is_old"),
    [("243", True), ("244", False), ("252.39-1~deb12u1", False), ("v241-rc1", False), ("", False)],
)
def test_versions(version: str, is_old: bool) -> None:
    assert is_too_old(version) is is_old


class TestHardening:
    def test_every_open_hole_has_its_reason_and_source(self) -> None:
        holes = tomllib.loads(HARDENING.read_text())["holes"]
        open_directives = {name for hole in holes for name in hole["directives"]}
        assert all(hole["reason"] and hole["source"] for hole in holes)
        assert not open_directives & {row.directive for row in load_hardening()}

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
        assert "PrivateDevices=yes" in rendered(service_with(uses_gpu=False))

    @pytest.mark.parametrize("timing", [Timing(stop_seconds=1), GUARDED], ids=["exec", "notify"])
    @pytest.mark.parametrize("uses_gpu", [True, False])
    @pytest.mark.parametrize("scope", ["system", "user"])
    def test_little_is_exposed(
        self, tmp_path: Path, scope: str, uses_gpu: bool, timing: Timing
    ) -> None:
        service = service_with(
            user="model", uses_gpu=uses_gpu, timing=timing, directory="/srv/stoker/one/work"
        )
        layout, bound = {
            "system": (LAYOUT, MOST_EXPOSED),
            "user": (USER_LAYOUT, MOST_EXPOSED_OF_A_USER),
        }[scope]
        review = analyze(tmp_path, rendered(service, layout))
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", review)
        assert found, review
        assert float(found[1]) <= bound, review

    @pytest.mark.parametrize("uses_gpu", [True, False])
    @pytest.mark.parametrize("layout", [LAYOUT, USER_LAYOUT], ids=["system", "user"])
    def test_nothing_is_exposed_without_a_reason(
        self, tmp_path: Path, layout: SystemdLayout, uses_gpu: bool
    ) -> None:
        """Whatever systemd-analyze finds open has a row that says how far, or is a known hole."""
        service = service_with(user="model", uses_gpu=uses_gpu, timing=GUARDED, directory="/srv/a")
        review = analyze(tmp_path, rendered(service, layout))
        exposed = re.findall(r"^✗ (\S+)=", review, re.MULTILINE)
        assert "MemoryDenyWriteExecute" in exposed, review
        explained = {row.directive for row in load_hardening()}
        for hole in tomllib.loads(HARDENING.read_text())["holes"]:
            explained |= {*hole["directives"]}
        # Some are named together, as "RootDirectory=/RootImage=".
        named = {each: {*re.findall(r"[A-Z]\w+(?==|$)", each)} for each in exposed}
        assert [each for each, names in named.items() if not names & explained] == []


def analyze(folder: Path, text: str) -> str:
    """What systemd-analyze says of the security of a unit."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze here; it is in the lab's containers")
    path = folder / unit_name("one")
    path.write_text(text)
    command = [program, "security", "--offline=true", "--no-pager", str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout, done.stderr
    return done.stdout


def test_the_adapter_is_quick_to_import() -> None:
    """Most commands never speak to systemd."""
    code = (
        "import sys, stoker.supervisors.systemd; print({'asyncio', 'dbus_fast'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
