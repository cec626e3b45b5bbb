"""Each impression of an ad with the clicks of the ten minutes that follow, or alone where there was none."""

from airflow_provider.streaming import StatefulJob, run, stream

shown = stream(
    "impressions",
    schema="impression STRING, ad STRING, shown TIMESTAMP",
    event_time="shown",
    watermark="1 hour",
)
clicks = stream(
    "clicks",
    schema="impression STRING, clicked TIMESTAMP",
    event_time="clicked",
    watermark="1 hour",
)
attributed = shown.join(clicks, on="impression", how="left", after="10 minutes")

job = StatefulJob("attribution", attributed.sink("attributed-impressions"))

if __name__ == "__main__":
    run(job)
