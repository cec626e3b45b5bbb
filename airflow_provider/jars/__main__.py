"""Fetch the jars of Spark's Kafka connector and of the kit's broker into the user's cache.

Run it where a host image is built: instances then start without a network.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_provider.errors import StatefulStreamsError
from airflow_provider.jars.jar_sets import kafka_broker_jars, spark_kafka_jars


def main(arguments: Sequence[str] | None = None) -> int:
    """Resolve both sets and print where they are.

    Returns:
        0 when both are in the cache; 1 when one could not be resolved, with the reason on standard error.
    """
    parser = argparse.ArgumentParser(prog="python -m airflow_provider.jars", description=__doc__)
    parser.add_argument("--ivy-settings", type=Path, metavar="FILE", help="Ivy settings that name a mirror")
    asked = parser.parse_args(arguments)
    print("Jars: from the cache, or from Maven Central the first time (about a minute)", flush=True)
    try:
        for name, jar_set in (("Spark's Kafka connector", spark_kafka_jars), ("Kafka's broker", kafka_broker_jars)):
            jars = jar_set(settings_file=asked.ivy_settings)
            print(f"  {name}: {len(jars)} jars in {jars[0].parent}", flush=True)
    except StatefulStreamsError as error:
        print(f"jars: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
