"""One restore by quixstreams, run as a file by a Python that has it: it prints one line of JSON.

Measured around its own recovery loop: the start of Python and the rebalance before it are not in the figures.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any


def main(bootstrap_servers: str, group: str, source: str, state_dir: str) -> None:
    quixstreams: Any = importlib.import_module("quixstreams")
    application = quixstreams.Application(
        bootstrap_servers,
        consumer_group=group,
        state_dir=state_dir,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        loglevel="WARNING",
    )
    frame = application.dataframe(application.topic(source))
    frame.apply(lambda value, state: value, stateful=True)
    # It offers no listener; the loop that restores is one call.
    manager = application._state_manager  # noqa: SLF001
    recover = manager.do_recovery

    def timed() -> None:
        begun, cpu = time.monotonic(), time.process_time()
        recover()
        took, used = time.monotonic() - begun, time.process_time() - cpu
        print(json.dumps({"seconds": took, "cpu_seconds": used}), flush=True)
        application.stop()

    manager.do_recovery = timed
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
