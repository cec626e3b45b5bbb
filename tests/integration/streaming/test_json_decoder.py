"""The worker's decoding against Spark's."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider.streaming.json.json_decoder import JsonDecoder
from airflow_provider.streaming.json.spark_json import SparkJson

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

SCHEMA = (
    "name STRING, amount DOUBLE, quantity INT, at BIGINT, paid BOOLEAN, made TIMESTAMP, price DECIMAL(12, 2), "
    "share DECIMAL(3,3), born DATE, home STRUCT<city: STRING, zip INT, since: DATE, at: TIMESTAMP, "
    "geo: STRUCT<lat: DOUBLE, price: DECIMAL(5,2)>>"
)
FLAT = {
    "name": "name", "amount": "amount", "quantity": "quantity", "at": "at", "paid": "paid", "made": "unix_micros(made)",
    "price": "price", "share": "share", "born": "unix_date(born)", "city": "home.city", "zip": "home.zip",
    "since": "unix_date(home.since)", "home.at": "unix_micros(home.at)", "lat": "home.geo.lat",
    "geo.price": "home.geo.price", "no home": "home IS NULL", "no geo": "home.geo IS NULL",
}  # fmt: skip
"""What is compared, and how Spark comes to it: Python has not all times."""
# In a process of its own: a Spark context in the tests' process would be everybody's.
BY_SPARK = """
import json, sys
from pyspark.sql import SparkSession, functions as F
values = json.load(open(sys.argv[1]))
session = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC")
spark = session.config("spark.ui.enabled", "false").getOrCreate()
rows = spark.createDataFrame([(i, v) for i, v in enumerate(values)], "i INT, v STRING").coalesce(1)
options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
parsed = rows.select("i", F.from_json("v", sys.argv[2] + ", bad STRING", options).alias("p")).select("i", "p.*")
parsed = parsed.orderBy("i").selectExpr("bad", *json.loads(sys.argv[4]))
json.dump([None if r[0] is not None else [repr(x) for x in r[1:]] for r in parsed.collect()], open(sys.argv[3], "w"))
"""


def random_token(choose: random.Random) -> str:
    return choose.choice(
        [
            "null", "true", "false", "0", "-1", "7", "2147483647", "2147483648", "-9223372036854775808", "1.0", "0.1",
            "1e3", "-0.0", "3.10", '""', '"x"', '"é \\u00e9 \\n \\""', '"NaN"', '"Infinity"', '"5"', "[]", "[1, 2]",
            '{"a": 1}', str(choose.randrange(-(10**12), 10**12)), repr(choose.uniform(-1e6, 1e6)),
        ]
    )  # fmt: skip


def random_time(choose: random.Random) -> str:
    """A text that looks like a time, most often."""
    year = ["2026", "1969", f"{choose.randrange(10_000):04}", f"{choose.randrange(300_000):05}", "+2026", "-0044", "26"]
    text = choose.choice(year[:2] if choose.random() < 0.6 else year)
    for sign, most in (("-", 12), ("-", 31), (choose.choice(" T"), 23), (":", 59), (":", 59)):
        if choose.random() < 0.08:
            break
        number = choose.randint(0, most + (choose.random() < 0.1))
        text += sign + (f"{number:02}" if choose.random() < 0.8 else str(number))
    else:
        text += "." + str(choose.randrange(10 ** choose.randrange(1, 9))) if choose.random() < 0.5 else ""
        text += choose.choice(["", " "]) + random_zone(choose) if choose.random() < 0.6 else ""
    if choose.random() < 0.1:
        at = choose.randrange(len(text) + 1)
        text = (
            text[:at] + choose.choice(["0", "-", ":", " ", "T", ".", "x", "+", "\\u0001", "\\t", "\\u00a0"]) + text[at:]
        )
    return f'"{text}"'


def random_zone(choose: random.Random) -> str:
    sign, hours, minutes = choose.choice("+-"), choose.randrange(20), choose.randrange(61)
    offset = choose.choice([f"{hours}", f"{hours:02}:{minutes:02}", f"{hours}:{minutes}", f"{hours:02}{minutes:02}"])
    named = ["Z", "UTC", "GMT", "UT", "Europe/Vienna", "PST", "EST", "GMT0", "z", "utc", "x", f"UTC{sign}{offset}"]
    return choose.choice([*named, *6 * [sign + offset], f"{sign}{hours:02}:{minutes:02}:30"])


NUMBERS = [
    "0", "1", "-1", "0.5", "12.345", "0.0005", "-0.0004", "1e2", "1E-3", "1e30", "9999999999.99", "9999999999.995",
    "0.9995", "-0.9994", "12345678901", '"1.50"', '"+5"', '" 7"', '"1e2"', '".5"', '"5."', '"-0.0"', '"0x1"', '"1_0"',
    '"1d"', '"Infinity"', '"1,5"', '"\u0663.5"', '"\uff15"', '""', '"."', '"e5"', "0e50", "null", "1.5", "2.25", "3.1",
]  # fmt: skip


DATES = [
    '"2026-01-31"', '"2024-2-29"', '"2023-02-29"', '"2026"', '"2026-1"', '"2026-13"', '"2026-01-31T25:00"',
    '"+12345-01"', "5e3",
    '" 2026-01-31 x"', '"-0044-03-15"', '"9999999-12-31"', '"99999999-01-01"', '"123"', '"2026-01-31x"', '"10:00"',
    '"2026-01-31GMT"', '"20260131"', '"\\u00a02026-01-31"', '"2026-01-31Z"', '""', "19000", '"-5"', '"2026-"',
]  # fmt: skip


def random_home(choose: random.Random) -> str:
    if choose.random() < 0.15:
        return random_token(choose)
    geo = [("lat", random_token(choose)), ("price", choose.choice(NUMBERS)), ("x", "1")]
    fields = {
        "city": choose.choice(['"Graz"', '"Wien"', random_token(choose)]),
        "zip": choose.choice(["8010", "1", random_token(choose)]),
        "since": choose.choice(DATES),
        "at": random_time(choose),
        "geo": choose.choice(["null", "{}", "[]", object_of(choose, choose.sample(geo, choose.randrange(3)))]),
    }
    chosen = choose.sample(list(fields.items()), choose.randrange(5))
    if chosen and choose.random() < 0.05:
        chosen.append((chosen[0][0], random_token(choose)))
    return object_of(choose, chosen)


def object_of(choose: random.Random, fields: Sequence[tuple[str, str]]) -> str:
    named = [(f"\\u{ord(name[0]):04x}{name[1:]}" if choose.random() < 0.05 else name, token) for name, token in fields]
    return "{" + ", ".join(f'"{name}":{token}' for name, token in named) + "}"


def random_value(choose: random.Random) -> str:
    names = ["name", "amount", "quantity", "at", "paid", "made", "other", "price", "share"]
    names = choose.sample(names, choose.randrange(10))
    if choose.random() < 0.3:
        names = choose.sample(names, min(len(names), 2))
    fields = [
        (name, choose.choice(NUMBERS) if name in ("price", "share") and choose.random() < 0.9 else random_token(choose))
        for name in names
        if name != "made"
    ]
    if "made" in names:
        fields.append(("made", random_time(choose) if choose.random() < 0.9 else random_token(choose)))
    if choose.random() < 0.1:
        fields = [(name, token) for name, token in fields if name != "made"]
        fields += [
            ("made", choose.choice(['"2026-01"', '"2026-02-30"', '"x"', '"10:00"', "5", "null"])) for _ in range(2)
        ]
    if choose.random() < 0.4:
        fields.append(("born", choose.choice(DATES)))
    if choose.random() < 0.5:
        fields += [("home", random_home(choose)) for _ in range(choose.choice([1, 1, 1, 1, 2]))]
    choose.shuffle(fields)
    text = object_of(choose, fields)
    if choose.random() < 0.05:
        text = text[: choose.randrange(1, len(text))]
    return text


def flat(columns: dict[str, pa.Array]) -> list[pa.Array]:
    """The same as `FLAT`."""
    home = columns["home"]
    geo = pc.struct_field(home, "geo")
    found = [columns[name] for name in list(FLAT)[:9]]
    found += [pc.struct_field(home, name) for name in ("city", "zip", "since", "at")]
    found += [pc.struct_field(geo, "lat"), pc.struct_field(geo, "price"), home.is_null(), geo.is_null()]
    return [
        one.cast(pa.int64() if pa.types.is_timestamp(one.type) else pa.int32())
        if pa.types.is_temporal(one.type)
        else one
        for one in found
    ]


def test_worker_decodes_json_as_spark_does(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    values = [random_value(choose) for _ in range(3000)]
    given, answer = tmp_path / "values.json", tmp_path / "by_spark.json"
    given.write_text(json.dumps(values))
    subprocess.run(
        [sys.executable, "-c", BY_SPARK, str(given), SCHEMA, str(answer), json.dumps(list(FLAT.values()))],
        check=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stderr=subprocess.DEVNULL,
    )
    decoder = JsonDecoder.of(SCHEMA)
    assert decoder is not None
    raw = pa.chunked_array([[value.encode() for value in values]], pa.binary())
    decoded = decoder.decode(raw)
    # What becomes no column is no less a reason for a value to be bad.
    assert decoder.only(()).decode(raw).bad.keys() == decoded.bad.keys()
    columns = [column.to_pylist() for column in flat(decoded.columns)]
    ours = [None if at in decoded.bad else [repr(column[at]) for column in columns] for at in range(len(values))]
    misread = SparkJson(SCHEMA).misread(raw)
    by_spark = [None if at in misread else row for at, row in enumerate(json.loads(answer.read_text()))]
    different = [(v, a, b) for v, a, b in zip(values, ours, by_spark, strict=True) if a != b]
    assert not different, different[:5]
    assert sum(row is None for row in by_spark) > 100
