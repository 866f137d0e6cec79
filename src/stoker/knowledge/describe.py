"""What rules may ask about beyond a launch: the engine's stack, the machine, the model, settings.

Called where settings are chosen and where a plan is judged, so that both speak of the same things.
Pure. Each part has a module of its own under :mod:`stoker.knowledge.derived`.
"""

from __future__ import annotations

from stoker.knowledge.derived.backends import derive_backends
from stoker.knowledge.derived.checkpoint import derive_checkpoint
from stoker.knowledge.derived.chosen import derive_env, derive_settings
from stoker.knowledge.derived.classes import derive_classes
from stoker.knowledge.derived.hardware import derive_hardware
from stoker.knowledge.derived.hicache import derive_hicache
from stoker.knowledge.derived.host import derive_host
from stoker.knowledge.derived.parallel import derive_parallel
from stoker.knowledge.derived.parsers import derive_parsers
from stoker.knowledge.derived.requirements import derive_requirements
from stoker.knowledge.derived.speculation import derive_speculation
from stoker.knowledge.derived.stack import derive_stack
from stoker.knowledge.derived.subject import Subject
from stoker.model.facts import Plain


def describe(subject: Subject) -> dict[str, Plain]:
    """``stack``, ``hardware``, ``checkpoint``, ``parallel``, ``parsers``, ``settings``, ``env``,
    ``host``, ``hicache``, ``requirements``, ``classes``, ``backends`` and ``speculation``.

    Leaves are values, None for what surely is not there, or Unknown with the reason.
    """
    stack = derive_stack(subject)
    hardware = derive_hardware(subject)
    checkpoint = derive_checkpoint(subject)
    settings = derive_settings(subject)
    host = derive_host(subject)
    env = derive_env(subject)
    hardware |= {name: host[name] for name in ("links", "can_peer")}
    return {
        "stack": stack,
        "hardware": hardware,
        "checkpoint": checkpoint,
        "parallel": derive_parallel(
            subject, hardware=hardware, checkpoint=checkpoint, settings=settings
        ),
        "parsers": derive_parsers(subject, checkpoint=checkpoint, settings=settings),
        "speculation": derive_speculation(subject, checkpoint=checkpoint, settings=settings),
        "settings": settings,
        "env": env,
        "host": host,
        "hicache": derive_hicache(
            engine=(subject.table.kind, subject.build),
            hardware=hardware,
            checkpoint=checkpoint,
            settings=settings,
            memory_bytes=host["memory_bytes"],
        ),
        "requirements": derive_requirements(stack=stack),
        "classes": derive_classes(subject, checkpoint=checkpoint, stack=stack),
        "backends": derive_backends(
            subject,
            {
                "stack": stack,
                "hardware": hardware,
                "checkpoint": checkpoint,
                "settings": settings,
                "env": env,
            },
        ),
    }
