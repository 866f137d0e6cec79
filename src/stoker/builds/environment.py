"""Immutable engine environments: where one lies, whether it is complete, how it is made.

Called by the command layer: planning reads and judges, :func:`make_environment` makes. It never
changes an environment that is complete, and never touches another one; another recipe is another
folder.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress

from stoker.builds.launcher import render_launcher
from stoker.errors import HostError, PreparationFailed
from stoker.model.engine_table import EnvironmentRecipe
from stoker.model.event import EventKind
from stoker.model.facts import Plain
from stoker.model.plan import Folders, Preparation
from stoker.model.units import canonical_json, digest_text, format_bytes
from stoker.ports import Clock, Command, CommandResult, Host, ReadableHost, Reporter
from stoker.preparing.failures import last_line, naming_failure, require_space
from stoker.preparing.growth import watch_growth
from stoker.preparing.pip import require_hashes, run_pip
from stoker.preparing.tools import Tools, tell
from stoker.preparing.turn import clear_leftover, hold_turn, open_workplace, run_held

PREPARATION_KIND = "environment"

_MARKER_NAME = "environment.json"
_MARKER_SCHEMA = "environment/1"
_DIGEST_CHARACTERS = 12

#: The package that modules of our own belong to.
_PACKAGE = "stoker"

#: How an environment is laid out here. A change of that is another folder.
_LAYOUT = 1

_STEP_TIMEOUT_SECONDS = 300.0
#: pip gives up on a silent server after minutes; unpacking a big wheel from a slow disk is silent.
_PATIENCE_SECONDS = 600.0
_MOST_LINKS = 40  # as many as the kernel follows (path_resolution(7))


def digest_recipe(recipe: EnvironmentRecipe) -> str:
    """What makes two environments differ, as a SHA-256: all that is put into one and tested."""
    return digest_text(
        canonical_json(
            {
                "layout": _LAYOUT,
                "python_at_least": recipe.python_at_least,
                "requirements": [
                    [pin.name, pin.version, sorted(pin.sha256)] for pin in recipe.requirements
                ],
                "launchers": dict(recipe.launchers),
                "self_test": list(recipe.self_test),
                # Left out where there are none, so that environments of before keep their names.
                **({"modules": dict(recipe.modules)} if recipe.modules else {}),
            }
        )
    )


def environment_path(recipe: EnvironmentRecipe, folders: Folders) -> str:
    """The folder of the recipe's environment. Another recipe has another folder, for ever."""
    digest = digest_recipe(recipe)[:_DIGEST_CHARACTERS]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", f"{recipe.name}-{recipe.build}-{digest}")
    return posixpath.join(folders.environments, name)


def marker_path(environment: str) -> str:
    """The file that is written last: an environment without it is not one."""
    return posixpath.join(environment, _MARKER_NAME)


def executable_in(environment: str, command: str) -> str:
    """Where a command of an environment lies."""
    return posixpath.join(environment, "bin", command)


def name_recipe(recipe: EnvironmentRecipe) -> str:
    """The recipe as a person reads it."""
    return f"{recipe.name} {recipe.build}"


def size_recipe(recipe: EnvironmentRecipe) -> int:
    """How many bytes a new environment writes to the disk in all, downloads among them."""
    return sum(pin.download_bytes + pin.installed_bytes for pin in recipe.requirements)


def plan_environment(
    recipe: EnvironmentRecipe, folders: Folders, host: ReadableHost
) -> Preparation | None:
    """The preparation that makes the environment, or None when it is there and complete."""
    target = environment_path(recipe, folders)
    if is_complete(target, digest_recipe(recipe), host):
        return None
    download_bytes = sum(pin.download_bytes for pin in recipe.requirements)
    return Preparation(
        kind=PREPARATION_KIND,
        target=target,
        summary=f"{name_recipe(recipe)} ({format_bytes(download_bytes)} download)",
        size_bytes=size_recipe(recipe),
        details={"name": recipe.name, "build": recipe.build, "digest": digest_recipe(recipe)},
    )


def is_complete(environment: str, digest: str, host: ReadableHost) -> bool:
    """Whether the marker names this very recipe and the environment's Python still exists.

    The Python may have gone with an upgrade of the system; then the environment is made anew.
    """
    try:
        marker = json.loads(host.read_text(marker_path(environment)))
        interpreter = host.stat(executable_in(environment, "python"))
    except (HostError, ValueError):
        return False
    return isinstance(marker, dict) and marker.get("digest") == digest and interpreter is not None


