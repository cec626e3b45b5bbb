"""What each query has to come to: batch SQL by Spark over all events at once, after the published queries.

It shares no code with the jobs. The times of the events are timestamps here, as they are published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.nexmark.generator import Event

_SCHEMAS: Final = {
    "persons": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "dateTime BIGINT, extra STRING",
    "auctions": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime BIGINT, "
    "expires BIGINT, seller BIGINT, category BIGINT, extra STRING",
    "bids": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime BIGINT, extra STRING",
    "side_input": "key BIGINT, value STRING",
}

_OF_OPEN_AUCTIONS: Final = """
    FROM auctions A JOIN bids B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
"""


def _iso(time: str, digits: int = 3) -> str:
    """As windows are written; a timestamp of its own has six digits."""
    return f"""date_format({time}, "yyyy-MM-dd'T'HH:mm:ss.{"S" * digits}'Z'")"""


def _window(start: str, end: str) -> str:
    return f"struct({_iso(start)} AS start, {_iso(end)} AS end) AS window"


def _of_ranks(function: str, name: str) -> str:
    return f"""
        {function} AS total_{name},
        {function} FILTER (WHERE price < 10000) AS rank1_{name},
        {function} FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_{name},
        {function} FILTER (WHERE price >= 1000000) AS rank3_{name}
    """


_BIDS: Final = _of_ranks("count(*)", "bids")
_STATISTICS: Final = ", ".join(
    (_BIDS, _of_ranks("count(DISTINCT bidder)", "bidders"), _of_ranks("count(DISTINCT auction)", "auctions"))
)
_DAY: Final = _window("day", "day + INTERVAL 1 DAY")
_OF_DAYS: Final = "FROM (SELECT *, date_trunc('DAY', dateTime) AS day FROM bids)"

SQL: Final[dict[str, str]] = {
    "q0": "SELECT auction, bidder, price, unix_millis(dateTime) AS dateTime, extra FROM bids",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, unix_millis(dateTime) AS dateTime, extra FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE mod(auction, 123) = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auctions A JOIN persons P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')
    """,
    "q4": f"""
        SELECT CAST(category AS STRING) AS category, avg(final) AS final
        FROM (SELECT max(price) AS final, category {_OF_OPEN_AUCTIONS} GROUP BY id, category) GROUP BY category
    """,
    "q5": f"""
        WITH counts AS (
            SELECT auction, count(*) AS num, {_iso("w.end", 6)} AS ended
            FROM (SELECT auction, window(dateTime, '10 seconds', '2 seconds') AS w FROM bids) GROUP BY auction, w
        )
        SELECT auction, num, ended FROM counts
        WHERE num = (SELECT max(num) FROM counts others WHERE others.ended = counts.ended)
    """,
    "q7": """
        SELECT B.auction, B.bidder, B.price, unix_millis(B.dateTime) AS dateTime, B.extra FROM bids B
        JOIN (SELECT max(price) AS price, w
              FROM (SELECT price, window(dateTime, '10 seconds') AS w FROM bids) GROUP BY w) M
        ON B.price = M.price AND B.dateTime >= M.w.start AND B.dateTime < M.w.end
    """,
    "q8": f"""
        SELECT P.id, P.name, {_iso("P.w.start", 6)} AS started
        FROM (SELECT DISTINCT id, name, window(dateTime, '10 seconds') AS w FROM persons) P
        JOIN (SELECT DISTINCT seller, window(dateTime, '10 seconds') AS w FROM auctions) A
        ON P.id = A.seller AND P.w = A.w
    """,
    "q9": f"""
        SELECT id AS auction, itemName, description, initialBid, reserve, seller, category,
            unix_millis(expires) AS expires, unix_millis(opened) AS opened, auction_extra, bidder, price, channel, url,
            unix_millis(dateTime) AS dateTime, extra
        FROM (
            SELECT A.* EXCEPT (dateTime, extra), A.dateTime AS opened, A.extra AS auction_extra, B.* EXCEPT (auction),
                row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) AS place {_OF_OPEN_AUCTIONS}
        ) WHERE place = 1
    """,
    "q11": f"""
        SELECT CAST(bidder AS STRING) AS bidder, {_window("w.start", "w.end")}, bid_count
        FROM (SELECT bidder, session_window(dateTime, '10 seconds') AS w, count(*) AS bid_count
              FROM bids GROUP BY bidder, session_window(dateTime, '10 seconds'))
    """,
    "q13": """
        SELECT auction, bidder, price, unix_millis(dateTime) AS dateTime, value
        FROM bids JOIN side_input ON mod(auction, 10000) = key
    """,
    "q14": """
        SELECT auction, bidder, 0.908 * price AS price, CASE
            WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
            WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
            unix_millis(dateTime) AS dateTime, extra, regexp_count(extra, 'c') AS c_counts
        FROM bids WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    "q15": f"SELECT date_format(day, 'yyyy-MM-dd') AS day, {_DAY}, {_STATISTICS} {_OF_DAYS} GROUP BY day",
    "q16": f"""
        SELECT channel, {_DAY}, max(date_format(dateTime, 'HH:mm')) AS minute, {_STATISTICS}
        {_OF_DAYS} GROUP BY channel, day
    """,
    "q17": f"""
        SELECT CAST(auction AS STRING) AS auction, {_DAY}, {_BIDS}, min(price) AS min_price, max(price) AS max_price,
            avg(price) AS avg_price, sum(price) AS sum_price {_OF_DAYS} GROUP BY auction, day
    """,
    "q18": """
        SELECT CAST(bidder AS STRING) AS bidder, CAST(auction AS STRING) AS auction, price, channel, url,
            unix_millis(dateTime) AS dateTime, extra
        FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS place FROM bids)
        WHERE place = 1
    """,
    "q19": """
        SELECT CAST(auction AS STRING) AS auction, bidder, price, channel, url, unix_millis(dateTime) AS dateTime,
            extra, place
        FROM (SELECT *, row_number() OVER (
            PARTITION BY auction ORDER BY price DESC, bidder DESC, channel DESC, url DESC, dateTime DESC
        ) AS place FROM bids) WHERE place <= 10
    """,
    "q20": """
        SELECT auction, bidder, price, channel, url, unix_millis(B.dateTime) AS dateTime, B.extra, itemName,
            description, initialBid, reserve, unix_millis(A.dateTime) AS opened, unix_millis(expires) AS expires,
            seller, category, A.extra AS auction_extra
        FROM bids B JOIN auctions A ON B.auction = A.id WHERE A.category = 10
    """,
    "q21": """
        SELECT auction, bidder, price, channel, CASE
            WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
            WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
            ELSE parse_url(url, 'QUERY', 'channel_id') END AS channel_id
        FROM bids WHERE parse_url(url, 'QUERY', 'channel_id') IS NOT NULL
            OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
    """,
    "q22": """
        SELECT auction, bidder, price, channel, substring_index(substring_index(url, '/', 4), '/', -1) AS dir1,
            substring_index(substring_index(url, '/', 5), '/', -1) AS dir2,
            substring_index(substring_index(url, '/', 6), '/', -1) AS dir3 FROM bids
    """,
}
"""Of equal bids in q19 the greatest comes first, as with `top`. q9 and q18 have none: no two times are equal."""


class Oracle:
    """The answers for some events."""

    def __init__(self, spark: SparkSession, events: Iterable[Event]) -> None:
        self._spark = spark
        rows: dict[str, list[dict[str, Any]]] = {topic: [] for topic in _SCHEMAS}
        for event in events:
            rows[event.topic].append(event.value)
        self._views = {topic: self._view(topic, rows[topic]) for topic in _SCHEMAS}

    def _view(self, topic: str, rows: Sequence[dict[str, Any]]) -> DataFrame:
        fields = [field.split() for field in _SCHEMAS[topic].split(", ")]
        schema = pa.schema([(name, pa.int64() if kind == "BIGINT" else pa.string()) for name, kind in fields])
        times = ("dateTime", "expires")
        names = [f"timestamp_millis({name}) AS {name}" if name in times else name for name in schema.names]
        # Of Arrow's tables Spark makes rows without a Python worker.
        return self._spark.createDataFrame(pa.Table.from_pylist(rows, schema)).selectExpr(*names)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What it has to come to, as JSON has it."""
        for topic, view in self._views.items():
            view.createOrReplaceTempView(topic)
        answer = self._spark.sql(SQL[query])
        fields = ", ".join(f"`{name}`" for name in answer.columns)
        texts = answer.selectExpr(f"to_json(struct({fields}), map('ignoreNullFields', 'false')) AS row").collect()
        return [json.loads(text.row) for text in texts]
