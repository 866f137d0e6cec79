"""supervisord's own reader, asked over a pipe: what it makes of a configuration.

Run as a script by the interpreter of supervisord's environment. Each line on standard input is
the path of a supervisord.conf, each line on standard output what was read, as JSON.
"""

import json
import shlex
import sys

from supervisor.options import ServerOptions  # type: ignore[import-not-found]


def read(path: str) -> dict[str, object]:
    options = ServerOptions()
    options.realize(args=["-c", path], progname="supervisord", doc="")
    programs = [
        {
            "name": program.name,
            "argv": shlex.split(program.command),
            "env": program.environment,
            "directory": program.directory,
            "uid": program.uid,
            "umask": program.umask,
            "autostart": program.autostart,
            "autorestart": getattr(program.autorestart, "__name__", program.autorestart),
            "exitcodes": program.exitcodes,
            "startsecs": program.startsecs,
            "startretries": program.startretries,
            "stopsignal": int(program.stopsignal),
            "stopwaitsecs": program.stopwaitsecs,
            "stopasgroup": program.stopasgroup,
            "killasgroup": program.killasgroup,
            "redirect_stderr": program.redirect_stderr,
            "log": program.stdout_logfile,
            "log_bytes": program.stdout_logfile_maxbytes,
            "log_backups": program.stdout_logfile_backups,
        }
        for group in options.process_group_configs
        for program in group.process_configs
    ]
    servers = [
        {"family": int(server["family"]), "file": server.get("file"), "chmod": server.get("chmod")}
        for server in options.configroot.supervisord.server_configs
    ]
    daemon = {
        "servers": servers,
        "pidfile": options.pidfile,
        "logfile": options.logfile,
        "user": options.user,
        "umask": options.umask,
        "directory": options.directory,
    }
    return {"programs": programs, "daemon": daemon, "warnings": options.parse_warnings}


for line in sys.stdin:
    sys.stdout.write(json.dumps(read(json.loads(line))) + "\n")
    sys.stdout.flush()
