"""Reading the progress of a start from log lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.engines.phases import MOST_ERROR_LINES, Phase, find_error, read_phase
from stoker.knowledge.engines import load_engine_table
from stoker.model.engine_log import PhaseRow

TABLE = load_engine_table("llamacpp")

#: A whole start and stop of b11549 at its default verbosity, as it was logged.
LOG = """\
0.00.000.300 I srv          init: initializing ...
0.00.001.798 I srv          init: build_info: b0-unknown
0.00.001.810 I cmn  common_param: common_params_print_info: verbosity = 3 (adjust with the `-lv N`)
0.00.002.476 W srv          init: security: no API key is set and CORS allows all origins
0.00.004.179 I srv          init: loading model
0.00.004.267 I srv    load_model: loading model 'SmolLM2-135M-Instruct.Q4_1.gguf'
0.01.088.315 I cmn          init: llama threadpool init, n_threads = 1
0.01.136.149 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'
0.01.137.752 I srv          init: model loaded
0.01.137.769 I srv          init: listening on http://127.0.0.1:18001
0.01.997.077 I slot get_availabl: id  3 | task -1 | selected slot by LRU, t_last = -1
0.02.326.754 I slot      release: id  3 | task 0 | stop processing: n_tokens = 48, truncated = 0
0.02.340.254 I srv    operator(): operator(): cleaning up before exit...
""".splitlines()

FAILED_LOAD = """\
0.00.004.033 I srv    load_model: loading model 'cut.gguf'
0.00.033.444 E llama_model_load: error loading model: tensor 'blk.16' data is not within the file
0.00.033.770 E common_fit_params: encountered an error: failed to load model
0.00.047.398 I srv    operator(): operator(): cleaning up before exit...
0.00.047.948 E srv          init: exiting due to model loading error
llama-server: the model cut.gguf could not be served; the lines above say why (Failed)
""".splitlines()

TAKEN_PORT = """\
0.00.003.737 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 1
0.00.003.808 E srv          init: exiting due to HTTP server error
llama-server: cannot listen on 127.0.0.1 port 18555: another program listens there
""".splitlines()


def test_nothing_yet() -> None:
    assert read_phase([], TABLE) == Phase(phase="starting", title="starting")
    assert read_phase(["hello"], TABLE).fraction is None


@pytest.mark.parametrize(
    ("count", "phase"),
    [
        (1, "starting"),
        (5, "starting"),
        (6, "loading-weights"),
        (7, "allocating"),
        (8, "warming-up"),
        (9, "warming-up"),
        (10, "listening"),
        (13, "listening"),
    ],
)
def test_a_start_line_by_line(count: int, phase: str) -> None:
    assert read_phase(LOG[:count], TABLE).phase == phase


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        (FAILED_LOAD, "the model cannot be loaded"),
        (TAKEN_PORT, "the port cannot be opened"),
        (["error: invalid argument: --nope"], "the engine refuses a flag"),
    ],
)
def test_failures(lines: list[str], title: str) -> None:
    assert read_phase(lines, TABLE) == Phase(phase="failed", title=title)


def test_a_new_start_after_a_failure() -> None:
    assert read_phase([*FAILED_LOAD, *LOG[:6]], TABLE).phase == "loading-weights"


@pytest.mark.parametrize("row", TABLE.log.phases, ids=lambda row: row.title)
def test_each_example_tells_its_own_phase(row: PhaseRow) -> None:
    assert read_phase([row.example], TABLE).phase == row.phase


@pytest.mark.parametrize(
    ("line", "fraction"), [("40%", 0.4), ("62.5%", 0.625), ("100%", 1.0), ("250%", 1.0)]
)
def test_a_percentage(line: str, fraction: float) -> None:
    row = PhaseRow(
        pattern=r"(?P<percent>[\d.]+)%", phase="loading-weights", title="loading", example="1%"
    )
    table = replace(TABLE, log=replace(TABLE.log, phases=(row,)))
    assert read_phase(["10%", line], table).fraction == fraction


VLLM_PREFIX = "(EngineCore pid=7) ERROR 11-30 10:00:00 [core.py:100] "
VLLM_FAILURE = [
    "INFO 11-30 10:00:00 [api_server.py:1] vLLM API server version 0.33.0",
    f"{VLLM_PREFIX}EngineCore failed to start.",
    f"{VLLM_PREFIX}Traceback (most recent call last):",
    f'{VLLM_PREFIX}  File "core.py", line 3, in run',
    f"{VLLM_PREFIX}    raise ValueError(",
    f"{VLLM_PREFIX}    except ValueError:",
    f"{VLLM_PREFIX}ValueError: the cause of it all",
    "(APIServer pid=1) Traceback (most recent call last):",
    '(APIServer pid=1)   File "api_server.py", line 9, in main',
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
]


def test_the_first_error_is_the_cause_not_the_parents_word() -> None:
    table = load_engine_table("vllm")
    found = find_error(VLLM_FAILURE, table)
    assert found is not None
    assert VLLM_FAILURE[found.start] == f"{VLLM_PREFIX}EngineCore failed to start."
    assert VLLM_FAILURE[found.stop - 1].endswith("ValueError: the cause of it all")


def test_a_line_without_a_trace_is_an_error_by_itself() -> None:
    assert find_error(FAILED_LOAD, TABLE) == range(1, 2)
    assert find_error(LOG, TABLE) is None


@pytest.mark.parametrize("depth", [5, 500])
@pytest.mark.parametrize("end", ["ValueError: no", "torch.cuda.OutOfMemoryError", ""])
def test_of_a_long_trace_the_end_is_shown(depth: int, end: str) -> None:
    frames = [f"  File x.py, line {number}" for number in range(depth)]
    lines = ["hello", "[TP0] Traceback (most recent call last):", *frames, end]
    found = find_error(lines, TABLE)
    assert found is not None
    assert len(found) <= MOST_ERROR_LINES
    assert not end or lines[found.stop - 1] == end
