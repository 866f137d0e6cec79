"""The commands of an environment that its packages do not bring: small Python programs.

Called while an environment is made. Pure: texts by path.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

#: The kernel reads so much of a first line, ``#!`` and the end of line included. It was 127 before
#: Linux 5.1 and is 255 since (execve(2), "Interpreter scripts").
_LONGEST_FIRST_LINE = 127


def render_launcher(path: str, program: str, *, interpreter: str) -> Mapping[str, str]:
    """The files, by absolute path, that make ``path`` run a program with ``interpreter``.

    The program is the file itself, with a first line that names the interpreter. Where the kernel
    would not understand that line, a shell script stands there instead and the program beside it.
    """
    first_line = f"#!{interpreter}\n"
    if len(first_line.encode()) <= _LONGEST_FIRST_LINE and not any(map(str.isspace, interpreter)):
        return {path: first_line + program}
    beside = f"{path}.py"
    script = f'#!/bin/sh\nexec {shlex.quote(interpreter)} {shlex.quote(beside)} "$@"\n'
    return {path: script, beside: program}
