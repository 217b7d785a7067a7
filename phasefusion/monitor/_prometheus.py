"""The newest numbers of a history as a file for Prometheus."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from phasefusion._install import remedy
from phasefusion.errors import BackendUnavailableError

if TYPE_CHECKING:
    from phasefusion.monitor._watching import MeasureWatch, Watch

_PREFIX = "phasefusion_monitor_"
_OF_MEASURE = {
    "ratio": "Newest value of the measure, 0 to 1",
    "center_ratio": "Its mean in the baseline, 0 to 1",
    "lower_ratio": "Lower limit of the p chart for the newest batch, 0 to 1",
    "upper_ratio": "Upper limit of the p chart for the newest batch, 0 to 1",
    "items": "Items of the newest batch that the measure is of",
}


def write(watch: Watch, path: Path, name: str) -> Path:
    """Write the file; see `Watch.write_prometheus`."""
    try:
        from prometheus_client import (
            CollectorRegistry,
            Gauge,
            generate_latest,
            write_to_textfile,
        )
    except ImportError as error:
        raise BackendUnavailableError(
            "files for Prometheus need prometheus-client: "
            f"{remedy('prometheus-client')}"
        ) from error
    registry = CollectorRegistry()

    def gauge(metric: str, said: str, *labels: str) -> Gauge:
        return Gauge(_PREFIX + metric, said, ["history", *labels], registry=registry)

    batches = gauge("batches", "Batches of the history")
    batches.labels(name).set(watch.n_batches)
    newest = gauge("last_batch_timestamp_seconds", "Time of the newest batch")
    limit = gauge("cusum_limit", "Limit of the CUSUMs, in sigmas")
    limit.labels(name).set(watch.h)
    of_measure = {
        metric: gauge(metric, said, "measure") for metric, said in _OF_MEASURE.items()
    }
    sums = gauge("cusum", "Sum of the CUSUM, in sigmas", "measure", "side")
    alarm = gauge("alarm", "1 while an alert is active", "measure", "chart", "side")
    since = gauge(
        "alarm_since_timestamp_seconds",
        "When what the active alert is of began",
        "measure",
        "chart",
        "side",
    )
    newest.labels(name).set(max(_seconds(one.at[-1]) for one in watch.measures))
    for one in watch.measures:
        for metric, value in _values(one).items():
            if not math.isnan(value):
                of_measure[metric].labels(name, one.measure).set(value)
        for side, series in (("fell", one.cusum_fell), ("rose", one.cusum_rose)):
            if not math.isnan(series[-1]):
                sums.labels(name, one.measure, side).set(series[-1])
        active = {(a.chart, a.side): a for a in one.alerts if a.active}
        for chart in ("p chart", "CUSUM"):
            for side in ("fell", "rose"):
                labels = (name, one.measure, chart.replace(" ", "_").lower(), side)
                found = active.get((chart, side))  # type: ignore[arg-type]
                alarm.labels(*labels).set(int(found is not None))
                if found is not None:
                    since.labels(*labels).set(_seconds(found.since))
    if path.exists() and not path.is_file():  # a device or a pipe stays what it is
        path.write_bytes(generate_latest(registry))
    else:
        write_to_textfile(str(path), registry)
    return path


def _values(one: MeasureWatch) -> dict[str, float]:
    return {
        "ratio": one.values[-1],
        "center_ratio": math.nan if one.baseline is None else one.baseline.center,
        "lower_ratio": one.lower[-1],
        "upper_ratio": one.upper[-1],
        "items": float(one.sizes[-1]),
    }


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
