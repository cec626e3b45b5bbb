"""All measurements, one after the other; each can be run alone with ``python -m tests.benchmarks.<name>``."""

from __future__ import annotations

import argparse

from tests.benchmarks import (
    active_step,
    compare_active,
    compare_joins,
    compare_restore,
    compare_windows,
    compare_words,
    restore,
    snapshot,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", action="store_true", help="against Kafka Streams, on the same broker and data")
    if parser.parse_args().compare:
        print("== active step", flush=True)
        compare_active.main([])
        for name, comparison in (("words", compare_words), ("windows", compare_windows), ("joins", compare_joins)):
            print(f"== {name}", flush=True)
            comparison.main([])
        print("== restore, every key once", flush=True)
        compare_restore.main([])
        print("== restore, every key five times", flush=True)
        compare_restore.main(["--records", "5000000", "--keys", "1000000"])
        return
    for name, measurement in (("active step", active_step), ("restore", restore), ("snapshot", snapshot)):
        print(f"== {name}", flush=True)
        measurement.main()


if __name__ == "__main__":
    main()
