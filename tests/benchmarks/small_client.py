"""A small load generator: so many requests, one after the other; what it says is always the same.

Run as a program by the tests of trials.
"""

import json
import sys
from http.client import HTTPConnection
from pathlib import Path


def main() -> int:
    url, requests, tokens, status = sys.argv[1:5]
    connection = HTTPConnection(url.removeprefix("http://"))
    messages = [{"role": "user", "content": "x"}]
    body = {"messages": messages, "max_tokens": int(tokens), "stream": True}
    for _ in range(int(requests)):
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        connection.getresponse().read()
    said = {"rate": 5.0, "ttft": {"mean": 3}, "doubts": ["it was late"]}
    if "silent" not in sys.argv:
        Path("result.json").write_text(json.dumps(said), "utf-8")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
