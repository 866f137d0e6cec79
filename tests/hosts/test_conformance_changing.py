"""The changing half of the Host port: every adapter keeps the same contract."""

from __future__ import annotations

import pytest

from stoker.errors import HostError, NotFound
from stoker.ports import Host
from tests.hosts.worlds import World


def mode_of(host: Host, path: str) -> int:
    found = host.stat(path)
    assert found is not None
    return found.mode


def test_writes_a_new_file(world: World) -> None:
    world.host.write_file(f"{world.root}/a", b"new\x00", 0o640)
    assert world.host.read_bytes(f"{world.root}/a", 0, 99) == b"new\x00"
    assert mode_of(world.host, f"{world.root}/a") == 0o640
    assert world.host.list_folder(world.root) == ("a",)


def test_replaces_content_and_mode(world: World) -> None:
    world.put(f"{world.root}/a", b"a long old content", mode=0o644)
    world.host.write_file(f"{world.root}/a", b"new", 0o600)
    assert world.host.read_text(f"{world.root}/a") == "new"
    assert mode_of(world.host, f"{world.root}/a") == 0o600


def test_the_writer_is_the_owner_unless_another_is_named(world: World) -> None:
    world.put(f"{world.root}/made-by-hand", b"")
    world.host.write_file(f"{world.root}/a", b"", 0o600)
    me = world.host.stat(f"{world.root}/made-by-hand")
    found = world.host.stat(f"{world.root}/a")
    assert me is not None
    assert found is not None
    assert found.owner == me.owner
    world.host.write_file(f"{world.root}/b", b"", 0o600, owner=me.owner)
    found = world.host.stat(f"{world.root}/b")
    assert found is not None
    assert found.owner == me.owner


def test_an_unknown_owner_is_an_error_that_leaves_nothing(world: World) -> None:
    world.put(f"{world.root}/a", b"old")
    with pytest.raises(HostError, match="no-such-user"):
        world.host.write_file(f"{world.root}/a", b"new", 0o600, owner="no-such-user")
    assert world.host.read_text(f"{world.root}/a") == "old"
    assert world.host.list_folder(world.root) == ("a",)


@pytest.mark.parametrize(("outer", "inner"), [(0o700, 0o700), (0o755, 0o755), (0o750, 0o755)])
def test_missing_parents_are_as_private_as_what_they_lie_in(
    world: World, outer: int, inner: int
) -> None:
    world.put_folder(f"{world.root}/outer", outer)
    world.host.write_file(f"{world.root}/outer/b/c/file", b"", 0o644)
    world.host.make_folder(f"{world.root}/outer/d/e", 0o710)
    assert mode_of(world.host, f"{world.root}/outer/b") == inner
    assert mode_of(world.host, f"{world.root}/outer/b/c") == inner
    assert mode_of(world.host, f"{world.root}/outer/d") == inner
    assert mode_of(world.host, f"{world.root}/outer/d/e") == 0o710
    assert mode_of(world.host, f"{world.root}/outer") == outer


def test_writing_replaces_a_link_and_not_what_it_names(world: World) -> None:
    world.put(f"{world.root}/precious", b"precious")
    world.put_link(f"{world.root}/link", "precious")
    world.host.write_file(f"{world.root}/link", b"new", 0o600)
    assert world.host.read_text(f"{world.root}/precious") == "precious"
    assert world.host.read_text(f"{world.root}/link") == "new"
    with pytest.raises(HostError):
        world.host.read_link(f"{world.root}/link")


@pytest.mark.parametrize("name", ["folder", "file/below"])
def test_what_stands_in_the_way_is_an_error_that_leaves_nothing(world: World, name: str) -> None:
    world.put_folder(f"{world.root}/folder", 0o755)
    world.put(f"{world.root}/file", b"old")
    with pytest.raises(HostError):
        world.host.write_file(f"{world.root}/{name}", b"new", 0o600)
    assert world.host.list_folder(world.root) == ("file", "folder")
    assert world.host.list_folder(f"{world.root}/folder") == ()
    assert world.host.read_text(f"{world.root}/file") == "old"


def test_appends(world: World) -> None:
    world.put_folder(f"{world.root}/private", 0o700)
    path = f"{world.root}/private/runs/journal"
    world.host.append_file(path, b"one\n", 0o600)
    world.host.append_file(path, b"two\n", 0o644)
    assert world.host.read_text(path) == "one\ntwo\n"
    assert mode_of(world.host, path) == 0o600
    assert mode_of(world.host, f"{world.root}/private/runs") == 0o700


