"""Does what a plan must have before any change: environments and weights.

Nothing here disturbs what runs; each part can be interrupted and done again.
"""

from __future__ import annotations

from stoker.builds.environment import choose_interpreter, make_environment
from stoker.commands.guarding import ENVIRONMENT, guard_recipe
from stoker.commands.world import World
from stoker.errors import PreparationFailed
from stoker.knowledge.engines import (
    engine_kinds,
    load_engine_table,
    load_environment,
    load_model_packages,
)
from stoker.model.engine_table import EnvironmentRecipe
from stoker.model.event import Event, EventKind
from stoker.model.facts import Target, Unknown
from stoker.model.plan import Preparation
from stoker.probes.observe import observe
from stoker.weights.plan import fetch_model

#: What of the environment child processes get: where indexes and hubs are, how to reach them.
PASSED_PREFIXES = ("PIP_", "HF_", "UV_")
PASSED_NAMES = frozenset(
    {
        *("HOME", "PATH", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    }
)


def prepare(world: World, preparation: Preparation) -> None:
    """Do one preparation. Raises PreparationFailed."""
    world.reporter.emit(
        Event(kind=EventKind.PREPARATION, subject=preparation.target, text=preparation.summary)
    )
    env = child_environment(world)
    if preparation.kind == "model":
        fetch_model(
            preparation,
            world.folders,
            load_model_packages(),
            host=world.host,
            clock=world.clock,
            reporter=world.reporter,
            pip=(world.python, "-m", "pip"),
            python=world.python,
            env=env,
        )
        return
    make(world, find_recipe(world, str(preparation.details["name"])))


def make(world: World, recipe: EnvironmentRecipe) -> None:
    """Make one environment, where it is not there yet. Raises PreparationFailed."""
    make_environment(
        recipe,
        world.folders,
        host=world.host,
        clock=world.clock,
        reporter=world.reporter,
        interpreter=_interpreter(world, recipe),
        pip=(world.python, "-m", "pip"),
        index_env=child_environment(world),
    )


def child_environment(world: World) -> dict[str, str]:
    """The part of our environment that downloads need."""
    return {
        name: value
        for name, value in world.env.items()
        if name in PASSED_NAMES or name.startswith(PASSED_PREFIXES)
    }


def find_recipe(world: World, name: str) -> EnvironmentRecipe:
    """The recipe with this name: the guard's, an engine's embedded build, the supervisor's own."""
    if name == ENVIRONMENT:
        return guard_recipe()
    for kind in engine_kinds():
        recipe = load_engine_table(kind).embedded
        if recipe is not None and recipe.name == name:
            return recipe
    return load_environment(world.supervisor.properties.kind)


def _interpreter(world: World, recipe: EnvironmentRecipe) -> str:
    facts = observe(
        world.host,
        Target(),
        stoker_version="",
        now_seconds=world.clock.now_seconds(),
        only=frozenset({"interpreters"}),
    )
    value = facts.read("interpreters")
    chosen = (
        None
        if isinstance(value, Unknown)
        else choose_interpreter(
            value, at_least=recipe.python_at_least, must_be_reachable=world.is_root
        )
    )
    if chosen is None:
        reach = " that every user may run" if world.is_root else ""
        raise PreparationFailed(
            f"there is no Python {recipe.python_at_least} or newer{reach} on this machine",
            "install one, for example with `apt install python3`; services run as an "
            "unprivileged user and cannot use an interpreter below /root",
        )
    return chosen
