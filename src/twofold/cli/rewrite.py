"""`twofold adopt` and `twofold reembed`: other vectors for a collection that is there."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli.console import out, print_json, progress_bar
from twofold.cli.target import AsJson, Target, with_options
from twofold.errors import ConfigError

if TYPE_CHECKING:
    from twofold.index.rewriting import Rewritten

DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Change nothing, only say what would be done.")]


@with_options
def adopt(
    target: Target,
    beside: Annotated[
        bool, typer.Option("--beside", help="Write a new collection, also where the engine can add to the old one.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a collection hybrid, whatever wrote it: add the words that its rows lack."""
    with target.open(create=False) as index, progress_bar() as begin:
        done = index.adopt(in_place=False if beside else None, dry_run=dry_run, progress=begin("adding words", None))
    _tell(target, done, as_json, "words")


@with_options
def reembed(
    target: Target,
    to: Annotated[
        str | None, typer.Option("--to", help="The other model: fast, best, multilingual, or a name.")
    ] = None,
    to_language: Annotated[str | None, typer.Option(help="The other language of the words.")] = None,
    dry_run: DryRun = False,
    drop_replaced: Annotated[
        bool, typer.Option("--drop-replaced", help="Only delete the old collection, which was kept until now.")
    ] = False,
    drop_unfinished: Annotated[
        bool, typer.Option("--drop-unfinished", help="Only give up a run that was begun and not finished.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a collection anew with another model, and let it take the place of the old one."""
    if drop_replaced or drop_unfinished:
        with target.open(create=False) as index:
            gone = index.drop_unfinished() if drop_unfinished else index.drop_replaced()
        if as_json:
            print_json({"deleted": gone})
        else:
            out().print("there is nothing to delete" if gone is None else f"deleted {gone}", soft_wrap=True)
        return
    if to is None and to_language is None:
        raise ConfigError("say what is to change: --to best, or --to-language portuguese")
    with target.open(create=False) as index, progress_bar() as begin:
        done = index.reembed(to, language=to_language, dry_run=dry_run, progress=begin("embedding", None))
    _tell(target, done, as_json, "new vectors")


def _tell(target: Target, done: Rewritten, as_json: bool, what: str) -> None:
    if as_json:
        print_json({**asdict(done), "problems": [asdict(each) for each in done.problems]})
        return
    say = out()
    would = "would get" if done.dry_run else "got"
    say.print(f"{done.encoded:,} of {done.documents:,} rows {would} {what}", soft_wrap=True)
    for problem in done.problems:
        say.print(f"row {problem.id} was left as it is: {problem.reason}", soft_wrap=True)
    if done.replaces is not None and done.dry_run:
        say.print(
            f"in a new collection {done.collection}, which would take the place of {done.replaces}", soft_wrap=True
        )
    elif done.replaces is not None:
        say.print(f"{done.collection} has taken the place of {done.replaces}, which is kept", soft_wrap=True)
        say.print(f"delete the old one: {target.command('reembed --drop-replaced')}", soft_wrap=True)
