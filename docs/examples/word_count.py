"""How often each word was there, in lines that have no key."""

from airflow_provider.streaming import StatefulJob, functions as F, run, stream

lines = stream("lines", schema="line STRING")
words = lines.select("explode(split(lower(line), '[^a-z]+')) AS word").filter("word <> ''", name="empty")
counts = words.group_by("word").aggregate(F.count().alias("count"))

job = StatefulJob("word-count", counts.sink("word-counts"))

if __name__ == "__main__":
    run(job)
