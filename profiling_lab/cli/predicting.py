"""`lab predict`: an interval for what a change saves, before its measurement is seen."""

from __future__ import annotations

import click

from profiling_lab.cli.screen import LAB, bold, dim, wrap
from profiling_lab.course import lab_folder, predictions
from profiling_lab.course.manifest import find_root
from profiling_lab.course.predictions import CHANGES, Outcome

COLUMNS = 41
LEFT_PCT, RIGHT_PCT = -25, 100  # of the plot; what lies further left stands at its end


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.argument("low", required=False)
@click.argument("high", required=False)
@click.option("--again", is_flag=True, help="Forget all predictions, and start again.")
def predict(name: str | None, low: str | None, high: str | None, again: bool) -> int:
    """Predict what a change saves, then see what was measured.

    Give an interval, in percent of the time before the change. Make it so wide that you expect to be right
    four times in five. Below 0 the change costs time. Only the first answer counts. It is kept in .lab/, and
    then you see what was measured. Without a NAME you see all predictions of the week, how close they
    were, and whether your intervals are too narrow or too wide.

    \b
      uv run lab predict                       all questions, and how you did
      uv run lab predict inference             one question
      uv run lab predict inference 40% 70%     your answer
    """
    root = find_root()
    if again:
        lab_folder.write(root, predictions.KEPT, {})
    if name is None:
        _list(predictions.outcomes(root))
        return 0
    change = predictions.named(name)
    if low is None or high is None:
        click.echo(bold(change.name))
        click.echo(wrap(change.text))
        done = [one for one in predictions.outcomes(root) if one.name == name]
        told = _in_words(done[0]) if done else dim(f"Answer it: {LAB} predict {name} LOW% HIGH%")
        click.echo(told)
        click.echo(dim(f"Lesson: {change.lesson}"))
        return 0
    outcome = predictions.keep(root, name, predictions.percent(low), predictions.percent(high))
    told = "Inside your interval." if outcome.holds else "Outside your interval."
    click.echo(
        f"Measured without a profiler: {outcome.measured_pct:.1f} % of the time saved. {told}"
    )
    click.echo(wrap(predictions.calibration(predictions.outcomes(root))))
    return 0


def _list(told: list[Outcome]) -> None:
    done = {outcome.name: outcome for outcome in told}
    lesson = ""
    for change in CHANGES:
        if change.lesson != lesson:
            lesson = change.lesson
            click.echo(dim(lesson))
        if outcome := done.get(change.name):
            click.echo(f"  {change.name:<10}{_plot(outcome)}  {_in_words(outcome)}")
        else:
            click.echo(f"  {change.name:<10}{dim(f'{LAB} predict {change.name}')}")
    if told:
        click.echo(
            f"  {'':<10}{f'{LEFT_PCT} %':<8}0 %{f'{RIGHT_PCT} %':>30}   ─ yours, ● inside, ○ outside"
        )
        click.echo(wrap(predictions.calibration(told)))


def _in_words(outcome: Outcome) -> str:
    return (
        f"{outcome.low_pct:4g} to {outcome.high_pct:3g} %, measured {outcome.measured_pct:4.1f} %"
    )


def _plot(outcome: Outcome) -> str:
    """The interval as a line, and the measurement as a dot on it or beside it."""

    def place(pct: float) -> int:
        return round((max(pct, LEFT_PCT) - LEFT_PCT) / (RIGHT_PCT - LEFT_PCT) * (COLUMNS - 1))

    row = [" "] * COLUMNS
    row[place(0)] = "·"
    for at in range(place(outcome.low_pct), place(outcome.high_pct) + 1):
        row[at] = "─"
    row[place(outcome.measured_pct)] = "●" if outcome.holds else "○"
    return "".join(row)
