"""The fake engine without a socket: a request comes in, a response with its timing goes out.

:mod:`stoker.fake_engine.server` puts HTTP around it and :mod:`stoker.fake_engine.direct` the port
of an endpoint. Both lead a request the same way: :meth:`Core.begin`, :meth:`Core.prepare`, then
for what has to be computed a seat, :meth:`Core.compute`, and at last :meth:`Core.end`. It never
sleeps and never waits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

from stoker.fake_engine.cache import PrefixCache
from stoker.fake_engine.checking import check_model, missing, read_body
from stoker.fake_engine.delivery import deliver
from stoker.fake_engine.fault import Fault, Moment
from stoker.fake_engine.metrics import Counters, write_metrics
from stoker.fake_engine.model import Prompt, generate, render_prompt
from stoker.fake_engine.pages import (
    count_tokens,
    describe_model,
    detokenize,
    list_models,
    show_health,
    show_model_info,
    show_props,
    show_server_info,
    show_slots,
    tokenize,
)
from stoker.fake_engine.questions import (
    read_chat,
    read_completions,
    read_messages,
    read_responses,
)
from stoker.fake_engine.refusals import (
    Refused,
    refuse,
    refuse_key,
    refuse_length,
    refuse_method,
    refuse_path,
)
from stoker.fake_engine.replies import Chunk, Reply
from stoker.fake_engine.replies_chat import write_chat, write_chat_chunks
from stoker.fake_engine.replies_completions import write_completion, write_completion_chunks
from stoker.fake_engine.replies_messages import write_message, write_message_events
from stoker.fake_engine.replies_responses import write_response, write_response_events
from stoker.fake_engine.routes import (
    CHAT,
    COMPLETIONS,
    COUNT_TOKENS,
    HEALTH,
    MESSAGES,
    PATHS,
    RESPONSES,
    is_allowed,
)
from stoker.fake_engine.script import LLAMACPP, SGLANG, VLLM, Script
from stoker.fake_engine.tokens import Vocabulary, join_tokens, split_tokens
from stoker.fake_engine.values import (
    DONE,
    Asked,
    Data,
    Part,
    Question,
    Response,
    json_response,
    text_of,
)


@dataclass(slots=True, kw_only=True)
class Task:
    """One request on its way. ``parallel`` is the most that were answered beside it, with it."""

    asked: Asked
    number: int
    path: str = ""
    data: Data = field(default_factory=dict)
    parallel: int = 1
    questions: tuple[Question, ...] = ()
    prompts: tuple[tuple[tuple[bytes, ...], int], ...] = ()
    is_ended: bool = False

    @property
    def is_streamed(self) -> bool:
        """Whether a stream is wanted."""
        return self.data.get("stream") is True


class Core:
    """A fake engine. Safe among threads.

    ``faults`` break it; ``health_status`` is what /health answers with; ``count``, where it is
    set, is the value behind /metrics, which then holds nothing else.
    """

    #: The one counter of a server whose ``count`` is set.
    COUNTER = "fake:generation_tokens_total"

    def __init__(self, script: Script | None = None, *, faults: Sequence[Fault] = ()) -> None:
        self._base = script or Script()
        self._faults: tuple[Fault, ...] = ()
        self._memories: dict[str, dict[str, Any]] = {}
        self._lock = Lock()
        self._begun: list[Task] = []
        self._number = 0
        self.vocabulary = Vocabulary()
        self.counters = Counters()
        self.health_status = 200
        self.count: Callable[[], float] | None = None
        self.script = self._base
        self._cache = _make_cache(self._base)
        self.break_with(*faults)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is broken now."""
        return self._faults

    def break_with(self, *faults: Fault) -> None:
        """Be broken in these ways from now on, and in no others."""
        self._faults = faults
        self.set_script(self._base)

    def set_script(self, script: Script) -> None:
        """Another set-up from now on; the cache is forgotten where its size changes."""
        self._base = script
        for fault in self._faults:
            script = fault.script(script) if fault.script else script
        if script.limits != self.script.limits or script.manners != self.script.manners:
            self._cache = _make_cache(script)
        self.script = script

    # --- the way of a request ---

    def begin(self, asked: Asked) -> Task:
        """Count a request in."""
        with self._lock:
            self._number += 1
            path = unquote(urlsplit(asked.path).path)
            task = Task(asked=asked, number=self._number, path=path)
            self._begun.append(task)
            for each in self._begun:
                each.parallel = max(each.parallel, len(self._begun))
        return task

    def end(self, task: Task) -> None:
        """Count it out again, however it ended."""
        with self._lock:
            if not task.is_ended:
                task.is_ended = True
                self._begun.remove(task)

    def delay_seconds(self, task: Task) -> float:
        """How long a fault keeps the request waiting before anything is done with it."""
        hooks = [fault for fault in self._faults if fault.delay_seconds]
        return sum(fault.delay_seconds(self._moment(task, fault)) for fault in hooks)  # type: ignore[misc]

    def prepare(self, task: Task) -> Response | None:
        """The response of what needs no computing; None where a seat is needed for it."""
        try:
            answered = self._prepare(task)
        except Refused as refused:
            answered = refuse(self.script, task.path, refused)
        return None if answered is None else self._spoil_plain(task, answered)

    def compute(self, task: Task) -> Response:
        """The response to what was prepared. The cache is asked and fed."""
        choices, is_restored = [], False
        for question, (tokens, images) in zip(task.questions, task.prompts, strict=True):
            match = self._cache.look_up(tokens)
            is_restored = is_restored or match.is_restored
            cached = min(match.cached_tokens, len(tokens) - 1)
            prompt = Prompt(tokens=tokens, image_tokens=images, cached_tokens=cached)
            self.counters.add(prompt_tokens=len(tokens), cached_tokens=cached, requests=1)
            for place in range(question.sampling.count):
                chance = self._chance(task, question, place)
                said = generate(self.script, question, prompt, chance)
                moment = self._moment(task, cached=cached, prompt=len(tokens))
                choices.append(
                    self._apply("answer", said, replace(moment, is_restored=is_restored))
                )
            self._cache.keep((*tokens, *choices[-1].content), match)
        reply = self._reply(task, choices)
        moment = self._moment(
            task, cached=choices[0].cached_tokens, prompt=choices[0].prompt_tokens
        )
        moment = replace(moment, is_restored=is_restored)
        if task.is_streamed:
            return self._respond_streamed(task, reply, moment)
        return self._respond_plainly(task, reply, moment)

    def add_tokens(self, task: Task, tokens: int) -> None:
        """Count tokens as they are made."""
        is_drafted = self.script.has("speculation") and all(
            question.is_drafted for question in task.questions
        )
        self.counters.add_tokens(tokens, is_drafted=is_drafted)

    # --- preparing ---

    def _prepare(self, task: Task) -> Response | None:
        script, asked = self.script, task.asked
        if not is_allowed(script, task.path, asked.headers):
            # Faults tell requests apart by what they ask.
            task.data = _peek(asked.body)
            return refuse_key(script)
        if task.path.startswith("/v1/models/") and script.manners == SGLANG:
            return self._show_model(task.path.removeprefix("/v1/models/"))
        method, engines = PATHS.get(task.path, ("", ()))
        if script.manners not in engines:
            return refuse_path(script)
        if asked.method != method:
            return refuse_method(script, method)
        if method == "GET" or task.path == "/flush_cache":
            return self._show(task.path)
        task.data = read_body(script, asked.body)
        return self._prepare_post(task)

    def _show(self, path: str) -> Response:
        script = self.script
        if path in HEALTH:
            return show_health(script, self.health_status)
        if path == "/metrics":
            return self._show_metrics()
        if path == "/flush_cache":
            self._cache.clear()
            return json_response("Cache flushed.\n")
        pages: Mapping[str, Callable[[], Any]] = {
            "/v1/models": lambda: list_models(script),
            "/models": lambda: list_models(script),
            "/props": lambda: show_props(script),
            "/slots": lambda: show_slots(script, self.counters),
            "/version": lambda: {"version": "0.32.0"},
            "/load": lambda: {"server_load": self.counters.running},
            "/model_info": lambda: show_model_info(script),
            "/get_model_info": lambda: show_model_info(script),
        }
        return json_response(pages.get(path, lambda: show_server_info(script))())

    def _show_model(self, name: str) -> Response:
        if name in self.script.names:
            return json_response(describe_model(self.script, name))
        error = {
            "message": f"The model '{name}' does not exist",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
        return json_response({"error": error}, 404)

    def _show_metrics(self) -> Response:
        text = write_metrics(self.script, self.counters)
        if self.count is not None:
            text = f"# TYPE {self.COUNTER} counter\n{self.COUNTER} {self.count()}\n"
        kind = "text/plain; version=0.0.4"
        return Response(headers={"Content-Type": kind}, parts=(Part(data=text.encode()),))

    def _prepare_post(self, task: Task) -> Response | None:
        script, data = self.script, task.data
        if task.path == "/tokenize":
            return json_response(tokenize(script, self._tokenize(data)))
        if task.path == "/detokenize":
            tokens = self.vocabulary.tokens(data.get("tokens") or ())
            return json_response(detokenize(script, join_tokens(tokens)))
        task.questions = self._read_questions(task)
        task.prompts = tuple(map(render_prompt, task.questions))
        if task.path == COUNT_TOKENS:
            return json_response(count_tokens(script, len(task.prompts[0][0])))
        for question, (tokens, _) in zip(task.questions, task.prompts, strict=True):
            self._check_length(question, len(tokens))
        return None

    def _read_questions(self, task: Task) -> tuple[Question, ...]:
        script, data = self.script, task.data
        if task.path == CHAT:
            return (read_chat(script, data),)
        if task.path == RESPONSES:
            return (read_responses(script, data),)
        if task.path == MESSAGES:
            return (read_messages(script, data),)
        if task.path == COUNT_TOKENS:
            return (read_messages(script, {"max_tokens": 1, **data}),)
        return tuple(map(self._spell, read_completions(script, data)))

    def _spell(self, question: Question) -> Question:
        """A prompt of numbers as a text."""
        if question.prompt_ids is None:
            return question
        return replace(question, prompt=join_tokens(self.vocabulary.tokens(question.prompt_ids)))

    def _tokenize(self, data: Data) -> list[int]:
        script = self.script
        if script.manners == LLAMACPP:
            return self.vocabulary.ids(split_tokens(str(data.get("content", ""))))
        check_model(script, data)
        text = data.get("prompt")
        if text is None and data.get("messages") is None:
            raise missing(script, "prompt")
        if text is None:
            tokens, _ = render_prompt(read_chat(script, data))
            return self.vocabulary.ids(tokens)
        return self.vocabulary.ids(split_tokens(text_of(text)))

    def _check_length(self, question: Question, prompt_tokens: int) -> None:
        """The context holds the prompt and at least one token; SGLang wants room for all."""
        limit, wanted = self.script.limits.context_tokens, question.sampling.max_tokens
        is_long = prompt_tokens >= limit
        if self.script.manners == SGLANG and wanted is not None:
            is_long = is_long or prompt_tokens + wanted > limit
        if is_long:
            raise refuse_length(self.script, prompt_tokens, wanted)

    # --- computing ---

    def _chance(self, task: Task, question: Question, place: int) -> Random:
        seed = question.sampling.seed
        # Without deterministic inference SGLang takes a seed and does not heed it.
        if seed is not None and self.script.manners != SGLANG:
            return Random(f"{seed}/{place}")
        return Random(f"{self.script.seed}/{task.number}/{place}")

    def _reply(self, task: Task, choices: Sequence[Any]) -> Reply:
        options = task.data.get("stream_options") or {}
        named = task.data.get("model")
        model = self.script.name
        if self.script.manners == SGLANG:
            model = str(named) if named else "default"
        elif self.script.manners == VLLM and named in self.script.names:
            model = str(named)
        chance = Random()
        return Reply(
            script=self.script,
            question=task.questions[0],
            choices=tuple(choices),
            model=model,
            code=f"{chance.getrandbits(128):032x}",
            created=int(time.time()),
            data=task.data,
            with_usage=bool(options.get("include_usage")),
            with_counts=bool(options.get("continuous_usage_stats")),
            most_tokens=self.script.delivery.most_tokens_per_chunk,
        )

    def _respond_plainly(self, task: Task, reply: Reply, moment: Moment) -> Response:
        writers: Mapping[str, Callable[[Reply], Data]] = {
            CHAT: write_chat,
            COMPLETIONS: write_completion,
            RESPONSES: write_response,
            MESSAGES: write_message,
        }
        data = self._apply("reply", writers[task.path](reply), moment)
        made = sum(choice.completion_tokens for choice in reply.choices)
        seconds = self._first_seconds(moment)
        seconds += max(0, made - 1) * self.script.timing.seconds_per_token
        response = json_response(data)
        part = replace(response.parts[0], after_seconds=seconds, tokens=made)
        spoiled: Response = self._apply("response", replace(response, parts=(part,)), moment)
        return spoiled

    def _respond_streamed(self, task: Task, reply: Reply, moment: Moment) -> Response:
        writers: Mapping[str, Callable[[Reply], list[Chunk]]] = {
            CHAT: write_chat_chunks,
            COMPLETIONS: write_completion_chunks,
            RESPONSES: write_response_events,
            MESSAGES: write_message_events,
        }
        made = writers[task.path](reply)
        chunks = self._apply("chunks", [chunk for chunk, _ in made], moment)
        events = [json.dumps(chunk, ensure_ascii=False, separators=(",", ":")) for chunk in chunks]
        # Only the chat's interface and the older one end in words of their own.
        ending = [DONE] if task.path in (CHAT, COMPLETIONS) else []
        if task.path == RESPONSES and self.script.manners == VLLM:
            ending = []
        events = self._apply("events", [*events, *ending], moment)
        tokens = [count for _, count in made]
        response = deliver(
            self.script,
            events,
            tokens,
            first_seconds=self._first_seconds(moment),
            is_named=task.path in (RESPONSES, MESSAGES),
            number=task.number,
        )
        spoiled: Response = self._apply("response", response, moment)
        return spoiled

    def _first_seconds(self, moment: Moment) -> float:
        timing = self.script.timing
        fresh = moment.prompt_tokens - moment.cached_tokens
        return timing.first_token_seconds + fresh * timing.seconds_per_prompt_token

    # --- faults ---

    def _spoil_plain(self, task: Task, response: Response) -> Response:
        """What faults do to a reply that was not computed."""
        moment = self._moment(task)
        kind = response.headers.get("Content-Type", "")
        if kind.startswith("application/json") and any(fault.reply for fault in self._faults):
            data = json.loads(response.body)
            if isinstance(data, dict):
                changed = json_response(self._apply("reply", data, moment), response.status)
                response = replace(response, parts=changed.parts)
        spoiled: Response = self._apply("response", response, moment)
        return spoiled

    def _apply(self, hook: str, value: Any, moment: Moment) -> Any:
        for fault in self._faults:
            change = getattr(fault, hook)
            if change is not None:
                value = change(value, replace(moment, memory=self._memory(fault)))
        return value

    def _memory(self, fault: Fault) -> dict[str, Any]:
        with self._lock:
            return self._memories.setdefault(fault.name, {})

    def _moment(
        self, task: Task, fault: Fault | None = None, *, cached: int = 0, prompt: int = 0
    ) -> Moment:
        questions = task.questions
        return Moment(
            method=task.asked.method,
            path=task.path,
            question=task.data,
            number=task.number,
            parallel=task.parallel,
            prompt_tokens=prompt,
            cached_tokens=cached,
            is_sampled=any(each.sampling.temperature > 0 for each in questions),
            is_streamed=task.is_streamed,
            headers=task.asked.headers,
            memory=self._memory(fault) if fault else {},
        )


def _peek(body: bytes) -> dict[str, Any]:
    """The data of a body, empty where it holds none."""
    try:
        data = json.loads(body or b"{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _make_cache(script: Script) -> PrefixCache:
    return PrefixCache(
        device_tokens=script.limits.kv_tokens,
        host_tokens=script.limits.host_tokens,
        block_tokens=script.block_tokens,
    )
