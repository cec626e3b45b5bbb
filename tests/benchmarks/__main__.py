"""All measurements, one after the other; each can be run alone with ``python -m tests.benchmarks.<name>``."""

from __future__ import annotations

from tests.benchmarks import active_step, restore


def main() -> None:
    for name, measurement in (("active step", active_step), ("restore", restore)):
        print(f"== {name}", flush=True)
        measurement.main()


if __name__ == "__main__":
    main()
