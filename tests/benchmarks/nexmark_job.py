"""A query of Nexmark. Its argument is the application id, which is the query's name."""

import sys
from pathlib import Path

from airflow_provider.streaming import run

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.nexmark.queries import QUERIES

    run(QUERIES[sys.argv[1]]())
