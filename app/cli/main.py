"""The command group and how commands end.

Law of this room: a command raises; only :func:`main` turns what it raised into words and a status.
"""

from __future__ import annotations

import logging
import os
import sys
import typing as t

import click

from app import __version__
from app.cli import (
    audit,
    chats,
    check_stream,
    conformance,
    decisions,
    documents,
    inspect,
    keys,
    new_plugin,
    owner,
    run,
    secrets,
    serve,
    versions,
    workflows,
)
from app.cli.context import warn
from app.cli.render import harmless
from app.config import ConfigError
from app.errors import ApiError, StudioError, ValidationFailed

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="studio", message="%(prog)s %(version)s")
def cli() -> None:
    """Studio: agent workflows over HTTP, streamed token by token.

    Workflows, keys and runs are kept under STUDIO_DATA_DIR (default: instance/).
    """


for command in (
    serve.serve,
    serve.migrate,
    workflows.workflow,
    chats.chat,
    keys.key,
    audit.audit,
    owner.owner,
    documents.documents,
    secrets.secret,
    run.run,
    decisions.decisions,
    check_stream.check_stream,
    inspect.plugins,
    inspect.capabilities,
    conformance.conformance,
    new_plugin.new_plugin,
):
    cli.add_command(command)
for command in versions.COMMANDS:
    workflows.workflow.add_command(command)


def main(args: t.Sequence[str] | None = None) -> int:
    """Run one command line.

    :param args: default: those of the process.
    :returns: 0 done, 1 failed, 2 bad input, 130 interrupted.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # What is wrong with a plugin `studio plugins` says, the kit, and the log of a server; no need in every command.
    logging.getLogger("studio.plugins.report").setLevel(logging.ERROR)
    try:
        result = cli.main(
            args=None if args is None else list(args), prog_name="studio", standalone_mode=False
        )
        return result if isinstance(result, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ConfigError as error:
        click.echo(str(error), err=True)
        return BAD_INPUT
    except StudioError as error:
        return _tell(error)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain when it flushes.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return FAILED


def _tell(error: StudioError) -> int:
    """Every problem on a line of its own, as path and cure; else the one message."""
    # Of a conflict they are facts, and the message says them.
    details = error.details if isinstance(error, ApiError) and error.status != 409 else ()
    for problem in details:
        told = f"{problem.path}: {problem.message}" if problem.path else problem.message
        click.echo(harmless(told), err=True)
    if not details:
        click.echo(harmless(error.message), err=True)
    warn(error.warnings if isinstance(error, ValidationFailed) else ())
    refused = isinstance(error, ApiError) and error.status < 500 and error.status != 429
    return BAD_INPUT if refused else FAILED
