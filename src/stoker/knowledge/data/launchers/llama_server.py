"""llama-server for the xllamacpp package: its own flags, its own server, no command line of ours.

This text becomes ``bin/llama-server`` of an environment and runs on the environment's Python. It
must not import anything but the standard library and xllamacpp, which needs an OpenMP library.

The package brings the whole server of llama.cpp but no command for it. Its documented interface
is one attribute for each option, which would need a second table of all 252 options beside the
engine's own. So this program uses the engine's own parser, ``common_params_parse``, which the
package's library exports, and lets it fill the very structure that the package's ``CommonParams``
holds. Where that structure lies is not documented. Therefore the package's version is pinned
(other versions are refused before anything is touched) and every start first lets a child process
parse two values that are known and read them back through the documented attributes.
"""

import contextlib
import ctypes
import errno
import importlib
import importlib.metadata
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

PACKAGE = "xllamacpp"
PACKAGE_VERSION = "@version:xllamacpp@"
BUILD = "@build@"

#: What the package's library is linked to. GNU's comes with compilers, so a machine may have none.
OPENMP_LIBRARY = "libgomp.so.1"
#: The distribution that brings LLVM's, which has GNU's interface too, and where in it.
OPENMP_PACKAGE = "cmeel-libomp"
OPENMP_FOLDER = "cmeel.prefix/lib"
LIBRARY_PATH = "LD_LIBRARY_PATH"

#: common_params_parse(int, char**, common_params&, llama_example, void (*)(int, char**)) in the
#: naming of the Itanium C++ ABI, which Linux and macOS share.
PARSER_SYMBOL = "_Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E"
#: LLAMA_EXAMPLE_SERVER in common/common.h of this build: which programs an option belongs to.
SERVER_OPTIONS = 12
#: The structure follows the header that every Python object begins with.
STRUCTURE_OFFSET_BYTES = object.__basicsize__

KNOWN_CONTEXT_TOKENS = 777
KNOWN_PORT = 12345

#: Only this program itself uses it, see child_finds_layout_known.
CHECK_LAYOUT = "--check-layout"
CHECK_TIMEOUT_SECONDS = 60

LISTENING_FAILURES = {
    errno.EADDRINUSE: "another program listens there",
    errno.EACCES: "this user may not use that port",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
}

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_WRONG_PACKAGE = 70


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal comes. Answers the exit status."""
    package = load_package()
    if list(arguments) == [CHECK_LAYOUT]:
        return EXIT_OK if layout_is_known(package) else EXIT_WRONG_PACKAGE
    if "--version" in arguments:
        sys.stdout.write(f"version: {BUILD.removeprefix('b')} ({PACKAGE} {PACKAGE_VERSION})\n")
        return EXIT_OK
    if not child_finds_layout_known():
        refuse(f"{PACKAGE} {PACKAGE_VERSION} keeps its options elsewhere than this program expects")
    if list(arguments) == ["--self-test"]:
        say(f"{PACKAGE} {PACKAGE_VERSION} understands the flags of llama-server")
        return EXIT_OK
    params = parse_flags(package, arguments)
    if params is None:
        return EXIT_USAGE
    if not params.model.path:
        say("no model was given: --model FILE")
        return EXIT_USAGE
    return serve(package, params)


def load_package() -> Any:
    """The package's modules; ends the program if they are not the ones this text was made for."""
    if sys.platform == "linux":
        ensure_openmp()
    try:
        found = importlib.metadata.version(PACKAGE)
        package = importlib.import_module(PACKAGE)
    except ImportError as error:
        refuse(f"{PACKAGE} cannot be loaded: {error}")
    if found != PACKAGE_VERSION:
        refuse(f"this program was made for {PACKAGE} {PACKAGE_VERSION}, but {found} is installed")
    return package


def ensure_openmp() -> None:
    """Begin again with the environment's own OpenMP library if the machine has none.

    The loader reads the path of libraries once, when a program begins; replacing the program
    keeps its process, so whoever watches it notices nothing.
    """
    try:
        ctypes.CDLL(OPENMP_LIBRARY)
        return
    except OSError:
        known = os.environ.get(LIBRARY_PATH, "")
    try:
        folder = str(importlib.metadata.distribution(OPENMP_PACKAGE).locate_file(OPENMP_FOLDER))
    except ImportError:
        return  # there is none; what needs it says so
    if folder in known.split(os.pathsep):
        return  # it was tried already
    path = os.pathsep.join(filter(None, [folder, known]))
    os.execve(
        sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, LIBRARY_PATH: path}
    )


