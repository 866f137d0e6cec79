"""Fetch the published packages of an engine's releases for `python -m scripts.read_flags`.

Run by hand, with the project's own interpreter:

    python scripts/fetch_flag_sources.py sglang 0.5.22 0.5.23
    python scripts/fetch_flag_sources.py --sources vllm 0.33.0

Without versions it lists what the index has. pip finds and loads the files, so its configuration
is heeded: the index, mirrors, proxies and certificates. Nothing is built, unpacked or run, which
is why this is not `pip download`: that would build a source distribution to learn its metadata.
Files go to `.cache/flag-sources/NAME/`; what is there already is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from pip._internal.cli.cmdoptions import make_target_python
from pip._internal.commands import create_command
from pip._internal.commands.download import DownloadCommand
from pip._internal.models.candidate import InstallationCandidate
from pip._internal.network.session import PipSession

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "flag-sources"
_CHUNK_BYTES = 1 << 20
#: Releases for Python 3.11 on Linux are read; what they declare is the same elsewhere.
_TARGET = ["--python-version=3.11", "--implementation=cp"]
_TARGET += [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(39, 16, -1)]


def find_files(
    name: str, kind: str, versions: Iterable[str]
) -> tuple[PipSession, list[InstallationCandidate]]:
    """pip's session, and the files of this kind (``wheel`` or ``sources``), the oldest first."""
    command = create_command("download")
    assert isinstance(command, DownloadCommand)
    only = ["--no-binary=:all:"] if kind == "sources" else ["--only-binary=:all:", *_TARGET]
    options, _ = command.parse_args([*only, "--no-deps", "--ignore-requires-python"])
    with command.main_context():
        session = command.get_default_session(options)
        target = None if kind == "sources" else make_target_python(options)
        finder = command._build_package_finder(options, session, target)
        found = finder.find_all_candidates(name)
    wanted = set(versions)
    chosen = [each for each in found if not wanted or str(each.version) in wanted]
    return session, sorted(chosen, key=lambda each: each.version)


def fetch(candidate: InstallationCandidate, session: PipSession, folder: Path) -> Path:
    """The file in the folder, fetched and checked unless it is there. Raises ValueError."""
    link = candidate.link
    target = folder / str(link.filename)
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    digest = hashlib.sha256()
    answer = session.get(
        link.url_without_fragment, headers={"Accept-Encoding": "identity"}, stream=True
    )
    answer.raise_for_status()
    with partial.open("wb") as file:
        for chunk in answer.iter_content(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    if link.hash_name != "sha256" or digest.hexdigest() != link.hash:
        partial.unlink()
        raise ValueError(f"{link.filename} is not what the index says (SHA-256)")
    partial.rename(target)
    return target


def _main() -> None:
    parser = argparse.ArgumentParser(description="Fetch packages without running anything of them.")
    parser.add_argument("name", help="sglang or vllm")
    parser.add_argument("versions", nargs="*", help="all are listed without any")
    parser.add_argument("--sources", action="store_true", help="source distributions, not wheels")
    wanted = parser.parse_args()
    kind = "sources" if wanted.sources else "wheel"
    session, found = find_files(wanted.name, kind, wanted.versions)
    for candidate in found:
        shown = str(candidate.link.filename)
        if wanted.versions:
            shown = str(fetch(candidate, session, CACHE / wanted.name))
        sys.stdout.write(f"{candidate.version} {shown}\n")
    missing = sorted(set(wanted.versions) - {str(candidate.version) for candidate in found})
    if missing:
        raise SystemExit(f"the index has no {kind} of {wanted.name} {', '.join(missing)}")


if __name__ == "__main__":
    _main()
