"""A job that counts the orders of each account; the second argument says what becomes of input that is lost."""

import sys

from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

if __name__ == "__main__":
    application_id, on_data_loss = sys.argv[1:]
    run(
        StatefulJob(
            application_id,
            stream(f"{application_id}-orders", schema="account STRING, amount BIGINT")
            .group_by("account", trust_partitioning=True)  # its records are spread by hand
            .aggregate(F.count().alias("n"), name="state")
            .sink(f"{application_id}-totals"),
        ).on_data_loss("continue" if on_data_loss == "continue" else "fail")
    )
