from gevent import monkey; monkey.patch_all()  # noqa: D104, E702, I001  # fmt: skip
# The command line: `studio serve | migrate | workflow | key | run | plugins | capabilities`.
#
# Law of this room: line 1 patches, before anything else is imported; what a script may want to read goes
# to standard output and nothing else does. Exit status: 0 done, 1 failed, 2 bad input, 130 interrupted.

from app.cli.main import main

__all__ = ["main"]
