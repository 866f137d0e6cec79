"""`stoker bundle`: what is in it, what is not, and that archives of strangers do no harm."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.commands.bundle import INDEX, MOST_BYTES, make_bundle, parse_bundle, read_bundle
from stoker.commands.bundle import write_bundle as write
from stoker.commands.bundle_file import pack, unpack
from stoker.commands.repair import RepairWish, apply_repairing
from stoker.diagnosis.diagnose import diagnose
from stoker.errors import ApplyFailed, UsageError
from stoker.model.document import render_document
from stoker.model.layout import verification_path
from stoker.ports import Command, CommandResult
from tests.commands.repairing import LOG, NAME, TEXT, Kernels
from tests.laws.worlds import FOLDERS

#: One of each, to stand in every part of a bundle.
PLANTED = {
    "key": "hf_AbCdEfGhIjKlMnOpQrStUvWx",
    "mail": "ann.miller@lab.example.org",
    "address": "192.168.17.4",
    "mac": "52:54:00:ab:cd:ef",
    "gpu": "GPU-8f3c2a10-1b2c-3d4e-5f60-718293a4b5c6",
    "home": "/home/annelise/models",
    "user": "annelise",
    "host": "ml-rig-07",
    "owner's key": "s3cret-of-the-owner",
}
LINE = " ".join(PLANTED.values())
PASSWD = "root:x:0:0::/root:\nannelise:x:1000:1000::/home/annelise:\n"


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kernels:
    """One that was verified, and whose next start failed; private things stand everywhere."""
    made = Kernels(monkeypatch, lambda flags: flags.get("tp-size") == "4")
    monkeypatch.setattr("stoker.commands.bundle_parts.resolve", made._resolve)
    host = made.machine.host
    host.put("/etc/passwd", PASSWD)
    host.put("/etc/hostname", "ml-rig-07\n")
    host.put("/root/key", PLANTED["owner's key"] + "\n", mode=0o600)
    answer = host.commands

    def run(command: Command) -> CommandResult | None:
        if command.argv[0] == "journalctl":
            text = (
                f"2026-11-30T22:43:38+0000 ml-rig-07 kernel: NVRM: Xid (PCI:0000:41:00): 79 {LINE}"
            )
            return CommandResult(argv=command.argv, exit_status=0, stdout=text, stderr="")
        assert callable(answer)
        return answer(command)

    host.commands = run
    path = tmp_path / "qwen.yaml"
    text = TEXT.replace("serve: {", "serve: {api_key_file: /root/key, ") + f"# {LINE}\n"
    for each in (text, text.replace("tp: 4", "tp: 2")):
        path.write_text(each)
        host.put(str(path), each)
        made.crashes = lambda flags: (
            None if flags.get("tp-size") == "4" else f"ValueError: {LINE}\nAssertionError: x\n"
        )
        try:
            apply_repairing(made.world(), str(path), RepairWish(attempts=1))
        except ApplyFailed:
            continue
    host.put(LOG, f"serving {LINE}\n")
    return made


def texts_of(content: bytes) -> dict[str, str]:
    return {name: part.decode() for name, part in unpack(content, "x").items()}


def test_what_is_in_it(kernels: Kernels) -> None:
    content, index = make_bundle(kernels.world(), NAME)
    parts = texts_of(content)
    assert {
        "generation.json",
        "deployment.yaml",
        "tree.json",
        "verification.json",
        "logs/engine.log",
        "logs/kernel.log",
        INDEX,
    } <= parts.keys()
    runs = {path.split("/")[1] for path in parts if path.startswith("runs/")}
    assert len(runs) >= 2
    assert all(f"runs/{run}/journal.jsonl" in parts for run in runs)
    assert any(path.startswith("logs/failed-") for path in parts)
    assert {part.path for part in index.parts} == parts.keys() - {INDEX}
    assert len(content) <= MOST_BYTES


def test_nothing_private_is_in_any_part(kernels: Kernels) -> None:
    content, index = make_bundle(kernels.world(), NAME)
    parts = texts_of(content)
    planted_in = [name for name, text in parts.items() if "<mail-1>" in text]
    assert {"deployment.yaml", "logs/engine.log", "logs/kernel.log", "generation.json"} <= set(
        planted_in
    )
    for name, text in parts.items():
        for kind, private in PLANTED.items():
            assert private not in text, (name, kind)
    assert index.redacted["mail"] == 1


def test_the_same_again_is_the_same_bytes(kernels: Kernels) -> None:
    assert make_bundle(kernels.world(), NAME)[0] == make_bundle(kernels.world(), NAME)[0]


def test_another_machine_reads_it(kernels: Kernels, tmp_path: Path) -> None:
    world = kernels.world()
    written = write(world, NAME, output=str(tmp_path / "b.tar.gz"))
    found = read_bundle(world, written.path)
    assert found.index.name == NAME
    assert found.inputs.engine == "sglang"
    assert found.inputs.release == "0.5.23"
    assert found.inputs.tree["hardware"]["major"] == 12
    assert any("AssertionError" in line.text for line in found.inputs.lines)
    assert any("Xid" in line.text for line in found.inputs.kernel)
    assert "xid-79-off-bus" in [cause.kind for cause in diagnose(found.inputs).causes]
    with pytest.raises(UsageError, match="is there already"):
        write(world, NAME, output=str(tmp_path / "b.tar.gz"))


def test_a_large_log_is_cut_to_what_tells_something(kernels: Kernels) -> None:
    noise = [f"{n:08d} {hash(str(n)):x} nothing to see" for n in range(200_000)]
    noise[100_000] = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    kernels.machine.host.put(LOG, "\n".join(["the beginning", *noise, "the end"]))
    content, index = make_bundle(kernels.world(), NAME)
    assert len(content) <= MOST_BYTES
    text = texts_of(content)["logs/engine.log"]
    assert "the beginning" in text
    assert "the end" in text
    assert "CUDA out of memory" in text
    assert "lines left out" in text
    (part,) = [part for part in index.parts if part.path == "logs/engine.log"]
    assert "of 200002 lines" in part.note


def test_one_whose_first_start_failed_has_a_bundle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernels = Kernels(monkeypatch, lambda flags: False)
    path = tmp_path / "qwen.yaml"
    path.write_text(TEXT)
    with pytest.raises(ApplyFailed):
        apply_repairing(kernels.world(), str(path), RepairWish(minutes=0.0))
    inputs = parse_bundle(make_bundle(kernels.world(), NAME)[0], "x").inputs
    assert [each.symptom for each in inputs.symptoms] == ["one_character"]
    with pytest.raises(UsageError, match="no deployment named other"):
        write(kernels.world(), "other")


def test_damaged_documents_do_no_harm(kernels: Kernels) -> None:
    kernels.machine.host.put(verification_path(FOLDERS, NAME), "{")
    content, _ = make_bundle(kernels.world(), NAME)
    assert parse_bundle(content, "x").index.name == NAME


def entry(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.linkname = kind, size, link
        archive.addfile(info, io.BytesIO(bytes(size)))
    return gzip.compress(raw.getvalue())


@pytest.mark.parametrize(
    "make",
    [
        lambda: entry("b/../../etc/passwd"),
        lambda: entry("/etc/passwd"),
        lambda: entry("b/logs/../x"),
        lambda: entry("b/x", tarfile.SYMTYPE, link="/etc/passwd"),
        lambda: entry("b/x", tarfile.LNKTYPE, link="/etc/passwd"),
        lambda: entry("b/x", tarfile.CHRTYPE),
        lambda: entry("b/x", tarfile.FIFOTYPE),
        lambda: entry("b/a\nb"),
        lambda: pack("b", {f"f{n}": b"" for n in range(500)}),
        lambda: gzip.compress(bytes(80 << 20)),
        lambda: pack("b", {"x": bytes(70 << 20)}),
        lambda: b"no archive",
        lambda: b"",
        lambda: gzip.compress(b"no archive"),
        lambda: pack("b", {"x": b"1"})[:-20],
        lambda: pack("b", {"x": b"1"}),
        lambda: pack("b", {INDEX: b"{}"}),
        lambda: pack("b", {INDEX: b'{"schema": "bundle/99"}'}),
        lambda: pack("b", {INDEX: b"[" * 100_000}),
    ],
)
def test_archives_of_strangers(make: Callable[[], bytes]) -> None:
    with pytest.raises(UsageError, match=r"bundle|x has no"):
        parse_bundle(make(), "x")


def test_strange_parts_of_a_bundle_are_left_out() -> None:
    index = {"schema": "bundle/1", "name": "n", "stoker_version": "1"}
    parts = {
        INDEX: json.dumps(index).encode(),
        "tree.json": b"[" * 100_000,
        "findings.json": b'{"a": 1}',
        "verification.json": b"\xff",
        "logs/engine.log": b"\xff\x00 Traceback",
    }
    found = parse_bundle(pack("b", parts), "x").inputs
    assert (found.tree, found.findings, found.symptoms) == ({}, (), ())
    assert len(found.lines) == 1


def test_numbers_that_are_none_in_a_bundle_do_no_harm() -> None:
    """What a stranger wrote into the tree is neither stepped on from nor shown."""
    index = b'{"schema": "bundle/1", "name": "x", "stoker_version": "1", "engine": "vllm"}'
    log = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    for number in ("NaN", "Infinity", "1e999", "9" * 5000):
        settings = "{" + f'"max-num-seqs": {number}, "max-model-len": {number}' + "}"
        tree = f'{{"settings": {settings}}}'.encode()
        parts = {INDEX: index, "tree.json": tree, "logs/engine.log": log}
        found = diagnose(parse_bundle(pack("a", parts), "x").inputs)
        assert found.causes
        assert "NaN" not in render_document(found)


def test_a_log_of_two_starts_in_a_bundle_has_a_history() -> None:
    index = b'{"schema": "bundle/1", "name": "x", "stoker_version": "1", "engine": "llamacpp"}'
    begin = "srv          init: initializing ...\n" + "a line\n" * 30
    log = f"{begin}torch.OutOfMemoryError: CUDA out of memory.\n{begin}".encode()
    inputs = parse_bundle(pack("a", {INDEX: index, "logs/engine.log": log}), "x").inputs
    assert inputs.history[-1].text.startswith("torch.OutOfMemoryError")
    assert inputs.lines[0].text.startswith("srv")


def test_of_a_first_start_that_failed_the_facts_go_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernels = Kernels(monkeypatch, lambda flags: False)
    monkeypatch.setattr("stoker.commands.bundle_parts.resolve", kernels._resolve)
    path = tmp_path / "qwen.yaml"
    path.write_text(TEXT)
    kernels.machine.host.put(str(path), TEXT)
    with pytest.raises(ApplyFailed):
        apply_repairing(kernels.world(), str(path), RepairWish(minutes=0.0))
    read = parse_bundle(make_bundle(kernels.world(), NAME)[0], "x")
    assert (read.index.engine, read.index.release) == ("sglang", "0.5.23")
    assert read.inputs.tree["settings"]
    for inside, text in texts_of(make_bundle(kernels.world(), NAME)[0]).items():
        if inside.endswith(".json"):
            json.loads(text)