def test_appending_never_follows_a_link(world: World) -> None:
    world.put(f"{world.root}/precious", b"precious")
    world.put_link(f"{world.root}/link", "precious")
    world.put_link(f"{world.root}/dangling", "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(HostError):
            world.host.append_file(f"{world.root}/{name}", b"more", 0o600)
    assert world.host.read_text(f"{world.root}/precious") == "precious"
    assert world.host.list_folder(world.root) == ("dangling", "link", "precious")


def test_appending_to_a_folder_is_an_error(world: World) -> None:
    with pytest.raises(HostError):
        world.host.append_file(world.root, b"more", 0o600)


def test_removes_a_file_and_a_link_and_nothing(world: World) -> None:
    world.put(f"{world.root}/a", b"")
    world.put_link(f"{world.root}/link", "a")
    world.host.remove_file(f"{world.root}/link")
    assert world.host.list_folder(world.root) == ("a",)
    world.host.remove_file(f"{world.root}/a")
    world.host.remove_file(f"{world.root}/a")
    world.host.remove_file(f"{world.root}/missing/deeper")
    assert world.host.list_folder(world.root) == ()


def test_removing_a_folder_as_a_file_is_an_error(world: World) -> None:
    world.put_folder(f"{world.root}/folder", 0o755)
    with pytest.raises(HostError):
        world.host.remove_file(f"{world.root}/folder")
    assert world.host.list_folder(world.root) == ("folder",)


def test_making_a_folder_again_keeps_its_mode(world: World) -> None:
    world.host.make_folder(f"{world.root}/a", 0o751)
    world.host.make_folder(f"{world.root}/a", 0o700)
    assert mode_of(world.host, f"{world.root}/a") == 0o751


def test_a_folder_for_a_user_is_made_once_and_then_left_alone(world: World) -> None:
    world.put_folder(f"{world.root}/by-hand", 0o755)
    me = world.host.stat(f"{world.root}/by-hand")
    assert me is not None
    world.host.make_folder(f"{world.root}/a/b", 0o700, owner=me.owner)
    world.host.make_folder(f"{world.root}/a/b", 0o755, owner=me.owner)
    found = world.host.stat(f"{world.root}/a/b")
    assert found is not None
    assert (found.kind, found.mode, found.owner) == ("folder", 0o700, me.owner)
    assert world.host.list_folder(f"{world.root}/a") == ("b",)


def test_a_folder_for_nobody_known_is_an_error_that_leaves_nothing(world: World) -> None:
    with pytest.raises(HostError, match="no-such-user"):
        world.host.make_folder(f"{world.root}/a", 0o700, owner="no-such-user")
    assert world.host.list_folder(world.root) == ()


@pytest.mark.parametrize("target", ["outside", "nowhere", "file"])
def test_a_folder_for_a_user_is_never_made_through_a_link(world: World, target: str) -> None:
    world.put_folder(f"{world.root}/outside", 0o755)
    world.put(f"{world.root}/file", b"old")
    world.put_link(f"{world.root}/link", target)
    me = world.host.stat(f"{world.root}/outside")
    assert me is not None
    for name in ("link", "file"):
        with pytest.raises(HostError):
            world.host.make_folder(f"{world.root}/{name}", 0o700, owner=me.owner)
    assert world.host.list_folder(world.root) == ("file", "link", "outside")
    assert mode_of(world.host, f"{world.root}/outside") == 0o755


def test_making_a_folder_over_a_file_is_an_error(world: World) -> None:
    world.put(f"{world.root}/a", b"old")
    with pytest.raises(HostError):
        world.host.make_folder(f"{world.root}/a", 0o755)
    with pytest.raises(HostError):
        world.host.make_folder(f"{world.root}/a/b", 0o755)
    assert world.host.read_text(f"{world.root}/a") == "old"


def test_sets_modes(world: World) -> None:
    world.put(f"{world.root}/a", b"", mode=0o644)
    world.put_folder(f"{world.root}/folder", 0o755)
    world.host.set_mode(f"{world.root}/a", 0o400)
    world.host.set_mode(f"{world.root}/folder", 0o700)
    assert mode_of(world.host, f"{world.root}/a") == 0o400
    assert mode_of(world.host, f"{world.root}/folder") == 0o700


def test_sets_no_mode_through_a_link(world: World) -> None:
    world.put(f"{world.root}/a", b"", mode=0o644)
    world.put_link(f"{world.root}/link", "a")
    with pytest.raises(HostError):
        world.host.set_mode(f"{world.root}/link", 0o600)
    with pytest.raises(NotFound):
        world.host.set_mode(f"{world.root}/missing", 0o600)
    assert mode_of(world.host, f"{world.root}/a") == 0o644


def test_removes_a_tree_and_never_what_links_in_it_name(world: World) -> None:
    world.put_folder(f"{world.root}/outside", 0o755)
    world.put(f"{world.root}/outside/precious", b"precious")
    world.host.write_file(f"{world.root}/tree/of/files", b"", 0o644)
    world.put_link(f"{world.root}/tree/of/link", f"{world.root}/outside")
    world.host.remove_tree(f"{world.root}/tree")
    world.host.remove_tree(f"{world.root}/tree")
    assert world.host.list_folder(world.root) == ("outside",)
    assert world.host.list_folder(f"{world.root}/outside") == ("precious",)


def test_removes_no_tree_that_is_a_link_or_a_file(world: World) -> None:
    world.put_folder(f"{world.root}/outside", 0o755)
    world.put(f"{world.root}/outside/precious", b"precious")
    world.put_link(f"{world.root}/link", "outside")
    for name in ("link", "outside/precious"):
        with pytest.raises(HostError):
            world.host.remove_tree(f"{world.root}/{name}")
    assert world.host.list_folder(f"{world.root}/link") == ("precious",)


@pytest.mark.parametrize(
    "path", ["", "/", "//", "/home", "/home/ann", "/home/./ann/", "a/b/c/d", "/srv/a/b/../../.."]
)
def test_refuses_to_remove_what_is_nobodys_own(world: World, path: str) -> None:
    with pytest.raises(HostError, match="will not be removed"):
        world.host.remove_tree(path)


def test_renames_a_file_over_another(world: World) -> None:
    world.put(f"{world.root}/a", b"new", mode=0o600)
    world.put(f"{world.root}/b", b"old", mode=0o644)
    world.host.rename(f"{world.root}/a", f"{world.root}/b")
    assert world.host.list_folder(world.root) == ("b",)
    assert world.host.read_text(f"{world.root}/b") == "new"
    assert mode_of(world.host, f"{world.root}/b") == 0o600


def test_renames_a_folder_with_what_is_in_it(world: World) -> None:
    world.host.write_file(f"{world.root}/a/b/c", b"deep", 0o644)
    world.host.rename(f"{world.root}/a", f"{world.root}/z")
    assert world.host.list_folder(world.root) == ("z",)
    assert world.host.read_text(f"{world.root}/z/b/c") == "deep"


def test_what_cannot_be_renamed_is_an_error(world: World) -> None:
    world.put(f"{world.root}/a", b"a")
    world.put_folder(f"{world.root}/folder", 0o755)
    world.put(f"{world.root}/folder/inside", b"")
    with pytest.raises(NotFound, match="missing"):
        world.host.rename(f"{world.root}/missing", f"{world.root}/b")
    with pytest.raises(NotFound):
        world.host.rename(f"{world.root}/a", f"{world.root}/nowhere/b")
    with pytest.raises(HostError):
        world.host.rename(f"{world.root}/a", f"{world.root}/folder")
    assert world.host.list_folder(world.root) == ("a", "folder")


@pytest.mark.parametrize("heeds_term", [True, False])
def test_ends_a_process(world: World, *, heeds_term: bool) -> None:
    pid, process = world.start_process(heeds_term=heeds_term)
    assert world.host.end_process(pid, process, 10 if heeds_term else 0.05)
    assert not world.is_running(pid)
    assert world.host.end_process(pid, process, 1)


def test_leaves_a_process_with_another_identity_alone(world: World) -> None:
    pid, process = world.start_process(heeds_term=True)
    assert world.host.end_process(pid, f"{process}9", 1)
    assert world.host.end_process(pid, "", 1)
    assert world.is_running(pid)


def test_no_process_is_gone_already(world: World) -> None:
    assert world.host.end_process(0, "", 1)
    assert world.host.end_process(4_194_303, "4194303:1", 1)
