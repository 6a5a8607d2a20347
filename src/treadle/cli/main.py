"""The command line's parser and exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

import treadle
from treadle.cli.commands.check import check
from treadle.cli.commands.compare import compare_command
from treadle.cli.commands.convert import convert_command
from treadle.cli.commands.explain import explain
from treadle.cli.commands.inspect import inspect
from treadle.cli.commands.run import run
from treadle.cli.commands.simulate import simulate
from treadle.cli.commands.sweep import sweep
from treadle.cli.commands.threads import threads
from treadle.cli.commands.tune import tune
from treadle.errors import TreadleError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(treadle.__version__, prog_name="treadle")
def treadle_command() -> None:
    """Run models on CPUs with one team of threads for both levels of parallelism."""


for command in (run, tune, sweep, explain, simulate, compare_command, convert_command, check, inspect, threads):
    treadle_command.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code. Data goes to stdout, everything else to stderr."""
    try:
        result = treadle_command.main(args=arguments, prog_name="treadle", standalone_mode=False)
        if sys.stdout is not None:  # None if the shell has closed it
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        click.echo("treadle: interrupted", err=True)
        return 130
    except KeyboardInterrupt:
        click.echo("treadle: interrupted", err=True)
        return 130
    except click.ClickException as error:
        if sys.stderr is not None:  # otherwise click would write to stdout
            error.show(file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of the output has closed its pipe, as `head` does
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 1
    except (TreadleError, OSError, MemoryError) as error:
        click.echo(f"treadle: {type(error).__name__}: {error}", err=True)
        return 1
