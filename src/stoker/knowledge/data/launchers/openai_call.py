"""One call of a server through the openai package, as any program would make it.

This text becomes ``bin/openai-call`` of an environment and runs on the environment's Python. It
must not import anything but the standard library, openai and what that stands on.

The call is read from standard input, one JSON object: ``base_url``, ``key``, ``call`` (one of
CALLS), ``arguments``, ``stream``, ``timeout_seconds``, and maybe ``address`` (where the name of the
server leads, whatever the name would be now) and ``ca_file``. What is printed is one JSON object:
``client``, and ``result`` with what the package understood or ``error`` with what it raised.
Nothing is read from the environment: no proxy, no key, no address.
"""

import importlib
import importlib.metadata
import json
import resource
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

PACKAGE = "openai"
PACKAGE_VERSION = "@version:openai@"

#: More than any reply that a check asks for; a server may send anything.
MOST_CHARACTERS = 4000
MOST_FLAWS = 8
MOST_CALLS = 16
MOST_MODELS = 64
MOST_ITEMS = 64
MOST_DEPTH = 6
#: The package reads whatever a server sends, however much it is.
MEMORY_BYTES = 2 << 30

#: The package insists on a key. A server without one ignores it.
NO_KEY = "no-key"


def main(arguments: Sequence[str]) -> int:
    """Make the call that standard input describes; the exit status says whether it was made."""
    if arguments == ["--self-test"]:
        return check_package()
    if arguments:
        print("openai-call reads its call from standard input", file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    question = json.load(sys.stdin)
    answer = {"client": f"{PACKAGE} {importlib.metadata.version(PACKAGE)}", **make_call(question)}
    print(json.dumps(shorten(answer)))
    return 0


def check_package() -> int:
    """Whether the package is the pinned one and can be used here."""
    version = importlib.metadata.version(PACKAGE)
    if version != PACKAGE_VERSION:
        print(f"{PACKAGE} is {version}, not {PACKAGE_VERSION}", file=sys.stderr)
        return 1
    connect({"base_url": "http://127.0.0.1:9/v1", "timeout_seconds": 1}).close()
    return 0


def make_call(question: dict[str, Any]) -> dict[str, Any]:
    """The answer: what the package understood, or what it raised."""
    package = importlib.import_module(PACKAGE)
    failures = (
        package.OpenAIError,
        importlib.import_module("httpx2").HTTPError,
        *(AssertionError, AttributeError, LookupError, MemoryError, RuntimeError),
        *(TypeError, ValueError),
    )
    call = CALLS[question["call"]]
    with connect(question) as client:
        try:
            return {"result": call(client, question)}
        except failures as error:
            return {"error": describe(error)}


def connect(question: dict[str, Any]) -> Any:
    """A client that asks this server once, directly, and follows it nowhere else."""
    package, http = importlib.import_module(PACKAGE), importlib.import_module("httpx2")
    if question.get("address"):
        lead_names_to(question["address"])
    ca_file = question.get("ca_file")
    transport = http.Client(
        trust_env=False,
        follow_redirects=False,
        timeout=question["timeout_seconds"],
        verify=ssl.create_default_context(cafile=ca_file) if ca_file else True,
    )
    return package.OpenAI(
        base_url=question["base_url"],
        api_key=question.get("key") or NO_KEY,
        max_retries=0,
        timeout=question["timeout_seconds"],
        http_client=transport,
    )


def lead_names_to(address: str) -> None:
    """Have every name stand for one address: the one that was looked up and judged before."""
    look_up = socket.getaddrinfo

    def look_up_address(host: Any, *rest: Any, **named: Any) -> Any:
        return look_up(address, *rest, **named)

    socket.getaddrinfo = look_up_address


def chat(client: Any, question: dict[str, Any]) -> dict[str, Any]:
    """A plain chat, or a stream that is read chunk by chunk."""
    if question.get("stream"):
        return stream(client, question)
    reply = client.chat.completions.create(**question["arguments"])
    choice = reply.choices[0]
    return {
        "role": choice.message.role,
        "text": choice.message.content,
        "reasoning": read_reasoning(choice.message),
        "finish_reason": choice.finish_reason,
        "usage": read_usage(reply.usage),
        "flaws": find_flaws([reply]),
    }


def stream(client: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The chunks of a stream, joined as a program joins them that shows them to a person."""
    chunks, pieces, thoughts = [], [], []
    finish_reason, usage = None, None
    for chunk in client.chat.completions.create(**question["arguments"], stream=True):
        chunks.append(chunk)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            finish_reason = choice.finish_reason or finish_reason
            pieces.append(choice.delta.content or "")
            thoughts.append(read_reasoning(choice.delta) or "")
    return {
        "text": "".join(pieces),
        "reasoning": "".join(thoughts),
        "finish_reason": finish_reason,
        "usage": read_usage(usage),
        "chunks": len(chunks),
        "flaws": find_flaws(chunks),
    }


def tools(client: Any, question: dict[str, Any]) -> dict[str, Any]:
    """Calls of tools, plain or put together by the package from a stream."""
    arguments = question["arguments"]
    if question.get("stream"):
        with client.chat.completions.stream(**arguments) as events:
            reply = events.get_final_completion()
    else:
        reply = client.chat.completions.create(**arguments)
    choice = reply.choices[0]
    return {
        "calls": [
            {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
            for call in (choice.message.tool_calls or [])[:MOST_CALLS]
        ],
        "finish_reason": choice.finish_reason,
        "usage": read_usage(reply.usage),
    }


def parse(client: Any, question: dict[str, Any]) -> dict[str, Any]:
    """An answer in the form of a model of pydantic, which the package reads itself."""
    form = importlib.import_module("pydantic").create_model(
        "Reply", answer=(Literal["yes", "no"], ...)
    )
    reply = client.chat.completions.parse(**question["arguments"], response_format=form)
    choice = reply.choices[0]
    parsed = choice.message.parsed
    return {
        "parsed": None if parsed is None else parsed.model_dump(),
        "text": choice.message.content,
        "finish_reason": choice.finish_reason,
    }


def models(client: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The names of the models that are served."""
    return {"names": [model.id for model in client.models.list().data[:MOST_MODELS]]}


CALLS: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "chat": chat,
    "stream": stream,
    "tools": tools,
    "parse": parse,
    "models": models,
    # Asked for something that must be refused; the refusal is the answer.
    "error": chat,
}


def read_reasoning(message: Any) -> Any:
    """Thoughts, which the package knows no field for and keeps all the same."""
    return getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)


