"""Deployment files: YAML 1.2 text to a validated deployment and back.

Called by the verbs. Everything here is a function of text and values; files are read and written
elsewhere.
"""

from stoker.spec.edit import apply_changes, edit_deployment
from stoker.spec.parse import parse_deployment
from stoker.spec.render import render_deployment
from stoker.spec.schema import deployment_schema
from stoker.spec.template import load_embedded_example, render_template

__all__ = [
    "apply_changes",
    "deployment_schema",
    "edit_deployment",
    "load_embedded_example",
    "parse_deployment",
    "render_deployment",
    "render_template",
]
