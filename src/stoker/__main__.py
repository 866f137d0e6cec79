"""``python -m stoker``: the same as the ``stoker`` command."""

from stoker.cli.main import run

if __name__ == "__main__":
    run()
