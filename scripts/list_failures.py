"""List what an engine can say when it does not start: raises, asserts and fatal log lines.

    python -m scripts.list_failures .cache/wheels/sources/sglang-* --uncovered

Each folder holds one unpacked package and is named KIND-RELEASE. Its sources are read as syntax
trees, never run. Every text is filled in with a figure and held against the signatures;
``--uncovered`` prints those that none fits. Given several releases, each wording is told with the
releases that have it. Only files that work at a start are read, unless ``--all`` is given.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.diagnosis.inputs import LogLine
from stoker.diagnosis.matching import Matcher, applies, load_matcher
from stoker.evaluate.source_texts import FIGURE, fill_joined, fill_text
from stoker.knowledge.lifetimes import order_releases

#: Where each package's start lies: beginnings of paths in it, and among them what does not belong.
STARTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sglang": (
        (
            "sglang/launch_server.py",
            "sglang/srt/server_args.py",
            "sglang/srt/arg_groups/",
            "sglang/srt/configs/model_config",
            "sglang/srt/configs/load_config.py",
            "sglang/srt/entrypoints/engine.py",
            "sglang/srt/entrypoints/http_server.py",
            "sglang/srt/managers/scheduler",
            "sglang/srt/managers/tp_worker.py",
            "sglang/srt/managers/cache_controller.py",
            "sglang/srt/managers/data_parallel_controller.py",
            "sglang/srt/managers/template_manager.py",
            "sglang/srt/managers/tokenizer_manager.py",
            "sglang/srt/model_executor/model_runner",
            "sglang/srt/model_executor/cuda_graph_runner.py",
            "sglang/srt/model_executor/runner/",
            "sglang/srt/model_loader/loader.py",
            "sglang/srt/model_loader/utils.py",
            "sglang/srt/model_loader/weight_utils.py",
            "sglang/srt/mem_cache/allocation.py",
            "sglang/srt/mem_cache/hiradix_cache.py",
            "sglang/srt/mem_cache/kv_cache_",
            "sglang/srt/mem_cache/memory_pool",
            "sglang/srt/mem_cache/pool_host/",
            "sglang/srt/mem_cache/registry.py",
            "sglang/srt/speculative/",
            "sglang/srt/function_call/function_call_parser.py",
            "sglang/srt/parser/reasoning_parser.py",
            "sglang/srt/parser/template_manager.py",
            "sglang/srt/reasoning_parser.py",
            "sglang/srt/layers/attention/attention_registry.py",
            "sglang/srt/layers/attention/vision.py",
            "sglang/srt/layers/moe/moe_runner/runner.py",
            "sglang/srt/layers/moe/utils.py",
            "sglang/srt/layers/quantization/",
            "sglang/srt/distributed/parallel_state.py",
            "sglang/srt/distributed/utils.py",
            "sglang/srt/distributed/device_communicators/custom_all_reduce",
            "sglang/srt/distributed/device_communicators/cuda_wrapper.py",
            "sglang/srt/distributed/device_communicators/pynccl",
            "sglang/srt/lora/lora_manager.py",
            "sglang/srt/utils/common.py",
            "sglang/srt/utils/hf_transformers",
            "sglang/srt/utils/network.py",
            "sglang/srt/utils/watchdog.py",
        ),
        # Kernels check what they are handed, which no operator chooses.
        ("sglang/srt/speculative/triton_ops/", "sglang/srt/layers/quantization/expert_pack"),
    ),
    "vllm": (
        ("vllm/",),
        (
            "vllm/benchmarks/",
            "vllm/model_executor/models/",
            "vllm/multimodal/",
            "vllm/third_party/",
            "vllm/transformers_utils/processors/",
        ),
    ),
}
#: What only a request reaches; a start has it behind it.
_LATER = (
    "_alloc_extend",
    "_forward",
    "_tokenize",
    "_validate_one_request",
    "apply",
    "backup_",
    "build_tree",
    "create_cuda_graph_",
    "draft",
    "dequant",
    "filter_batch",
    "forward",
    "generate",
    "load_to_device",
    "load_video",
    "load_image",
    "load_audio",
    "merge_batch",
    "pack_",
    "prepare_for",
    "quantize_",
    "replay",
    "run_once",
    "update_weights",
    "verify",
)
_LOUD = ("error", "critical", "exception", "fatal")
_LEAST_LETTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One text: ``how`` is the exception's class, ``assert``, ``log`` or ``exit``; ``template`` has
    the code of what is filled in, in braces, and ``text`` a figure there."""

    path: str
    function: str
    line: int
    how: str
    template: str
    text: str

    @property
    def printed(self) -> str:
        """As it ends a traceback or stands in a log."""
        if self.how in ("log", "exit"):
            return self.text
        return f"{'AssertionError' if self.how == 'assert' else self.how}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What an expression comes to: readable, and filled in."""

    template: str
    filled: str

    def __add__(self, other: Text) -> Text:
        return Text(template=self.template + other.template, filled=self.filled + other.filled)