def read_usage(usage: Any) -> dict[str, Any] | None:
    """The counts, as a program reads them that adds up what it used."""
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }


def find_flaws(replies: Iterable[Any]) -> list[dict[str, str]]:
    """Where a reply has another type than the package says: it is not strict by itself."""
    invalid = importlib.import_module("pydantic").ValidationError
    flaws: dict[str, str] = {}
    for reply in replies:
        try:
            type(reply).model_validate(reply.to_dict())
        except invalid as error:
            rows = error.errors(include_url=False, include_context=False, include_input=False)
            for row in rows:
                flaws.setdefault(".".join(map(str, row["loc"])), row["msg"])
    return [{"where": where, "what": what} for where, what in list(flaws.items())[:MOST_FLAWS]]


def describe(error: Exception) -> dict[str, Any]:
    """What was raised: its class, its words, and for a refusal what the package made of it."""
    names = [each.__name__ for each in type(error).__mro__]
    cause = error.__cause__ or error.__context__
    body = getattr(error, "body", None)
    return {
        "type": names[0],
        "kinds": names[1:-1],
        "message": str(error),
        "cause": type(cause).__name__ if cause else "",
        "status": getattr(error, "status_code", None),
        "body": body if isinstance(body, dict | str | None) else str(body),
    }


def shorten(value: Any, depth: int = 0) -> Any:
    """The same data, bounded: what a server sent can be of any size."""
    if isinstance(value, str):
        return value[:MOST_CHARACTERS]
    if depth > MOST_DEPTH:
        return "..."
    if isinstance(value, dict):
        pairs = list(value.items())[:MOST_ITEMS]
        return {str(key)[:200]: shorten(each, depth + 1) for key, each in pairs}
    if isinstance(value, list | tuple):
        return [shorten(each, depth + 1) for each in value[:MOST_ITEMS]]
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:200]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
