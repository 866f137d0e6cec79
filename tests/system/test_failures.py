"""An engine that does not come up as promised: what it said is shown, and all is as before."""

from __future__ import annotations

from tests.system.runner import NAME, Stoker, ask, edit

#: A value that the rules would block; accepted, the engine itself refuses it and ends.
REFUSED_VALUE = {"engine.settings.cache-type-k": "nonsense", "accept": ["engine.flag-value"]}
#: The engine runs and answers with nothing: the token that ends an answer always comes first.
SILENT = {"engine.settings.logit-bias": "2+100"}


def test_first_engine_that_dies_leaves_nothing(stoker: Stoker, small: str) -> None:
    edit(small, REFUSED_VALUE)
    error = stoker.refuse(7, "apply", small)
    assert f"{NAME} ended while it was starting" in error
    assert "Unsupported cache type: nonsense" in error
    assert "The host was rolled back" in error
    assert not stoker.stamped()
    assert not stoker.daemons()
    assert not stoker.is_interrupted()
    assert stoker.entries()[-1]["details"]["outcome"] == "rolled-back"


def test_engine_that_dies_brings_the_earlier_one_back(running: Stoker, running_file: str) -> None:
    edit(running_file, REFUSED_VALUE)
    assert "Unsupported cache type: nonsense" in running.refuse(7, "apply", running_file)
    one = running.status()
    assert (one["phase"], one["verified"], one["generation"]) == ("ready", True, 1)
    assert ask(one["url"])[0] == 200


def test_server_that_breaks_its_contract_is_rolled_back(running: Stoker, running_file: str) -> None:
    edit(running_file, SILENT)
    error = running.refuse(7, "apply", running_file)
    assert "breaks its contract" in error
    assert "chat_answer: expected an answer with text in it; found no text" in error
    assert running.status()["verified"]


def test_broken_server_is_left_stopped_if_it_was(running: Stoker, running_file: str) -> None:
    running.succeed("stop")
    edit(running_file, SILENT)
    running.refuse(7, "apply", running_file)
    one = running.status()
    assert (one["phase"], one["generation"]) == ("stopped", 1)


def test_promise_that_is_not_required_may_be_broken(stoker: Stoker, small: str) -> None:
    """And `verify` of one that is says so with a code of its own."""
    edit(small, {**SILENT, "contract.require": ["published_name"]})
    stoker.succeed("apply", small)
    broken = stoker.run("verify", "--only", "chat_answer")
    assert broken.exit_code == 5
    assert "FAIL chat_answer" in broken.stdout
    assert stoker.status()["verified"]
