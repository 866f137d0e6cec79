"""`stoker diagnose`: from logs, a reply, the kernel's words or a deployment to the first cause.

Files alone suffice, on any machine. Of a deployment of this machine it reads all that there is: the
log of its last start, or of the run that failed, the kernel's lines since, its last verification,
and what rules say of it. Changes nothing but, where one repair is chosen, the deployment file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.commands.bundle import read_bundle
from stoker.commands.deployment_file import write_back
from stoker.commands.diagnose_deployment import read_deployment
from stoker.commands.fitting_keys import fit_changes
from stoker.commands.folders import absolute_path
from stoker.commands.log_facts import drop_history, read_release, read_settings
from stoker.commands.plan import looks_like_plan, read_file
from stoker.commands.replies import LIMIT_BYTES, read_reply
from stoker.commands.world import World
from stoker.diagnosis.case_tree import describe_arguments, find_kind
from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import ReadLog, read_log
from stoker.diagnosis.patches import parse_patch
from stoker.diagnosis.recognise import recognise_engine
from stoker.errors import HostError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.releases import load_table_for
from stoker.model.deployment import Deployment
from stoker.model.diagnosis import Diagnosis, ReadInput, Repair
from stoker.model.facts import Plain
from stoker.report.diagnosis_text import list_repairs
from stoker.spec import edit_deployment, parse_deployment

STDIN = "-"
_CHUNK_BYTES = 1 << 20
_MOST_PATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be read. ``name``: a deployment, the only one where nothing at all is named.

    ``file`` is the deployment file that logs belong to, ``patches`` the deployment's own diffs.
    ``engine`` and ``release``: who wrote the logs, where they do not tell. ``stdin``: what the log
    ``-`` stands for.
    """

    name: str | None = None
    logs: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    reply: str | None = None
    bundle: str | None = None
    file: str | None = None
    patches: tuple[str, ...] = ()
    engine: str | None = None
    release: str | None = None
    stdin: Iterable[bytes] = field(default=(), repr=False)

    @property
    def has_files(self) -> bool:
        """Whether logs or a reply are named."""
        return bool(self.logs or self.kernel or self.reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDiagnosis:
    """The answer, and the file that a repair would be written into (None without one)."""

    diagnosis: Diagnosis
    release: str = ""
    file: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRepair:
    """The repair that was written into a file, with the keys as they stand there."""

    repair: Repair
    file: str
    changes: Mapping[str, Plain]


def find_diagnosis(world: World, question: Question) -> FoundDiagnosis:
    """Read what is named, and diagnose it. Raises UsageError, SpecError and StateError."""
    _check(question)
    text, deployment = "", None
    if question.file is not None:
        text = read_file(question.file)
        if looks_like_plan(text):
            raise UsageError(f"{question.file} is a saved plan", "name the deployment file")
        deployment = parse_deployment(text, question.file, engine_kinds=engine_kinds())
    inputs = _read_inputs(world, question)
    inputs = _complete(inputs, question, deployment)
    inputs = _with_patches(world, inputs, question.patches)
    return FoundDiagnosis(
        diagnosis=diagnose(inputs), release=inputs.release, file=question.file, text=text
    )


def _check(question: Question) -> None:
    named = [
        word
        for word, is_named in (
            ("a deployment", question.name is not None),
            ("logs, replies or what the kernel said", question.has_files),
            ("a bundle", question.bundle is not None),
        )
        if is_named
    ]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} are different things", "name one of them")
    if question.engine is not None and not find_kind(question.engine):
        known = ", ".join(engine_kinds())
        raise UsageError(f"there is no engine named {question.engine}", f"Stoker knows: {known}")
    if question.logs.count(STDIN) + question.kernel.count(STDIN) > 1:
        raise UsageError("what is piped in can be read once", "name - once")


def _read_inputs(world: World, question: Question) -> Inputs:
    if question.bundle is not None:
        return read_bundle(world, question.bundle).inputs
    if not question.has_files:
        return read_deployment(world, question.name)
    logs = [_read_log(world, path, question) for path in question.logs]
    kernel = [_read_log(world, path, question, is_kernel=True) for path in question.kernel]
    inputs = Inputs(
        lines=tuple(line for log in logs for line in log.lines),
        kernel=tuple(line for log in (*kernel, *logs) for line in log.kernel),
        read=tuple(log.read for log in (*logs, *kernel)),
    )
    return inputs if question.reply is None else _with_reply(world, inputs, question.reply)


def _read_log(world: World, path: str, question: Question, *, is_kernel: bool = False) -> ReadLog:
    if path == STDIN:
        return read_log(question.stdin, "standard input", is_kernel=is_kernel)
    size_bytes = _measure(world, path)
    return read_log(_read_chunks(world, path, size_bytes), path, is_kernel=is_kernel)


