"""Keeps what was measured: a document for each benchmark, and beside it every request of it.

The document is written first, since it is small and holds the result; a kill before the samples
are written leaves a benchmark without them. Removal goes the other way round, so samples without
a document are nobody's. What is kept is bounded: the newest documents by number, and samples by
their bytes in all; what a tuned setting names as its evidence is spared by its id. Only files with
the names and the content that Stoker writes are ever removed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stoker.errors import HostError, NotFound, StateError, UsageError
from stoker.model.benchmark import Benchmark, Sample
from stoker.model.document import parse_document, render_document
from stoker.model.layout import benchmark_path, benchmark_samples_path, benchmarks_folder
from stoker.model.plan import Folders
from stoker.model.units import format_bytes
from stoker.ports import TEMPORARY_SUFFIX, Host, ReadableHost, Stat
from stoker.state.benchmark_samples import parse_samples, render_samples
from stoker.state.documents import DOCUMENT_MODE

#: Documents that are kept: a tuning of a day makes some dozens.
MOST_BENCHMARKS = 500
#: Samples that are kept in all.
MOST_SAMPLES_BYTES = 512 << 20
#: Many times what a sweep of a hundred points takes.
LIMIT_BYTES = 4 << 20
#: One file of samples; about three million tokens with the gap before each of them.
LIMIT_SAMPLES_BYTES = 64 << 20
#: A temporary file that is so much older than what was just written is no longer being written.
_LEFTOVER_NS = 3600 * 10**9

_DOCUMENT, _SAMPLES = ".json", ".samples.jsonl"
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBenchmark:
    """Where a benchmark lies. ``samples_path`` is empty where its samples could not be kept or
    there were none; ``complaint`` says why they are missing or not whole."""

    path: str
    samples_path: str = ""
    complaint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBenchmarks:
    """The newest first. ``complaints``: a sentence for each document that cannot be read."""

    benchmarks: tuple[Benchmark, ...] = ()
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which benchmarks are asked for; what is empty asks nothing. ``name`` of the deployment."""

    name: str = ""
    url: str = ""
    workload: str = ""

    def is_met(self, benchmark: Benchmark) -> bool:
        """Whether this is one of them."""
        served = benchmark.served
        found = (served.name, served.url.rstrip("/"), benchmark.workload.name)
        asked = (self.name, self.url.rstrip("/"), self.workload)
        return all(not wish or wish == have for wish, have in zip(asked, found, strict=True))


def keep_benchmark(
    host: Host,
    folders: Folders,
    benchmark: Benchmark,
    *,
    samples: Sequence[Sequence[Sample]] = (),
    spared: Collection[str] = (),
) -> KeptBenchmark:
    """Write a benchmark, then its samples (those of each point, in the order of the points).

    One of the same id is replaced, so that a sweep may be kept after each point. ``spared``: ids
    of which nothing is removed. Raises HostError, or StateError for an id or a document that
    cannot be kept; what happens to the samples is told in the answer.
    """
    if not _ID.fullmatch(benchmark.id):
        raise StateError(f"{benchmark.id!r} cannot name a benchmark")
    path = benchmark_path(folders, benchmark.id)
    content = _render(benchmark, path)
    host.make_folder(benchmarks_folder(folders), 0o700)
    host.write_file(path, content, DOCUMENT_MODE)
    kept = _keep_samples(host, folders, benchmark, samples)
    with suppress(HostError):
        _remove_surplus(host, folders, {benchmark.id, *spared}, written=host.stat(path))
    return kept


def list_benchmarks(
    host: ReadableHost, folders: Folders, wanted: Wanted | None = None
) -> ListedBenchmarks:
    """All that are kept, or those that are ``wanted``. Raises HostError."""
    found: list[Benchmark] = []
    complaints: list[str] = []
    for each in list_ids(host, folders):
        try:
            benchmark = _read(host, folders, each)
        except NotFound:
            continue  # another Stoker removed it since
        except (StateError, HostError) as error:
            complaints.append(error.summary)
            continue
        if wanted is None or wanted.is_met(benchmark):
            found.append(benchmark)
    return ListedBenchmarks(benchmarks=tuple(found), complaints=tuple(complaints))


def list_ids(host: ReadableHost, folders: Folders) -> tuple[str, ...]:
    """The ids of all documents, the newest first, since ids are in the order of time."""
    names = _list_names(host, folders)
    ids = (name.removesuffix(_DOCUMENT) for name in names if name.endswith(_DOCUMENT))
    return tuple(sorted(filter(_ID.fullmatch, ids), reverse=True))


def read_benchmark(host: ReadableHost, folders: Folders, wanted: str) -> Benchmark:
    """The benchmark with this id, or the only one whose id begins so.

    Raises UsageError where that is none or several, StateError for a damaged document, HostError.
    """
    ids = list_ids(host, folders)
    found = (
        [wanted]
        if wanted in ids
        else [each for each in ids if wanted and each[: len(wanted)] == wanted]
    )
    if len(found) == 1:
        return _read(host, folders, found[0])
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise UsageError(
            f"{wanted} is the beginning of {len(found)} benchmarks",
            f"write more of one of: {', '.join(found[:_MOST_NAMED])}{more}",
        )
    newest = f"the newest is {ids[0]}" if ids else "nothing was measured yet"
    raise UsageError(f"there is no benchmark {wanted!r}", newest)