def choose_interpreter(value: Plain, *, at_least: str, must_be_reachable: bool) -> str | None:
    """The Python to make an environment with, from the value of the interpreters fact, or None.

    ``value`` is ``{"interpreters": [{"path", "version", "reachable_by_others"}]}`` in order of
    preference. One that other users can reach comes first even where that is not needed: the
    same environment may serve another user tomorrow.
    """
    wanted = tuple(int(part) for part in at_least.split("."))
    usable = [entry for entry in value["interpreters"] if tuple(entry["version"]) >= wanted]
    reachable = [entry for entry in usable if entry["reachable_by_others"] is True]
    chosen = reachable if must_be_reachable else reachable + usable
    return str(chosen[0]["path"]) if chosen else None


def make_environment(
    recipe: EnvironmentRecipe,
    folders: Folders,
    *,
    host: Host,
    clock: Clock,
    reporter: Reporter,
    interpreter: str,
    pip: tuple[str, ...],
    index_env: Mapping[str, str],
) -> None:
    """Make the environment whole, or raise PreparationFailed and leave nothing of it.

    ``interpreter`` is the Python it gets, ``pip`` the argument vector of a pip that need not lie
    in it, ``index_env`` an environment that says how the index is reached. Safe to call again
    after any interruption, and by two processes at once: the second waits, and finds it done.
    """
    tools = Tools(host=host, clock=clock, reporter=reporter, pip=pip, environ=index_env)
    target = environment_path(recipe, folders)
    with hold_turn(target, tools), ExitStack() as undo:
        if is_complete(target, digest_recipe(recipe), host):
            return
        clear_leftover(target, workplace=_workplace(target), tools=tools)
        undo.callback(_remove_quietly, target, host)
        with naming_failure(f"making the environment {name_recipe(recipe)}"):
            require_space(host, folders.environments, size_recipe(recipe))
            _fill(target, recipe, interpreter=interpreter, tools=tools)
        undo.pop_all()


def _fill(target: str, recipe: EnvironmentRecipe, *, interpreter: str, tools: Tools) -> None:
    """All steps in an empty place; the marker comes last, when all else is on the disk."""
    interpreter = _follow_links(interpreter, tools.host)
    host = tools.host
    host.make_folder(target, 0o755)
    open_workplace(_workplace(target), tools)
    _create(target, interpreter, tools)
    _install(target, recipe, tools)
    _write_launchers(target, recipe, host)
    _write_modules(target, recipe, tools)
    _refuse_ties(target, host)
    _test(target, recipe, tools)
    host.remove_tree(_workplace(target))
    _flush(target, host)
    host.write_file(marker_path(target), _render_marker(recipe, interpreter), 0o644)


def _create(target: str, interpreter: str, tools: Tools) -> None:
    argv = (interpreter, "-I", "-m", "venv", "--without-pip", "--symlinks", target)
    result = _run_step(target, argv, tools)
    if result.exit_status != 0:
        raise PreparationFailed(
            f"{interpreter} cannot make a virtual environment: {last_line(result.stderr)}",
            "install its venv module, for example with `apt install python3-venv`",
        )


def _install(target: str, recipe: EnvironmentRecipe, tools: Tools) -> None:
    if not recipe.requirements:
        return
    workplace, title = _workplace(target), name_recipe(recipe)
    pinned = require_hashes(recipe.requirements, workplace=workplace, tools=tools)
    python = executable_in(target, "python")
    poll = watch_growth(
        tools,
        target,
        title=title,
        folders=(workplace, posixpath.join(target, "lib")),
        expected_bytes=size_recipe(recipe),
        patience_seconds=_PATIENCE_SECONDS,
    )
    tell(tools, EventKind.PROGRESS, target, text=f"{title}: fetching the pinned packages")
    arguments = ("--python", python, "install", "--no-warn-script-location", *pinned)
    run_pip(tools, arguments, workplace=workplace, poll=poll, title=title)


def _write_launchers(target: str, recipe: EnvironmentRecipe, host: Host) -> None:
    for command, program in recipe.launchers.items():
        path = executable_in(target, command)
        files = render_launcher(path, program, interpreter=executable_in(target, "python"))
        for place, text in files.items():
            host.write_file(place, text.encode(), 0o755)


