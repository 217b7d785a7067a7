"""One run on a local Ray cluster, as a process that tests may kill.

    python ray_driver.py QUESTIONS OUT JSON

JSON holds options of `evaluate`, "engine" of RayEngine, "scorer" of Watched.
"""

import json
import os
import sys
import warnings

from pixel_scorer import PixelScorer

from phasefusion.engine import Limits, RayEngine
from phasefusion.errors import WorkerWarning
from phasefusion.evaluate import evaluate


class Watched(PixelScorer):
    """Leaves the number of its process in a folder, and can kill itself."""

    def __init__(self, folder, *, delay_s=0.0, deadly=None, once=False):
        super().__init__(delay_s=delay_s)
        self.folder, self.deadly, self.once = folder, deadly, once
        open(os.path.join(folder, f"{os.getpid()}.pid"), "w").close()

    def score(self, clip, question, options, *, orders=None):
        if self.deadly in options:
            os._exit(3)
        return super().score(clip, question, options, orders=orders)

    def describe(self):
        return PixelScorer.describe(self)


def main():
    questions, out, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    scorer = settings.pop("scorer")
    engine = settings.pop("engine")
    limits = Limits(**engine.pop("limits", {}))
    start = {"num_cpus": 2, "object_store_memory": 80_000_000}
    engine = RayEngine(address="local", limits=limits, start=start, **engine)
    warnings.simplefilter("always", WorkerWarning)
    print("ready", flush=True)
    try:
        run = evaluate(
            questions, lambda: Watched(**scorer), out=out, engine=engine, **settings
        )
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise SystemExit(130) from None
    print(f"done {run.n_new}", flush=True)


if __name__ == "__main__":
    main()
