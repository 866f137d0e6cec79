"""What was taken over from a running server, as a person reads it."""

from __future__ import annotations

import shlex

from stoker.model.adoption import Adoption
from stoker.report.comparison_text import render_differences


def render_adoption(adoption: Adoption) -> str:
    """What was written, what is not the same, and what to do next."""
    lines = [f"Wrote {adoption.file} from process {adoption.pid} ({adoption.engine})."]
    lines += [
        f"  the secret of {secret.label} lies in {secret.file}" for secret in adoption.secrets
    ]
    lines.append("")
    if adoption.differences:
        lines.append("The deployment would start it with these differences:")
        lines += [
            f"  {line}"
            for line in render_differences(adoption.differences, a="runs now", b=adoption.name)
        ]
    else:
        lines.append("The deployment would start it exactly as it runs now.")
    if adoption.left_out:
        names = ", ".join(adoption.left_out)
        lines += ["", f"Not taken over, for no engine is known to read them: {names}"]
    lines += ["", *adoption.notes] if adoption.notes else []
    lines += ["", "Read the file, then:", *(f"  {step}" for step in next_steps(adoption))]
    return "\n".join(lines) + "\n"


def next_steps(adoption: Adoption) -> list[str]:
    """The commands by which the deployment takes the place of what runs."""
    file = shlex.quote(adoption.file)
    return [f"stoker plan {file}", f"stoker apply {file} --end-holders {adoption.pid}"]
