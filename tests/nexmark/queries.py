"""The queries of Nexmark as jobs: q0 to q22 but for q6, q10 and q12.

What a query is asked is in its docstring. Each returns a job whose application and whose sink are named after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider.streaming import StatefulJob, session_window, stream, table, window
from airflow_provider.streaming import functions as F

PERSONS = stream(
    "persons",
    "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, dateTime BIGINT, "
    "extra STRING",
    key="id",
    event_time="dateTime",
    watermark="3 seconds",
)
AUCTIONS = stream(
    "auctions",
    "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime BIGINT, "
    "expires BIGINT, seller BIGINT, category BIGINT, extra STRING",
    key="id",
    event_time="dateTime",
    watermark="3 seconds",
)
BIDS = stream(
    "bids",
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime BIGINT, extra STRING",
    key="auction",
    event_time="dateTime",
    watermark="3 seconds",
)
SIDE_INPUT = table("side_input", "key BIGINT, value STRING", key="key", broadcast=True)

LONGEST_AUCTION: Final = "1 minute"
"""No auction lasts longer, and no bid, auction and seller that belong together lie further apart."""

DAY: Final = "date_format(timestamp_millis(dateTime), 'yyyy-MM-dd')"
RANKS: Final = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
RANKED_BIDS = [F.count(filter=rank).alias(f"{name}_bids") for name, rank in RANKS.items()]
BIDS_BIDDERS_AUCTIONS = [
    F.count().alias("total_bids"),
    *RANKED_BIDS,
    *(
        F.count_distinct(column, limit=1_000_000, filter=rank).alias(f"{name}_{column}s")
        for column in ("bidder", "auction")
        for name, rank in {"total": None, **RANKS}.items()
    ),
]


def q0() -> StatefulJob:
    """Pass through: every bid."""
    return StatefulJob("q0", BIDS.select("auction", "bidder", "price", "dateTime", "extra").sink("q0"))


def q1() -> StatefulJob:
    """Currency: the price in euros."""
    bids = BIDS.select("auction", "bidder", "0.908 * price AS price", "dateTime", "extra")
    return StatefulJob("q1", bids.sink("q1"))


def q2() -> StatefulJob:
    """Selection: the bids on some auctions."""
    return StatefulJob("q2", BIDS.filter("auction % 123 = 0", name="others").select("auction", "price").sink("q2"))


def q3() -> StatefulJob:
    """Local items: who sells in Oregon, Idaho or California what is of category 10.

    A person may come after their first auction, so the table of persons would come too late for it: the two are
    streams, joined over the time in which they can belong together.
    """
    sellers = PERSONS.filter("state IN ('OR', 'ID', 'CA')", name="elsewhere")
    sellers = sellers.select("id AS seller", "name", "city", "state", "dateTime AS registered")
    items = AUCTIONS.filter("category = 10", name="other_categories").select("id", "seller", "dateTime")
    local = items.join(sellers, on="seller", within="1 hour", name="local")
    return StatefulJob("q3", local.select("name", "city", "state", "id").sink("q3", key="id"))


OF_AUCTION: Final = ("auction", "itemName", "description", "initialBid", "reserve", "seller", "category", "expires")
AUCTION = AUCTIONS.with_column("auction", "id").select(*OF_AUCTION, "dateTime AS opened", "extra AS auction_extra")
OFFERS = AUCTION.join(BIDS, on="auction", after=LONGEST_AUCTION, event_time="expires", name="offers").filter(
    "dateTime BETWEEN opened AND expires", name="out_of_time"
)
"""Each bid on an auction that was open, with the auction. Their time is the auction's end, so that a window around
that closes when all of its bids are there."""


def q4() -> StatefulJob:
    """Average price for a category: of the winning bids of its auctions."""
    final = OFFERS.group_by("auction", "category", window("expires", "1 second")).aggregate(
        F.max("price").alias("final"), emit="close", name="final"
    )
    return StatefulJob("q4", final.group_by("category").aggregate(F.mean("final").alias("final")).sink("q4"))


def q5() -> StatefulJob:
    """Hot items: of the last ten seconds the auctions with the most bids, every two seconds."""
    counts = (
        BIDS.group_by("auction", window("dateTime", "10 seconds", "2 seconds"))
        .aggregate(F.count().alias("num"), emit="close", name="counts")
        .with_column("ended", "window.end")
    )
    most = counts.group_by("ended", window("window", "2 seconds")).aggregate(
        F.max("num").alias("most"), emit="close", name="most"
    )
    hot = counts.join(most.select("ended", "most", "window AS of_most"), on="ended", within="0 seconds", name="hot")
    hot = hot.filter("num >= most", name="not_hot").select("auction", "num", "ended")
    return StatefulJob("q5", hot.sink("q5", key="auction"))


def q7() -> StatefulJob:
    """Highest bid: those with the greatest price of each ten seconds."""
    highest = (
        BIDS.with_column("all", "'all'")
        .group_by("all", window("dateTime", "10 seconds"))
        .aggregate(F.max("price").alias("price"), emit="close", name="highest")
        .select("price", "window AS of")
    )
    bids = BIDS.select("auction", "bidder", "price", "dateTime", "extra")
    found = bids.join(highest, on="price", after="9999 milliseconds", name="bids-of-it")
    return StatefulJob("q7", found.select("auction", "bidder", "price", "dateTime", "extra").sink("q7", key="auction"))


def q8() -> StatefulJob:
    """New users: persons who opened an auction in the ten seconds in which they registered."""
    ten_seconds = window("dateTime", "10 seconds")
    persons = PERSONS.group_by("id", ten_seconds).aggregate(F.max("name").alias("name"), emit="close", name="persons")
    sellers = AUCTIONS.select("seller AS id", "dateTime").group_by("id", ten_seconds)
    opened = sellers.aggregate(F.count().alias("auctions"), emit="close", name="sellers")
    new = persons.join(opened.select("id", "window AS opened"), on="id", within="0 seconds", name="new")
    return StatefulJob("q8", new.select("id", "name", "window.start AS started").sink("q8", key="id"))


def q9() -> StatefulJob:
    """Winning bids: of each auction the greatest, of equal ones the earliest, with all that is known of both."""
    names = (*OF_AUCTION, "opened", "auction_extra", "bidder", "price", "channel", "url", "dateTime", "extra")
    won = (
        OFFERS.with_column("rank", "CAST(price AS DECIMAL(20)) * 10000000000000 - dateTime")
        .with_column("won", f"to_json(struct({', '.join(names)}))")
        .group_by("auction", window("expires", "1 second"))
        .aggregate(F.max_by("won", by="rank").alias("won"), emit="close", name="won")
    )
    return StatefulJob("q9", won.select("auction", "won").sink("q9", key="auction"))


def q11() -> StatefulJob:
    """User sessions: how many bids somebody makes before there is none for ten seconds."""
    sessions = BIDS.group_by("bidder", session_window("dateTime", "10 seconds"))
    return StatefulJob("q11", sessions.aggregate(F.count().alias("bid_count"), emit="close").sink("q11"))


def q13() -> StatefulJob:
    """Bounded side input: each bid with a value from a table that every task has."""
    bids = BIDS.select("auction", "bidder", "price", "dateTime", "auction % 10000 AS key")
    found = bids.join(SIDE_INPUT, on="key", name="side")
    return StatefulJob(
        "q13", found.select("auction", "bidder", "price", "dateTime", "value").sink("q13", key="auction")
    )


def q14() -> StatefulJob:
    """Calculation: prices in a range, the time of the day, and how many c are in a text."""
    bids = BIDS.with_column("price", "0.908 * price").filter(
        "price > 1000000 AND price < 50000000", name="other_prices"
    )
    hour = "hour(timestamp_millis(dateTime))"
    calculated = bids.select(
        "auction",
        "bidder",
        "price",
        f"CASE WHEN {hour} BETWEEN 8 AND 18 THEN 'dayTime' WHEN {hour} <= 6 OR {hour} >= 20 THEN 'nightTime' "
        "ELSE 'otherTime' END AS bidTimeType",
        "dateTime",
        "extra",
        "length(extra) - length(replace(extra, 'c', '')) AS c_counts",
    )
    return StatefulJob("q14", calculated.sink("q14"))


def q15() -> StatefulJob:
    """Bidding statistics: bids, bidders and auctions of a day, by the rank of their prices."""
    days = BIDS.with_column("day", DAY).group_by("day", window("dateTime", "1 day"))
    return StatefulJob("q15", days.aggregate(*BIDS_BIDDERS_AUCTIONS).sink("q15"))


def q16() -> StatefulJob:
    """Channel statistics: the same by channel, and the last minute."""
    minute = BIDS.with_column("minute", "date_format(timestamp_millis(dateTime), 'HH:mm')")
    channels = minute.group_by("channel", window("dateTime", "1 day"))
    return StatefulJob("q16", channels.aggregate(F.max("minute").alias("minute"), *BIDS_BIDDERS_AUCTIONS).sink("q16"))


def q17() -> StatefulJob:
    """Auction statistics: how many bids an auction has in a day, and their prices."""
    prices = [function("price").alias(f"{name}_price") for name, function in
              {"min": F.min, "max": F.max, "avg": F.mean, "sum": F.sum}.items()]  # fmt: skip
    auctions = BIDS.group_by("auction", window("dateTime", "1 day"))
    return StatefulJob("q17", auctions.aggregate(F.count().alias("total_bids"), *RANKED_BIDS, *prices).sink("q17"))


def q18() -> StatefulJob:
    """Last bid: of each bidder on each auction."""
    bids = BIDS.with_column("bid", "to_json(struct(price, channel, url, dateTime, extra))").group_by(
        "bidder", "auction"
    )
    return StatefulJob("q18", bids.aggregate(F.last("bid", by="dateTime").alias("bid")).sink("q18"))


def q19() -> StatefulJob:
    """Top ten: the greatest bids of each auction, the greatest first."""
    bids = BIDS.with_column("bid", "to_json(struct(bidder, price, channel, url, dateTime, extra))")
    return StatefulJob(
        "q19", bids.group_by("auction").aggregate(F.top("bid", 10, by="price").alias("bids")).sink("q19")
    )


def q20() -> StatefulJob:
    """Expanded bids: each bid on an auction of category 10 with the auction, whichever of the two comes first."""
    auctions = AUCTION.filter("category = 10", name="other_categories")
    return StatefulJob("q20", BIDS.join(auctions, on="auction", within=LONGEST_AUCTION).sink("q20"))


def q21() -> StatefulJob:
    """Channel ids: those of the large channels, and of the others what their URLs say."""
    large = {"apple": 0, "google": 1, "facebook": 2, "baidu": 3}
    cases = " ".join(f"WHEN '{name}' THEN '{number}'" for name, number in large.items())
    of_url = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
    known = f"lower(channel) IN ({', '.join(map(repr, large))}) OR url RLIKE '(&|^)channel_id='"
    bids = BIDS.filter(known, name="unknown_channels").select(
        "auction", "bidder", "price", "channel", f"CASE lower(channel) {cases} ELSE {of_url} END AS channel_id"
    )
    return StatefulJob("q21", bids.sink("q21"))


def q22() -> StatefulJob:
    """Folders of the URL."""
    folders = [f"split(url, '/')[{at + 2}] AS dir{at}" for at in (1, 2, 3)]
    return StatefulJob("q22", BIDS.select("auction", "bidder", "price", "channel", *folders).sink("q22"))


QUERIES: Final[dict[str, Callable[[], StatefulJob]]] = {
    query.__name__: query
    for query in (q0, q1, q2, q3, q4, q5, q7, q8, q9, q11, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22)
}