def _write_modules(target: str, recipe: EnvironmentRecipe, tools: Tools) -> None:
    """Put modules of our own beside the packages, compiled: services may not write there."""
    if not recipe.modules:
        return
    libraries = posixpath.join(target, "lib")
    (version,) = [name for name in tools.host.list_folder(libraries) if name.startswith("python")]
    package = posixpath.join(libraries, version, "site-packages", _PACKAGE)
    for name, text in recipe.modules.items():
        tools.host.write_file(posixpath.join(package, name), text.encode(), 0o644)
    argv = (executable_in(target, "python"), "-I", "-m", "compileall", "-q", package)
    result = _run_step(target, argv, tools)
    if result.exit_status != 0:
        raise PreparationFailed(
            f"{name_recipe(recipe)} cannot be compiled: {last_line(result.stdout)}",
            "this Stoker is damaged, or the interpreter is older than it says; install it anew",
        )


def _refuse_ties(target: str, host: ReadableHost) -> None:
    """Refuse an environment that would break with Stoker's own installation.

    Its Python must not lie in the virtual environment that Stoker runs from.
    """
    own = f"{sys.prefix}/" if sys.prefix != sys.base_prefix else None
    config = host.read_text(posixpath.join(target, "pyvenv.cfg"))
    home = re.search(r"^home\s*=\s*(.+?)\s*$", config, re.MULTILINE)
    if home is None:
        raise PreparationFailed(f"{target} says nowhere which Python it belongs to")
    python = _follow_links(executable_in(target, "python"), host)
    for path in (f"{home[1]}/", python):
        if own is not None and path.startswith(own):
            raise PreparationFailed(
                f"the environment would depend on {path}, which belongs to Stoker's own",
                "name an interpreter of the system",
            )


def _test(target: str, recipe: EnvironmentRecipe, tools: Tools) -> None:
    if not recipe.self_test:
        return
    command, *arguments = recipe.self_test
    result = _run_step(target, (executable_in(target, command), *arguments), tools)
    if result.exit_status != 0:
        raise PreparationFailed(
            f"{name_recipe(recipe)} does not work on this machine: its test {_ending(result)}: "
            f"{last_line(result.stderr or result.stdout)}",
            f"the test was `{' '.join(recipe.self_test)}`; this build may need another processor "
            "or a newer system",
        )


def _ending(result: CommandResult) -> str:
    if result.timed_out:
        return "took too long"
    if result.exit_status < 0:
        return f"was ended by signal {-result.exit_status}"
    return f"ended with {result.exit_status}"


def _run_step(target: str, argv: tuple[str, ...], tools: Tools) -> CommandResult:
    """Run a child that needs no network and leaves nothing outside the workplace."""
    workplace = _workplace(target)
    env = {"HOME": workplace, "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    return run_held(
        tools, argv, workplace=workplace, env=env, timeout_seconds=_STEP_TIMEOUT_SECONDS
    )


def _flush(target: str, host: Host) -> None:
    """Have all on the disk before the marker says so: pip flushes nothing itself.

    A machine without the command, or whose command knows no file systems, makes no worse
    environment: only a power cut within the next half minute could harm it.
    """
    sync = host.find_command("sync")
    if sync is not None:
        argv = (sync, "-f", target)
        host.run(Command(argv=argv, timeout_seconds=_STEP_TIMEOUT_SECONDS, env={}))


def _render_marker(recipe: EnvironmentRecipe, interpreter: str) -> bytes:
    marker = {
        "schema": _MARKER_SCHEMA,
        "name": recipe.name,
        "build": recipe.build,
        "digest": digest_recipe(recipe),
        "interpreter": interpreter,
        "packages": [f"{pin.name}=={pin.version}" for pin in recipe.requirements],
    }
    return (json.dumps(marker, indent=2) + "\n").encode()


def _workplace(target: str) -> str:
    return posixpath.join(target, ".making")


def _follow_links(path: str, host: ReadableHost) -> str:
    """Where a chain of links ends. A name that an upgrade moves on must not be what we keep."""
    for _ in range(_MOST_LINKS):
        try:
            link = host.read_link(path)
        except HostError:
            return path
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return path


def _remove_quietly(target: str, host: Host) -> None:
    """The failure that brought us here is the one to tell."""
    with suppress(HostError):
        host.remove_tree(target)