def read_samples(
    host: ReadableHost, folders: Folders, benchmark: Benchmark
) -> tuple[tuple[Sample, ...], ...]:
    """The samples of each point, as far as they were kept; nothing for each where none were.

    Raises HostError, or StateError for a file that is damaged or of another benchmark.
    """
    path = benchmark_samples_path(folders, benchmark.id)
    stat = _stat_own(host, path)
    nothing: tuple[tuple[Sample, ...], ...] = ((),) * len(benchmark.points)
    if stat is None:
        return nothing
    if stat.size_bytes > LIMIT_SAMPLES_BYTES:
        raise _strange(path)
    try:
        text = host.read_text(path, LIMIT_SAMPLES_BYTES)
    except NotFound:
        return nothing
    return parse_samples(text, benchmark, origin=path)


def _render(benchmark: Benchmark, path: str) -> bytes:
    try:
        content = render_document(benchmark).encode()
    except ValueError as error:
        raise StateError(f"{path} was not written: a figure of it is no number") from error
    if len(content) > LIMIT_BYTES:
        size = format_bytes(len(content))
        raise StateError(
            f"{path} was not written: the benchmark takes {size}, and at most "
            f"{format_bytes(LIMIT_BYTES)} are kept",
            "measure fewer points at once",
        )
    return content


def _keep_samples(
    host: Host, folders: Folders, benchmark: Benchmark, samples: Sequence[Sequence[Sample]]
) -> KeptBenchmark:
    path = benchmark_path(folders, benchmark.id)
    if not any(samples):
        return KeptBenchmark(path=path)
    rendered = render_samples(benchmark.id, samples, limit_bytes=LIMIT_SAMPLES_BYTES)
    samples_path = benchmark_samples_path(folders, benchmark.id)
    try:
        host.write_file(samples_path, rendered.content, DOCUMENT_MODE)
    except HostError as error:
        complaint = f"the single requests were not kept: {error.summary}"
        return KeptBenchmark(path=path, complaint=complaint)
    return KeptBenchmark(path=path, samples_path=samples_path, complaint=rendered.complaint)


def _read(host: ReadableHost, folders: Folders, benchmark: str) -> Benchmark:
    """Raises NotFound, HostError or StateError."""
    path = benchmark_path(folders, benchmark)
    stat = _stat_own(host, path)
    if stat is None:
        raise NotFound(f"{path} does not exist")
    if stat.size_bytes > LIMIT_BYTES:
        raise _strange(path)
    found = parse_document(host.read_text(path, LIMIT_BYTES), Benchmark, origin=path)
    if found.id != benchmark:
        raise _strange(path)
    return found


def _stat_own(host: ReadableHost, path: str) -> Stat | None:
    """A file that Stoker may have written, None where nothing is. Raises StateError for others."""
    with suppress(HostError):
        host.read_link(path)
        raise _strange(path)
    stat = host.stat(path)
    if stat is not None and stat.kind != "file":
        raise _strange(path)
    return stat


def _strange(path: str) -> StateError:
    return StateError(f"{path} is not what Stoker wrote there", "move it away")


def _list_names(host: ReadableHost, folders: Folders) -> tuple[str, ...]:
    try:
        return host.list_folder(benchmarks_folder(folders))
    except NotFound:
        return ()


def _remove_surplus(
    host: Host, folders: Folders, spared: set[str], *, written: Stat | None
) -> None:
    """Remove what is nobody's, and the oldest of too much. ``written``: the newest document."""
    names = _list_names(host, folders)
    ids = list_ids(host, folders)
    for name in names:
        if _is_orphan(name, ids) or _is_leftover(host, folders, name, written=written):
            _remove(host, posixpath.join(benchmarks_folder(folders), name))
    for each in ids[MOST_BENCHMARKS:]:
        if each not in spared and _is_ours(host, folders, each):
            _remove(host, benchmark_samples_path(folders, each))
            _remove(host, benchmark_path(folders, each))
    for path in _surplus_samples(host, folders, spared):
        _remove(host, path)


def _remove(host: Host, path: str) -> None:
    """Remove a file; what cannot be removed stays, and is met again at the next benchmark."""
    with suppress(HostError):
        host.remove_file(path)


def _is_orphan(name: str, ids: Sequence[str]) -> bool:
    """Whether these are samples without a document."""
    owner = name.removesuffix(_SAMPLES)
    return owner != name and _ID.fullmatch(owner) is not None and owner not in ids


def _is_leftover(host: ReadableHost, folders: Folders, name: str, *, written: Stat | None) -> bool:
    """Whether a kill left this of a write, long before the newest document was written."""
    if not (name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)) or written is None:
        return False
    stat = host.stat(posixpath.join(benchmarks_folder(folders), name))
    return stat is not None and stat.changed_ns < written.changed_ns - _LEFTOVER_NS


def _is_ours(host: ReadableHost, folders: Folders, benchmark: str) -> bool:
    try:
        _read(host, folders, benchmark)
    except (StateError, HostError):
        return False
    return True


def _is_file(host: ReadableHost, path: str) -> bool:
    try:
        return _stat_own(host, path) is not None
    except StateError:
        return False


def _surplus_samples(host: ReadableHost, folders: Folders, spared: set[str]) -> Iterator[str]:
    """The oldest samples beyond the bytes that are kept; those that are spared count first."""
    ids = list_ids(host, folders)
    left = MOST_SAMPLES_BYTES
    for each in sorted(ids, key=lambda name: name not in spared):
        path = benchmark_samples_path(folders, each)
        if not _is_file(host, path):
            continue
        stat = host.stat(path)
        left -= stat.size_bytes if stat else 0
        if left < 0 and each not in spared:
            yield path