@dataclass(slots=True)
class _Reader(ast.NodeVisitor):
    """Walks one file with the names of the functions that it is in and the texts that are bound
    there."""

    path: str
    found: list[Failure] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    bound: list[dict[str, Text]] = field(default_factory=lambda: [{}])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._enter(node)

    def _enter(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.functions.append(node.name)
        self.bound.append({})
        self.generic_visit(node)
        self.functions.pop()
        self.bound.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        text = self.read(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name) and text is not None:
                self.bound[-1][target.id] = text
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        text = self.read(node.value)
        if isinstance(node.target, ast.Name) and node.target.id in self.bound[-1] and text:
            self.bound[-1][node.target.id] += text
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Call):
            how = _last_name(node.exc.func)
            self._keep(node, "exit" if how == "SystemExit" else how, _arguments(node.exc))
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        if node.msg is not None:
            self._keep(node, "assert", [node.msg])
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(attr="exit", value=ast.Name(id="sys")):
                self._keep(node, "exit", node.args)
            case ast.Attribute(attr=name, value=value) if name in _LOUD and _is_log(value):
                self._keep(node, "log", node.args[:1])
        self.generic_visit(node)

    def _keep(self, node: ast.stmt | ast.expr, how: str, values: Sequence[ast.expr]) -> None:
        texts = (self.read(value) for value in values)
        text = next((each for each in texts if each is not None), None)
        if text is None or len(text.filled.strip()) < _LEAST_LETTERS:
            return
        self.found.append(
            Failure(
                path=self.path,
                function=".".join(self.functions),
                line=node.lineno,
                how=how,
                template=text.template,
                text=text.filled,
            )
        )

    def read(self, node: ast.expr) -> Text | None:
        """The text of an expression; None where it is no text that can be seen so."""
        match node:
            case ast.Constant(value=str(text)):
                return Text(template=text, filled=text)
            case ast.JoinedStr():
                return Text(template=ast.unparse(node)[2:-1], filled=fill_joined(node))
            case ast.BinOp(op=ast.Mod(), left=left):
                return _fill(self.read(left))
            case ast.Call(func=ast.Attribute(attr="format", value=value)):
                return _fill(self.read(value))
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._join(left, right)
            case ast.IfExp(body=body, orelse=other):
                return self.read(body) or self.read(other)
            case ast.Name(id=name):
                return next((names[name] for names in reversed(self.bound) if name in names), None)
        return None

    def _join(self, left: ast.expr, right: ast.expr) -> Text | None:
        one, two = self.read(left), self.read(right)
        if one is None and two is None:
            return None
        return (one or _unseen(left)) + (two or _unseen(right))


def _unseen(node: ast.expr) -> Text:
    return Text(template=f"{{{ast.unparse(node)}}}", filled=FIGURE)


def _fill(text: Text | None) -> Text | None:
    return text and Text(template=text.template, filled=fill_text(text.filled))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)


def _is_log(node: ast.expr) -> bool:
    return "log" in ast.unparse(node).lower()


def read_failures(text: str, path: str) -> tuple[Failure, ...]:
    """What one file can say; nothing of a file that is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    reader = _Reader(path=path)
    reader.visit(tree)
    return tuple(failure if failure.how != "log" else _as_line(failure) for failure in reader.found)


def _as_line(failure: Failure) -> Failure:
    """A log's text has its places in the old way too."""
    return Failure(
        path=failure.path,
        function=failure.function,
        line=failure.line,
        how=failure.how,
        template=failure.template,
        text=fill_text(failure.text),
    )


def is_of_a_start(failure: Failure, kind: str) -> bool:
    """Whether the place works before the first request, as far as its names tell."""
    inside, outside = STARTS.get(kind, (("",), ()))
    last = failure.function.rpartition(".")[2]
    return (
        failure.path.startswith(inside)
        and not failure.path.startswith(outside)
        and not last.startswith(_LATER)
    )


