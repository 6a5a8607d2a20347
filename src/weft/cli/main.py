"""The parser, and what exit code an error becomes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

import weft
from weft.cli.commands.inspect import inspect
from weft.cli.commands.run import run
from weft.cli.commands.threads import threads
from weft.cli.commands.tune import tune
from weft.errors import WeftError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(weft.__version__, prog_name="weft")
def weft_command() -> None:
    """Run models on CPUs with one team of threads for both levels of parallelism."""


for command in (run, tune, inspect, threads):
    weft_command.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Data goes to stdout, everything else to stderr."""
    try:
        result = weft_command.main(args=arguments, prog_name="weft", standalone_mode=False)
        if sys.stdout is not None:  # as it is where the shell has closed it
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        click.echo("weft: interrupted", err=True)
        return 130
    except KeyboardInterrupt:
        click.echo("weft: interrupted", err=True)
        return 130
    except click.ClickException as error:
        if sys.stderr is not None:  # else it would go to stdout
            error.show(file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever reads our output has seen enough, as `head` has
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 1
    except (WeftError, OSError, MemoryError) as error:
        click.echo(f"weft: {type(error).__name__}: {error}", err=True)
        return 1
