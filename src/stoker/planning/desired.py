"""From a deployment and its launch to the desired files: pure.

The service definition, the generation that records it, the pointer to that generation and the
copies of secrets are all plain files, so one journal and one roll-back serve them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stoker.model.deployment import Deployment
from stoker.model.document import render_document
from stoker.model.facts import Plain
from stoker.model.generation import Current, Generation
from stoker.model.launch import Launch, SecretFile, Service, Timing
from stoker.model.layout import current_path, generation_path, logs_folder, work_folder
from stoker.model.plan import Folders, Image
from stoker.model.units import canonical_json, digest_text

#: Documents of the state folder are for their owner alone.
DOCUMENT_MODE = 0o600
#: The service's copy of a secret: readable by its owner, writable by nobody.
SECRET_MODE = 0o400


def build_service(
    deployment: Deployment,
    launch: Launch,
    *,
    folders: Folders,
    user: str | None,
    model: str,
    secret_digests: Mapping[str, str],
    supervisor: str,
    uses_gpu: bool,
) -> Service:
    """What the supervisor shall run, before its guard is put around it.

    ``model`` identifies the weights and ``secret_digests`` (by path) the secrets: both are part
    of the digest, since a process that loaded other weights or another key is another service.
    """
    fields: dict[str, Plain] = {
        "name": deployment.name,
        "argv": launch.argv,
        "env": dict(launch.env),
        "directory": work_folder(folders, deployment.name),
        "user": user,
        "log_path": f"{logs_folder(folders)}/{deployment.name}.log",
        "restart": deployment.service.restart,
        "on_boot": deployment.service.on_boot,
    }
    digest = digest_text(
        canonical_json({**fields, "model": model, "secrets": dict(secret_digests)})
    )
    return Service(
        digest=digest,
        timing=Timing(stop_seconds=launch.stop_timeout_seconds),
        supervisor=supervisor,
        uses_gpu=uses_gpu,
        **fields,
    )


def next_generation(
    current: Generation | None,
    *,
    highest_number: int,
    deployment: Mapping[str, Plain],
    source: str,
    launch: Launch,
    service: Service,
    model: str,
    note: str = "applied",
) -> Generation:
    """The generation for this content: the current one if nothing differs, else a new number.

    ``highest_number`` is the highest that was ever used, 0 for none; numbers are not reused.
    """
    digest = digest_text(
        canonical_json(
            {
                "deployment": deployment,
                "launch": render_document(launch),
                "service": service.digest,
            }
        )
    )
    if current is not None and current.digest == digest:
        return current
    return Generation(
        name=service.name,
        number=highest_number + 1,
        digest=digest,
        deployment=deployment,
        source=source,
        launch=launch,
        service=service,
        model=model,
        note=note,
    )


def restored_generation(old: Generation, *, highest_number: int) -> Generation:
    """An older generation brought back under a new number; its content is untouched."""
    return replace(old, number=highest_number + 1, note=f"rolled back to {old.number}")


def document_image(text: str) -> Image:
    """A file of the state folder."""
    return Image(digest=digest_text(text), mode=DOCUMENT_MODE, content=text)


def secret_image(secret: SecretFile, *, digest: str, user: str | None) -> Image:
    """The service's copy of a secret; the content stays with the executor."""
    return Image(
        digest=digest,
        mode=SECRET_MODE,
        owner=user or "",
        source_path=secret.source_path,
        entry=secret.entry,
    )


def desired_files(
    generation: Generation,
    *,
    folders: Folders,
    orders: Mapping[str, Image],
    definitions: Mapping[str, Image],
    secret_digests: Mapping[str, str],
) -> dict[str, Image | None]:
    """All files of a deployment in the order in which they are written.

    Secrets come first and the pointer to the generation last, so that nothing refers to a file
    that is not there yet. ``orders`` is the guard's file, ``definitions`` are the supervisor's.
    """
    files: dict[str, Image | None] = {}
    for secret in generation.launch.secrets:
        files[secret.path] = secret_image(
            secret, digest=secret_digests[secret.path], user=generation.service.user
        )
    files.update(orders)
    number = generation_path(folders, generation.name, generation.number)
    files[number] = document_image(render_document(generation))
    files.update(definitions)
    pointer = Current(name=generation.name, generation=generation.number)
    files[current_path(folders, generation.name)] = document_image(render_document(pointer))
    return files