def _measure(world: World, path: str) -> int:
    """The size of a file in bytes. Raises UsageError for what is none."""
    try:
        stat = world.host.stat(absolute_path(path))
    except HostError as error:
        raise UsageError(f"{path} cannot be read: {error.summary}", error.hint) from error
    if stat is None:
        raise UsageError(f"there is no file {path}", "name a log, or - for what is piped in")
    if stat.kind != "file":
        raise UsageError(f"{path} is no file", "pipe it in, and name it -")
    return stat.size_bytes


def _read_chunks(world: World, path: str, size_bytes: int) -> Iterator[bytes]:
    target = absolute_path(path)
    for offset in range(0, size_bytes, _CHUNK_BYTES):
        try:
            yield world.host.read_bytes(target, offset, min(_CHUNK_BYTES, size_bytes - offset))
        except HostError as error:
            raise UsageError(f"{path} cannot be read: {error.summary}", error.hint) from error


def _with_reply(world: World, inputs: Inputs, path: str) -> Inputs:
    size_bytes = _measure(world, path)
    content = b"".join(_read_chunks(world, path, min(size_bytes, LIMIT_BYTES)))
    reply = read_reply(content, path)
    read = ReadInput(
        origin=path, kind="reply", lines=content.count(b"\n") + 1, size_bytes=size_bytes
    )
    return replace(
        inputs,
        lines=(*inputs.lines, *reply.lines),
        symptoms=(*inputs.symptoms, *reply.symptoms),
        read=(*inputs.read, read),
    )


# --- what else is known ---


def _complete(inputs: Inputs, question: Question, deployment: Deployment | None) -> Inputs:
    """The inputs with engine, release and settings, as far as somebody or the log tells them."""
    told = find_kind(question.engine or "") or (deployment.engine.kind if deployment else "")
    engine = told or inputs.engine or recognise_engine(inputs.lines)
    if not engine:
        return replace(inputs, release=question.release or inputs.release)
    release = question.release or inputs.release or read_release(inputs.lines, engine)
    settings: dict[str, Plain] = {}
    if not inputs.tree:
        settings |= read_settings(inputs.lines, engine, release)
    if deployment is not None:
        chosen = deployment.engine.settings
        settings |= describe_arguments(chosen, engine=engine, release=release)
    tree = dict(inputs.tree)
    if settings:
        tree["settings"] = {**_part(tree, "settings"), **settings}
    if release:
        tree["stack"] = {"version": release, "engine": engine, **_part(tree, "stack")}
    if deployment is not None:
        tree["env"] = {**_part(tree, "env"), **deployment.engine.env}
    lines = drop_history(inputs.lines, engine) if question.has_files else inputs.lines
    dropped = inputs.lines[: len(inputs.lines) - len(lines)]
    return replace(
        inputs,
        engine=engine,
        release=release,
        tree=tree,
        name=inputs.name or (deployment.name if deployment else ""),
        lines=lines,
        history=(*inputs.history, *dropped),
    )


def _part(tree: Mapping[str, Plain], name: str) -> Mapping[str, Plain]:
    part = tree.get(name)
    return part if isinstance(part, Mapping) else {}


def _with_patches(world: World, inputs: Inputs, paths: Sequence[str]) -> Inputs:
    """The inputs with the files that diffs change, each known by its path."""
    files: dict[str, tuple[str, ...]] = {}
    names: dict[str, tuple[str, ...]] = {}
    for path in paths:
        size_bytes = _measure(world, path)
        if size_bytes > _MOST_PATCH_BYTES:
            raise UsageError(f"{path} is too large for a patch")
        content = b"".join(_read_chunks(world, path, size_bytes))
        patch = parse_patch(content.decode("utf-8", "replace"))
        if not patch.files:
            raise UsageError(f"{path} is no unified diff", "`git diff` and `git show` write one")
        files[path], names[path] = patch.files, patch.names
    return replace(
        inputs,
        patched_files={**inputs.patched_files, **files},
        patched_names={**inputs.patched_names, **names},
    )


# --- one repair into the file ---


def apply_repair(world: World, found: FoundDiagnosis, number: int) -> AppliedRepair:
    """Write a repair, counted from 1, into the deployment file; comments and order stay.

    Raises UsageError for a number that is none, without a file, for a repair that is no change of
    a file, and where the file has changed.
    """
    if found.file is None:
        raise UsageError("a repair is written into a deployment file", "name it with --file")
    repairs = list_repairs(found.diagnosis)
    if not 1 <= number <= len(repairs):
        raise UsageError(
            f"there is no repair {number}",
            f"choose 1 to {len(repairs)}" if repairs else "nothing is known that would mend it",
        )
    repair = repairs[number - 1]
    if not repair.changes:
        raise UsageError(
            f"repair {number} is no change of the deployment file", f"do it by hand: {repair.text}"
        )
    deployment = parse_deployment(found.text, found.file, engine_kinds=engine_kinds())
    table = load_table_for(deployment.engine.kind, found.release or None)
    changes = fit_changes(repair.changes, deployment, table)
    new = edit_deployment(found.text, changes, origin=found.file)
    parse_deployment(new, found.file, engine_kinds=engine_kinds())
    write_back(world, found.file, found.text, new)
    return AppliedRepair(repair=repair, file=found.file, changes=changes)
