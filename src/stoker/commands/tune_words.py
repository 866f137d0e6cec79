"""What a search says of its trials and of its end."""

from __future__ import annotations

from stoker.model.campaign import Campaign
from stoker.model.tuning import Aim, Outcome, Purpose, Trial
from stoker.tuning.steps import Finish


def describe_trial(campaign: Campaign, trial: Trial) -> str:
    """What came of a trial, in a line."""
    if not trial.values:
        return f"  {trial.outcome.value}: {trial.said}"
    value = sum(trial.values) / len(trial.values)
    baselines = [each for each in campaign.trials if each.purpose is Purpose.BASELINE]
    first = next((each for each in baselines if each.values), None)
    if first is None or first is trial:
        return f"  {render_value(campaign.aim, value)}"
    ratio = value / (sum(first.values) / len(first.values))
    gone = " (given up early)" if trial.outcome is Outcome.STOPPED else ""
    return f"  {render_value(campaign.aim, value)}, {ratio:.2f} times the baseline{gone}"


def render_value(aim: Aim, value: float) -> str:
    """An objective's value with its unit."""
    if aim.metric == "latency":
        return f"{1000.0 / value:,.0f} ms from request to end (median)"
    unit = "output tokens/s" if aim.metric == "throughput" else "good requests/s"
    return f"{value:,.1f} {unit}"


def describe_gain(aim: Aim, finish: Finish) -> str:
    """What was confirmed, for the deployment file."""
    at_once = ", ".join(map(str, aim.concurrencies))
    ratio = finish.ratio
    if ratio is None:
        return finish.reason
    what = {
        "throughput": "the output tokens/s",
        "latency": "the speed of a whole answer",
        "goodput": "the good requests/s",
    }[aim.metric]
    return (
        f"{ratio.ratio:.2f} times {what} ({ratio.low:.2f} to {ratio.high:.2f}) with {at_once} "
        f"requests at once, workload {aim.workload}"
    )