def read_package(folder: Path, *, whole: bool = False) -> tuple[Failure, ...]:
    """All that a package can say, at its start or at all."""
    kind = folder.name.partition("-")[0]
    found: list[Failure] = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        inside, outside = STARTS.get(kind, (("",), ()))
        if whole or (name.startswith(inside) and not name.startswith(outside)):
            found.extend(read_failures(path.read_text("utf-8", "replace"), name))
    return tuple(each for each in found if whole or is_of_a_start(each, kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """One text of one or more releases, with the signatures that fit it. ``failure`` is of the
    newest release that has it."""

    engine: str
    failure: Failure
    releases: tuple[str, ...]
    signatures: tuple[str, ...]


def merge(
    packages: Mapping[tuple[str, str], Iterable[Failure]], matcher: Matcher
) -> tuple[Wording, ...]:
    """Each wording once. ``packages``: by kind and release."""
    found: dict[tuple[str, str], dict[str, Failure]] = {}
    order = order_releases(release for _, release in packages)
    for (kind, release), failures in sorted(packages.items(), key=lambda p: order.index(p[0][1])):
        for failure in failures:
            found.setdefault((kind, failure.text), {})[release] = failure
    return tuple(
        Wording(
            engine=kind,
            failure=list(by_release.values())[-1],
            releases=tuple(by_release),
            signatures=find_signatures(matcher, kind, list(by_release.values())[-1]),
        )
        for (kind, _), by_release in found.items()
    )


def find_signatures(matcher: Matcher, kind: str, failure: Failure) -> tuple[str, ...]:
    """The signatures that fit any line of what is printed."""
    lines = [LogLine(number=n, text=line) for n, line in enumerate(failure.printed.splitlines(), 1)]
    events = matcher.find(lines, ())
    return tuple(dict.fromkeys(e.signature.id for e in events if applies(e.signature, kind, "")))


def render_wordings(wordings: Sequence[Wording], releases: int) -> Iterator[str]:
    """A block for each: where, how, in which releases, and the text."""
    for each in wordings:
        failure = each.failure
        told = ", ".join(each.signatures) or "no signature"
        span = each.releases[0]
        if len(each.releases) > 1:
            span = f"{each.releases[0]} ... {each.releases[-1]}"
        span += f" ({len(each.releases)} of {releases})" if releases > 1 else ""
        yield f"{failure.path}:{failure.line} {failure.function} [{failure.how}] {span}: {told}"
        yield f"    {' '.join(failure.template.split())}"


def render_json(wordings: Sequence[Wording]) -> str:
    """A list of objects, one for each wording."""
    rows = [
        {
            "engine": each.engine,
            "path": each.failure.path,
            "line": each.failure.line,
            "function": each.failure.function,
            "how": each.failure.how,
            "template": each.failure.template,
            "releases": list(each.releases),
            "signatures": list(each.signatures),
        }
        for each in wordings
    ]
    return json.dumps(rows, indent=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the list, and how many of its texts have a signature."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="PACKAGE_FOLDER")
    parser.add_argument("--uncovered", action="store_true", help="only what no signature fits")
    parser.add_argument("--json", action="store_true", help="as a JSON list")
    parser.add_argument("--all", action="store_true", help="all files, not only those of a start")
    parser.add_argument("--under", default="", help="only paths that begin so")
    chosen = parser.parse_args(arguments)
    packages: dict[tuple[str, str], tuple[Failure, ...]] = {}
    for folder in chosen.folders:
        kind, dash, release = folder.resolve().name.partition("-")
        if not dash or not folder.is_dir():
            parser.error(f"{folder}: name unpacked packages, each in a folder KIND-RELEASE")
        packages[kind, release] = read_package(folder.resolve(), whole=chosen.all)
    wordings = merge(packages, load_matcher())
    wordings = tuple(w for w in wordings if w.failure.path.startswith(chosen.under))
    covered = sum(bool(each.signatures) for each in wordings)
    shown = [w for w in wordings if not (chosen.uncovered and w.signatures)]
    if chosen.json:
        sys.stdout.write(render_json(shown) + "\n")
        return
    sys.stdout.writelines(f"{line}\n" for line in render_wordings(shown, len(packages)))
    sys.stdout.write(f"{covered} of {len(wordings)} texts have a signature\n")


if __name__ == "__main__":
    main()
