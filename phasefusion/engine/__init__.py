"""Where the passes of a run are made: here, in shards, or on a Ray cluster."""
