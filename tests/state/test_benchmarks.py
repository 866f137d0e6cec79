"""What was measured is kept within bounds, and read back only as what Stoker wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.errors import HostError, StateError, UsageError
from stoker.hosts.local import LocalHost
from stoker.model.document import render_document
from stoker.model.layout import benchmark_path, benchmark_samples_path, benchmarks_folder
from stoker.model.plan import Folders
from stoker.ports import TEMPORARY_SUFFIX
from stoker.state import benchmarks as kept_benchmarks
from stoker.state.benchmark_samples import render_samples
from stoker.state.benchmarks import (
    LIMIT_BYTES,
    Wanted,
    keep_benchmark,
    list_benchmarks,
    list_ids,
    read_benchmark,
    read_samples,
)
from tests.fakes.host import Crash, Fuse, MemoryHost, Node
from tests.laws.worlds import FOLDERS
from tests.report.benchmarks import SERVED, WORKLOAD, benchmark, point, sample

ONE = benchmark(name="20261201-020500-a1b2")
TWO = benchmark(name="20261202-090000-c3d4")
SAMPLES = ((sample(0), sample(1, error="no answer came"), sample(2, is_measured=False)),)


def test_a_benchmark_and_its_samples_come_back_as_they_were() -> None:
    host = MemoryHost()
    kept = keep_benchmark(host, FOLDERS, ONE, samples=SAMPLES)
    assert kept.path == benchmark_path(FOLDERS, ONE.id)
    assert kept.samples_path == benchmark_samples_path(FOLDERS, ONE.id)
    assert kept.complaint == ""
    assert read_benchmark(host, FOLDERS, ONE.id) == ONE
    assert read_samples(host, FOLDERS, ONE) == SAMPLES
    for path in (kept.path, kept.samples_path):
        stat = host.stat(path)
        assert stat is not None
        assert stat.mode == 0o600


def test_on_a_real_disk_too(tmp_path: Path) -> None:
    where = Folders(state=str(tmp_path / "state"), environments="/e", models="/m", services="/s")
    host = LocalHost()
    keep_benchmark(host, where, ONE, samples=SAMPLES)
    assert read_benchmark(host, where, "2026") == ONE
    assert read_samples(host, where, ONE) == SAMPLES
    assert (Path(benchmarks_folder(where)).stat().st_mode & 0o777) == 0o700


def test_the_newest_come_first_and_can_be_chosen() -> None:
    host = MemoryHost()
    elsewhere = replace(SERVED, name="", url="http://10.0.0.1:8000/")
    code = replace(
        benchmark(name="20261203-1", served=elsewhere), workload=replace(WORKLOAD, name="code")
    )
    for each in (TWO, code, ONE):
        keep_benchmark(host, FOLDERS, each)
    assert list_benchmarks(host, FOLDERS).benchmarks == (code, TWO, ONE)
    assert list_benchmarks(host, FOLDERS, Wanted(name="kimi")).benchmarks == (TWO, ONE)
    assert list_benchmarks(host, FOLDERS, Wanted(workload="code")).benchmarks == (code,)
    assert list_benchmarks(host, FOLDERS, Wanted(url="http://10.0.0.1:8000")).benchmarks == (code,)
    assert list_benchmarks(host, FOLDERS, Wanted(name="kimi", workload="code")).benchmarks == ()
    assert list_benchmarks(MemoryHost(), FOLDERS).benchmarks == ()


def test_an_id_may_be_cut_as_long_as_it_is_clear() -> None:
    host = MemoryHost()
    for each in (ONE, TWO, replace(TWO, id=TWO.id + "-2")):
        keep_benchmark(host, FOLDERS, each)
    assert read_benchmark(host, FOLDERS, "20261201") == ONE
    assert read_benchmark(host, FOLDERS, TWO.id) == TWO
    with pytest.raises(UsageError, match="beginning of 3 benchmarks") as several:
        read_benchmark(host, FOLDERS, "2026")
    assert ONE.id in several.value.hint
    for unknown in ("", "2025", "../x", "*"):
        with pytest.raises(UsageError, match="there is no benchmark"):
            read_benchmark(host, FOLDERS, unknown)
    with pytest.raises(UsageError) as nothing:
        read_benchmark(MemoryHost(), FOLDERS, "2026")
    assert nothing.value.hint == "nothing was measured yet"


@pytest.mark.parametrize("name", ["", "../x", "A", "a/b", "a.b", "-a", "x" * 49])
def test_an_id_that_is_no_name_of_a_file_is_refused(name: str) -> None:
    host = MemoryHost()
    with pytest.raises(StateError, match="cannot name"):
        keep_benchmark(host, FOLDERS, replace(ONE, id=name))
    assert host.effects == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"schema": "benchmark/1"}',
        '{"schema": "benchmark/9"}',
        '{"schema": "plan/3"}',
        "[" * 100_000,
        '{"schema": "benchmark/1", "id": ' + "9" * 5000 + "}",
        " " * (LIMIT_BYTES + 1),
        render_document(TWO),
    ],
)
def test_a_damaged_document_is_named_and_hides_no_other(text: str) -> None:
    host = MemoryHost()
    keep_benchmark(host, FOLDERS, TWO)
    path = benchmark_path(FOLDERS, ONE.id)
    host.put(path, text)
    with pytest.raises(StateError, match=path):
        read_benchmark(host, FOLDERS, ONE.id)
    listed = list_benchmarks(host, FOLDERS)
    assert listed.benchmarks == (TWO,)
    (complaint,) = listed.complaints
    assert path in complaint


HEAD = (
    '{"schema": "benchmark-samples/1", "benchmark": "20261201-020500-a1b2", '
    '"points": 1, "samples": 1}'
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "{}",
        HEAD.replace("a1b2", "ffff"),
        HEAD + "\n{",
        HEAD + "\n\n",
        HEAD + '\n{"point": 0, "sample": {}}\n',
        HEAD + '\n{"point": 0, "sample": {"number": 1}, "x": 1}\n',
        HEAD + "\n" + "[" * 100_000,
    ],
)
def test_damaged_samples_are_named(text: str) -> None:
    host = MemoryHost()
    keep_benchmark(host, FOLDERS, ONE)
    path = benchmark_samples_path(FOLDERS, ONE.id)
    host.put(path, text)
    with pytest.raises(StateError, match=path):
        read_samples(host, FOLDERS, ONE)
    assert read_benchmark(host, FOLDERS, ONE.id) == ONE


def test_links_and_folders_are_not_followed() -> None:
    host = MemoryHost()
    keep_benchmark(host, FOLDERS, TWO, samples=SAMPLES)
    document, lines = benchmark_path(FOLDERS, ONE.id), benchmark_samples_path(FOLDERS, ONE.id)
    host.put("/elsewhere/document", render_document(ONE))
    host.put_link(document, "/elsewhere/document")
    host.put_link(lines, "/elsewhere/document")
    with pytest.raises(StateError, match="not what Stoker wrote"):
        read_benchmark(host, FOLDERS, ONE.id)
    with pytest.raises(StateError, match="not what Stoker wrote"):
        read_samples(host, FOLDERS, ONE)
    keep_benchmark(host, FOLDERS, ONE, samples=SAMPLES)
    assert read_samples(host, FOLDERS, ONE) == SAMPLES
    assert host.read_text("/elsewhere/document") == render_document(ONE)
    host.put_folder(benchmark_path(FOLDERS, "folder"))
    with pytest.raises(StateError, match="not what Stoker wrote"):
        read_benchmark(host, FOLDERS, "folder")


def test_a_kill_at_any_instant_leaves_a_benchmark_or_nothing() -> None:
    whole = MemoryHost()
    keep_benchmark(whole, FOLDERS, ONE, samples=SAMPLES)
    for number in range(2 * len(whole.effects)):
        host = MemoryHost()
        keep_benchmark(host, FOLDERS, TWO, samples=SAMPLES)
        fuse = _burning_after(number)
        host.fuse = fuse
        with pytest.raises(Crash):
            keep_benchmark(host, FOLDERS, ONE, samples=SAMPLES)
        host.fuse = None
        listed = list_benchmarks(host, FOLDERS)
        assert listed.complaints == ()
        assert [each for each in listed.benchmarks if each != ONE] == [TWO]
        for each in listed.benchmarks:
            assert read_samples(host, FOLDERS, each) in (SAMPLES, ((),))
        keep_benchmark(host, FOLDERS, ONE, samples=SAMPLES)
        assert read_samples(host, FOLDERS, ONE) == SAMPLES


def _burning_after(number: int) -> Fuse:
    left = [number]

    def fuse(moment: str, effect: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Crash

    return fuse


def test_a_full_disk_loses_the_samples_before_the_result() -> None:
    host = MemoryHost(free=len(render_document(ONE).encode()))
    many = ((*SAMPLES[0], *map(sample, range(100))),)
    kept = keep_benchmark(host, FOLDERS, ONE, samples=many)
    assert kept.samples_path == ""
    assert "no space left" in kept.complaint
    assert read_benchmark(host, FOLDERS, ONE.id) == ONE
    assert read_samples(host, FOLDERS, ONE) == ((),)
    host.free = 10
    with pytest.raises(HostError, match="no space left"):
        keep_benchmark(host, FOLDERS, TWO)
    assert list_ids(host, FOLDERS) == (ONE.id,)


def test_a_figure_that_is_no_number_is_not_written() -> None:
    host = MemoryHost()
    odd = replace(point(), server={"queued_requests": float("nan")})
    with pytest.raises(StateError, match="no number"):
        keep_benchmark(host, FOLDERS, benchmark(odd))
    assert host.effects == []


def test_old_ones_go_but_those_that_are_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_benchmarks, "MOST_BENCHMARKS", 4)
    host = MemoryHost()
    for number in range(8):
        each = replace(ONE, id=f"2026-{number}")
        keep_benchmark(host, FOLDERS, each, samples=SAMPLES, spared=("2026-1",))
    assert list_ids(host, FOLDERS) == ("2026-7", "2026-6", "2026-5", "2026-4", "2026-1")
    names = host.list_folder(benchmarks_folder(FOLDERS))
    assert len(names) == 10
    # One whose id is older than all of them is not removed by the very call that keeps it.
    keep_benchmark(host, FOLDERS, replace(ONE, id="2025-0"), spared=("2026-1",))
    assert "2025-0" in list_ids(host, FOLDERS)


def test_samples_go_before_documents_when_they_take_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = MemoryHost()
    keep_benchmark(host, FOLDERS, ONE, samples=SAMPLES)
    stat = host.stat(benchmark_samples_path(FOLDERS, ONE.id))
    assert stat is not None
    monkeypatch.setattr(kept_benchmarks, "MOST_SAMPLES_BYTES", 2 * stat.size_bytes + 100)
    ids = [f"20270101-{number}" for number in range(4)]
    for each in ids:
        keep_benchmark(host, FOLDERS, replace(ONE, id=each), samples=SAMPLES, spared=(ONE.id,))
    assert len(list_ids(host, FOLDERS)) == 5
    having = [
        each.id
        for each in list_benchmarks(host, FOLDERS).benchmarks
        if any(read_samples(host, FOLDERS, each))
    ]
    assert having == [ids[-1], ONE.id]


def test_what_is_not_ours_stays_and_what_is_nobodys_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_benchmarks, "MOST_BENCHMARKS", 1)
    host = MemoryHost()
    folder = benchmarks_folder(FOLDERS)
    foreign = ["notes.txt", "0-package.json", "README", "0-link.json", "0-folder.samples.jsonl"]
    for name in foreign[:3]:
        host.put(f"{folder}/{name}", "mine")
    host.put_link(f"{folder}/{foreign[3]}", "/etc/passwd")
    host.put_folder(f"{folder}/{foreign[4]}")
    host.put(f"{folder}/20250101-gone.samples.jsonl", "")
    old, new = (f"{folder}/.{name}{TEMPORARY_SUFFIX}" for name in ("old", "new"))
    host.put(old, "part")
    host.nodes[old] = Node(kind="file", content=b"part", modified_ns=1)
    host.put(new, "part")
    keep_benchmark(host, FOLDERS, ONE, samples=SAMPLES)
    keep_benchmark(host, FOLDERS, TWO)
    names = set(host.list_folder(folder))
    assert names == {*foreign, f".new{TEMPORARY_SUFFIX}", f"{TWO.id}.json"}


def test_too_many_samples_lose_gaps_then_requests() -> None:
    many = (tuple(sample(number) for number in range(50)),)
    whole = render_samples("a", many, limit_bytes=1 << 20)
    assert whole.complaint == ""
    bare = render_samples("a", many, limit_bytes=len(whole.content) - 200)
    assert "gaps between the tokens" in bare.complaint
    lines = [json.loads(line) for line in bare.content.decode().splitlines()]
    assert lines[0]["has_gaps"] is False
    assert len(lines) == 51
    assert lines[1]["sample"]["gaps_us"] == []
    few = render_samples("a", many, limit_bytes=8000)
    assert len(few.content) <= 8000
    assert " of 50 requests were kept" in few.complaint
    assert json.loads(few.content.decode().splitlines()[0])["samples"] == 50


def test_samples_of_fewer_or_more_points_fit_a_sweep() -> None:
    host = MemoryHost()
    sweep = benchmark(point(1), point(2))
    keep_benchmark(host, FOLDERS, sweep, samples=SAMPLES)
    assert read_samples(host, FOLDERS, sweep) == (SAMPLES[0], ())
    keep_benchmark(host, FOLDERS, sweep, samples=(*SAMPLES, *SAMPLES))
    assert read_samples(host, FOLDERS, benchmark(point(1))) == SAMPLES


def test_texts_of_a_server_break_no_line() -> None:
    host = MemoryHost()
    odd = ((sample(0, error="a\nb\u2028c\x85d\udc80"),),)
    keep_benchmark(host, FOLDERS, ONE, samples=odd)
    ((found,),) = read_samples(host, FOLDERS, ONE)
    assert found.error == "a\nb\u2028c\x85d?"
