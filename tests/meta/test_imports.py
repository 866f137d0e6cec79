"""Each import contract bites: violations of all of them are planted in a copy of the package.

One run of the linter sees them all; each must be reported under the contract that it breaks.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.meta.source import PACKAGE, PROJECT

#: What is added to the copy: module, and the import that stands in it.
PLANTED = {
    "model/planted_upward": "stoker.ports",
    "probes/planted_neighbour": "stoker.hosts.local",
    "planted_nowhere": "stoker",
    "probes/planted_policy": "stoker.knowledge",
    "spec/planted_clock": "time",
    "knowledge/planted_network": "socket",
    "planning/planted_detour": "stoker.knowledge.planted_network",
    "contract/checks/planted_clock": "time",
    "contract/planted_chance": "random",
    "contract/checks/planted_sender": "stoker.contract.asking",
    "state/planted_process": "subprocess",
    "engines/planted_engine": "stoker.engines.llamacpp",
    "weights/planted_first": "stoker.weights.planted_second",
    "weights/planted_second": "stoker.weights.planted_first",
}

#: Contract id, and what the linter must say under it.
REPORTED = {
    "layers": (
        "stoker.model.planted_upward -> stoker.ports",
        "stoker.probes.planted_neighbour -> stoker.hosts.local",
        "not listed as layers:\n\n- stoker.planted_nowhere",
    ),
    "policy": ("stoker.probes.planted_policy -> stoker.knowledge",),
    "purity": (
        "stoker.spec.planted_clock -> time",
        "stoker.planning.planted_detour -> stoker.knowledge.planted_network",
        "stoker.contract.checks.planted_clock -> time",
        "stoker.contract.planted_chance -> random",
    ),
    "judges": ("stoker.contract.checks.planted_sender -> stoker.contract.asking",),
    "door": ("stoker.state.planted_process -> subprocess",),
    "engines": ("stoker.engines.planted_engine -> stoker.engines.llamacpp",),
    "cycles": ("No cycles are allowed in stoker.weights",),
}


def contract_names() -> Mapping[str, str]:
    """The names of the contracts by their ids, as the project's file has them."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in contracts}


def plant(package: Path, module: str, imported: str) -> None:
    """Add an import to a module of the copy, which is made if it is not there."""
    path = package / module
    target = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    with target.open("a", encoding="utf-8") as file:
        file.write(f"\nimport {imported}\n")


def lint_imports(folder: Path) -> str:
    """Run the project's contracts on the package that lies in a folder."""
    linter = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run(
        [linter, "--no-logo", "--no-cache", PROJECT / "pyproject.toml"],
        cwd=folder,
        env={"PATH": os.defpath, "PYTHONPATH": str(folder), "COLUMNS": "500"},
        check=False,
        capture_output=True,
        text=True,
    )
    return run.stdout + run.stderr


def broken_contracts(output: str) -> Mapping[str, str]:
    """What the linter says about each broken contract, by the contract's name."""
    _, _, details = output.partition("Broken contracts")
    titles = "|".join(re.escape(name) for name in contract_names().values())
    _, *parts = re.split(rf"^({titles})$", details, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The broken contracts of the copy."""
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(PACKAGE, folder / "stoker", ignore=shutil.ignore_patterns("__pycache__"))
    for module, imported in PLANTED.items():
        plant(folder / "stoker", module, imported)
    output = lint_imports(folder)
    broken = broken_contracts(output)
    assert set(broken) == set(contract_names().values()), output
    return broken


@pytest.mark.parametrize("contract", REPORTED)
def test_a_violation_is_reported(contract: str, report: Mapping[str, str]) -> None:
    said = report[contract_names()[contract]]
    assert [sentence for sentence in REPORTED[contract] if sentence not in said] == []


def test_every_contract_has_a_violation() -> None:
    assert set(contract_names()) == set(REPORTED)
