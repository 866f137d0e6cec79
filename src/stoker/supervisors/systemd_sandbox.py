"""What a service's sandbox may be made of on this machine: how that is tried, and what follows.

Called by the adapter beside it; pure. The trial itself is the probe ``service_sandbox``: it has
systemd run one command for a moment, under the very lines that a unit would have.
"""

from __future__ import annotations

from stoker.model.facts import Facts, Trial, Unknown
from stoker.supervisors.systemd_unit import (
    SystemdLayout,
    layer_titles,
    runtime_folder,
    sandbox_properties,
)

#: A layer that was refused would end every start of a service; one that is ignored does nothing
#: today, and works once the machine allows it.
_REFUSED = "refused"


def describe_trial(layout: SystemdLayout) -> Trial:
    """How the manager of a layout is asked to try the layers that it could have."""
    is_user = layout.scope == "user"
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    if is_user:
        env["XDG_RUNTIME_DIR"] = runtime_folder(layout.user_id)
    properties, titles = sandbox_properties(), layer_titles()
    layers = sorted(layout.layers & properties.keys())
    return Trial(
        argv=("systemd-run", *(["--user"] if is_user else [])),
        env=env,
        layers={layer: properties[layer] for layer in layers},
        titles={layer: titles[layer] for layer in layers},
    )


def choose_layers(layout: SystemdLayout, facts: Facts) -> frozenset[str] | None:
    """The layers of a layout that the machine does not refuse; None where that is not known."""
    layers = facts.read("service_sandbox.layers")
    if isinstance(layers, Unknown):
        return None
    return frozenset(layer for layer in layout.layers if layers.get(layer) != _REFUSED)
