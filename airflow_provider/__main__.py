"""``python -m airflow_provider``: the command line, as ``stateful-streams``."""

from __future__ import annotations

import sys

from airflow_provider.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
