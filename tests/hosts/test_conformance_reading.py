"""The reading half of the Host port: every adapter keeps the same contract."""

from __future__ import annotations

import pytest

from stoker.errors import HostError, NotFound
from stoker.ports import Command, CommandResult, ReadableHost
from tests.hosts.worlds import World

ECHO = ("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
KILLED = ("/bin/sh", "-c", "kill -9 $$")
NO_PROGRAM = ("/nowhere/no-such-program",)


def command(*argv: str) -> Command:
    return Command(argv=argv, timeout_seconds=20, env={})


def test_name_stays_the_same(reader: ReadableHost) -> None:
    assert reader.name
    assert reader.name == reader.name


def test_reads_a_text(world: World, reader: ReadableHost) -> None:
    world.put(f"{world.root}/a", "grün\n".encode())
    assert reader.read_text(f"{world.root}/a") == "grün\n"


def test_reads_no_more_text_than_the_limit(world: World, reader: ReadableHost) -> None:
    world.put(f"{world.root}/a", b"0123456789")
    assert reader.read_text(f"{world.root}/a", 4) == "0123"


def test_replaces_what_cannot_be_decoded(world: World, reader: ReadableHost) -> None:
    world.put(f"{world.root}/a", b"a\xffz")
    assert reader.read_text(f"{world.root}/a") == "a\N{REPLACEMENT CHARACTER}z"


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [(0, 3, b"\x00\xff2"), (2, 3, b"234"), (8, 9, b"89"), (10, 5, b""), (99, 1, b""), (3, 0, b"")],
)
def test_reads_a_range(
    world: World, reader: ReadableHost, offset: int, length: int, expected: bytes
) -> None:
    world.put(f"{world.root}/a", b"\x00\xff23456789")
    assert reader.read_bytes(f"{world.root}/a", offset, length) == expected


def test_reads_through_links(world: World, reader: ReadableHost) -> None:
    world.put_folder(f"{world.root}/real", 0o755)
    world.put(f"{world.root}/real/a", b"there")
    world.put_link(f"{world.root}/folder", "real")
    world.put_link(f"{world.root}/file", f"{world.root}/folder/a")
    assert reader.read_text(f"{world.root}/file") == "there"
    assert reader.list_folder(f"{world.root}/folder") == ("a",)


def test_lists_names_sorted(world: World, reader: ReadableHost) -> None:
    for name in ("b", ".hidden", "a"):
        world.put(f"{world.root}/{name}", b"")
    world.put_folder(f"{world.root}/c", 0o755)
    world.put(f"{world.root}/c/deeper", b"")
    assert reader.list_folder(world.root) == (".hidden", "a", "b", "c")


def test_lists_an_empty_folder(world: World, reader: ReadableHost) -> None:
    assert reader.list_folder(world.root) == ()


def test_reads_a_link_unresolved(world: World, reader: ReadableHost) -> None:
    world.put_link(f"{world.root}/link", "../nowhere/at all")
    assert reader.read_link(f"{world.root}/link") == "../nowhere/at all"


def test_stat_of_a_file(world: World, reader: ReadableHost) -> None:
    world.put(f"{world.root}/a", b"12345", mode=0o640)
    found = reader.stat(f"{world.root}/a")
    assert found is not None
    assert (found.kind, found.size_bytes, found.mode) == ("file", 5, 0o640)
    assert found.owner
    assert found.modified_ns > 1_600_000_000_000_000_000


def test_stat_of_a_folder(world: World, reader: ReadableHost) -> None:
    world.put_folder(f"{world.root}/private", 0o700)
    found = reader.stat(f"{world.root}/private")
    assert found is not None
    assert (found.kind, found.mode) == ("folder", 0o700)


def test_stat_follows_links(world: World, reader: ReadableHost) -> None:
    world.put(f"{world.root}/a", b"12345")
    world.put_link(f"{world.root}/link", "a")
    assert reader.stat(f"{world.root}/link") == reader.stat(f"{world.root}/a")


@pytest.mark.parametrize("name", ["missing", "missing/deeper", "dangling", "file/deeper"])
def test_stat_of_nothing(world: World, reader: ReadableHost, name: str) -> None:
    world.put(f"{world.root}/file", b"")
    world.put_link(f"{world.root}/dangling", "nowhere")
    assert reader.stat(f"{world.root}/{name}") is None


@pytest.mark.parametrize("name", ["missing", "missing/deeper", "dangling", "file/deeper"])
def test_reading_nothing_is_not_found(world: World, reader: ReadableHost, name: str) -> None:
    world.put(f"{world.root}/file", b"")
    world.put_link(f"{world.root}/dangling", "nowhere")
    path = f"{world.root}/{name}"
    with pytest.raises(NotFound, match=name):
        reader.read_text(path)
    with pytest.raises(NotFound, match=name):
        reader.read_bytes(path, 0, 1)
    with pytest.raises(NotFound, match=name):
        reader.list_folder(path)


def test_reading_no_link_is_not_found(world: World, reader: ReadableHost) -> None:
    with pytest.raises(NotFound):
        reader.read_link(f"{world.root}/missing")


def test_what_is_something_else_is_an_error(world: World, reader: ReadableHost) -> None:
    world.put(f"{world.root}/a", b"")
    with pytest.raises(HostError):
        reader.read_text(world.root)
    with pytest.raises(HostError):
        reader.list_folder(f"{world.root}/a")
    with pytest.raises(HostError):
        reader.read_link(f"{world.root}/a")


def test_links_in_a_circle_are_an_error(world: World, reader: ReadableHost) -> None:
    world.put_link(f"{world.root}/a", "b")
    world.put_link(f"{world.root}/b", "a")
    with pytest.raises(HostError):
        reader.read_text(f"{world.root}/a")
    with pytest.raises(HostError):
        reader.stat(f"{world.root}/a")


def test_a_path_that_no_system_takes_is_an_error(world: World, reader: ReadableHost) -> None:
    for ask in (reader.read_text, reader.list_folder, reader.read_link, reader.stat):
        with pytest.raises(HostError):
            ask(f"{world.root}/a\0b")


def test_free_bytes_of_a_path_to_come(world: World, reader: ReadableHost) -> None:
    assert reader.free_bytes(f"{world.root}/not/yet/there") > 0


def test_finds_a_command(world: World, reader: ReadableHost) -> None:
    world.promise(("/bin/sh",), CommandResult(argv=(), exit_status=0, stdout="", stderr=""))
    if not isinstance(world.host.find_command("sh"), str):
        world.put("/usr/bin/sh", b"", mode=0o755)
    found = reader.find_command("sh")
    assert found is not None
    assert found.startswith("/")
    assert reader.find_command("no-such-program-anywhere") is None


def test_runs_a_command(world: World, reader: ReadableHost) -> None:
    expected = CommandResult(argv=ECHO, exit_status=3, stdout="out\n", stderr="err\n")
    world.promise(ECHO, expected)
    assert reader.run(command(*ECHO)) == expected


def test_a_signal_is_a_negative_status(world: World, reader: ReadableHost) -> None:
    world.promise(KILLED, CommandResult(argv=KILLED, exit_status=-9, stdout="", stderr=""))
    assert reader.run(command(*KILLED)).exit_status == -9


def test_no_such_program_is_not_found(reader: ReadableHost) -> None:
    with pytest.raises(NotFound, match="no-such-program"):
        reader.run(command(*NO_PROGRAM))