def child_finds_layout_known() -> bool:
    """Try the structure in a process of its own: a parser that fills the wrong place may abort."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
    try:
        tried = subprocess.run(
            [sys.executable, os.path.abspath(__file__), CHECK_LAYOUT],
            env={**env, "GGML_NO_BACKTRACE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CHECK_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return tried.returncode == EXIT_OK


def layout_is_known(package: Any) -> bool:
    """Parse known values and read them back through the documented attributes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    known = ["--ctx-size", str(KNOWN_CONTEXT_TOKENS), "--port", str(KNOWN_PORT)]
    params = parse_flags(package, known)
    found = (params.n_ctx, params.port) if params is not None else None
    return found == (KNOWN_CONTEXT_TOKENS, KNOWN_PORT)


def parse_flags(package: Any, arguments: Sequence[str]) -> Any:
    """The package's parameters as the engine's own parser fills them, or None.

    The parser itself prints what is wrong, and for ``--help`` the help, and then ends the program.
    """
    params = package.CommonParams()
    library = ctypes.CDLL(package.xllamacpp.__file__)
    try:
        parse = getattr(library, PARSER_SYMBOL)
    except AttributeError:
        refuse(f"{PACKAGE} {PACKAGE_VERSION} does not export the parser of llama-server")
    parse.restype = ctypes.c_bool
    parse.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int, ctypes.c_void_p]
    words = [b"llama-server", *(os.fsencode(word) for word in arguments)]
    vector = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    place = id(params) + STRUCTURE_OFFSET_BYTES
    return params if parse(len(words), vector, place, SERVER_OPTIONS, None) else None


def serve(package: Any, params: Any) -> int:
    """Load the model, serve, and wait for a signal. Answers the exit status.

    While the model loads, the package holds Python's lock, so no handler of ours could run: the
    signals keep the system's own effect and end the program at once, with nothing to tidy.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        server = package.Server(params)
    except (RuntimeError, ValueError) as error:
        say_beside_log(explain_failure(params, error))
        return EXIT_FAILED
    wait_for_signal()
    # Not `del server`: the package then waits for every answer in flight, up to half a minute,
    # and holds Python's lock meanwhile. A stop is a stop; the system takes back the rest.
    say_beside_log(f"stopped {server.listening_address}")
    sys.stdout.flush()
    os._exit(EXIT_OK)


def wait_for_signal() -> None:
    """Return when SIGTERM or SIGINT has come.

    The signal may reach any thread of the engine; a byte in a pipe wakes this one in any case.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note_signal)
    os.read(reading, 1)


def note_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing: that the signal came is what counts, and the pipe tells it."""


def explain_failure(params: Any, error: Exception) -> str:
    """One sentence about why the server did not come up, as far as it can be seen from here."""
    for host in params.hostnames:
        if reason := why_not_listening(host, params.port):
            return f"cannot listen on {host} port {params.port}: {reason}"
    path = params.model.path
    if not os.path.exists(path):
        return f"the model {path} does not exist"
    if not os.access(path, os.R_OK):
        return f"the model {path} may not be read by this user"
    return f"the model {path} could not be served; the lines above say why ({error})"


def why_not_listening(host: str, port: int) -> str:
    """Why nobody can listen there now; empty if it can be done, or if this is not an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.closing(socket.socket(family)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            return LISTENING_FAILURES.get(error.errno or 0, "")
        return ""


def refuse(sentence: str) -> NoReturn:
    """End the program because the package is not what this text was made for."""
    say(sentence)
    sys.exit(EXIT_WRONG_PACKAGE)


def say(sentence: str, *, begin: str = "") -> None:
    """One line to where the engine's own log goes, in one piece."""
    line = f"{begin}llama-server: {sentence}\n"
    os.write(sys.stderr.fileno(), line.encode(errors="replace"))


def say_beside_log(sentence: str) -> None:
    """The same while the engine may log, on a line of its own.

    The engine writes its log from another thread and a line in several pieces; ours may come
    between two of them.
    """
    say(sentence, begin="\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
