"""What has to come out of the shop, by plain arithmetic over its sources; shares no code with what it judges.

Windows, duplicates and what is late depend on the order of one partition's records, and are exact. What goes through an
internal topic is exact too, because its watermark waits longer than any partition is behind. A table with a watermark
is met as it was at the order's time, however long a task was held. Only which version of a table without one an order
meets is not said by the sources: it never goes back, and the last orders meet the last one.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.chaos.judge import Record, Verdict, assigned, commit_chain, reached
from tests.chaos.shop_evidence import STAGES, ShopEvidence
from tests.chaos.shop_job import CLICK_MS, GAP_MS, REVIEW_MS, UNIQUE_MS, WATERMARK_MS, WINDOW_MS

Row = dict[str, Any]
_SHOWN = 200
_SILENT_MS = 45_000
"""A table that is silent for a minute is not waited for (docs/semantics.md); less, because it is noticed elsewhere."""
_NOTICED_MS = 300_000
"""So long behind a silence no version is asked for: the table's task may be held when its next record comes."""
_BEGUN_MS = 60_000
"""So long after its first record none is: a table that holds nothing yet is not waited for."""


def judge(evidence: ShopEvidence) -> Verdict:
    """Compare what came out with what had to come out."""
    verdict = Verdict()
    orders = _by_partition(evidence.inputs["shop-orders"])
    rows = [row for partition in sorted(orders) for row in orders[partition]]
    shown, clicks = (_rows(evidence.inputs[f"shop-{name}"]) for name in ("impressions", "clicks"))
    verdict.compared["records"] = sum(map(len, evidence.inputs.values()))
    late: dict[int, Counter[int]] = {0: Counter(), 1: Counter()}
    dropped: dict[int, Row] = {}
    windows, unique, reviewed = list[Row](), list[Row](), list[Row]()
    for partition, found in orders.items():
        closed, late[0][partition] = closed_windows(found)
        windows += closed
        firsts, late[1][partition], dropped[partition] = first_rows(found)
        unique += firsts
        reviewed += reviews(found)
    _same_rows("windows", windows, _values(evidence.outputs["windows"]), verdict)
    _same_rows("unique", unique, _values(evidence.outputs["unique"]), verdict)
    _same_rows("attributed", pairs(shown, clicks), _values(evidence.outputs["attributed"]), verdict)
    _same_rows("reviews", reviewed, _values(evidence.outputs["reviews"]), verdict)
    _same_newest("sessions", sessions(rows), evidence.outputs["sessions"], verdict)
    _same_newest("products", products(rows), evidence.outputs["products"], verdict)
    _same_newest("sizes", sizes(windows), evidence.outputs["sizes"], verdict)
    _counts_never_fall("products", "number", evidence.outputs["products"], verdict)
    _counts_never_fall("sizes", "windows", evidence.outputs["sizes"], verdict)
    _enriched(rows, evidence, verdict)
    _stamped(orders, evidence, verdict)
    _commits(evidence, late, dropped, len(windows), verdict)
    _copies(evidence, verdict)
    return verdict


def closed_windows(orders: Iterable[Row]) -> tuple[list[Row], int]:
    """The windows of a partition's orders that are over at its end, and how many orders were late."""
    stream_ms = -(1 << 62)
    late, found = 0, dict[tuple[str, int], Row]()
    for row in orders:
        stream_ms = max(stream_ms, row["at"])
        start = row["at"] // WINDOW_MS * WINDOW_MS
        if start + WINDOW_MS <= stream_ms - WATERMARK_MS:
            late += 1
            continue
        key = row["customer"], start
        before = found.get(key)
        found[key] = {
            "customer": row["customer"],
            "window": {"start": _iso(start), "end": _iso(start + WINDOW_MS)},
            "number": 1 + (before["number"] if before else 0),
            "total": row["amount"] + (before["total"] if before else 0),
            "least": min(row["amount"], before["least"] if before else row["amount"]),
            "greatest": max(row["id"], before["greatest"] if before else row["id"]),
        }
    return [row for (_, start), row in found.items() if start + WINDOW_MS <= stream_ms - WATERMARK_MS], late


def first_rows(orders: Iterable[Row]) -> tuple[list[Row], int, Row]:
    """The orders of a partition that are no duplicates; how many were late; how many were dropped, by the reason."""
    stream_ms = -(1 << 62)
    late, free, duplicates = 0, 0, 0
    out, seen = list[Row](), defaultdict[str, list[int]](list)
    for row in orders:
        if row["amount"] <= 0:
            free += 1
            continue
        stream_ms = max(stream_ms, row["at"])
        if row["at"] < stream_ms - WATERMARK_MS:
            late += 1
        elif any(abs(row["at"] - at) < UNIQUE_MS for at in seen[row["customer"]]):
            duplicates += 1
        else:
            # Older ones are further away than any row that is not late.
            recent = [at for at in seen[row["customer"]] if at > stream_ms - WATERMARK_MS - UNIQUE_MS]
            seen[row["customer"]] = [*recent, row["at"]]
            out.append(row)
    return out, late, {"free": free, "duplicates": duplicates}


def reviews(orders: Iterable[Row]) -> list[Row]:
    """What a customer's orders came to, some time after each of them by the time of their partition."""
    watermark_ms = -(1 << 62)
    due = set[tuple[int, str]]()
    number, spent = Counter[str](), Counter[str]()
    out = list[Row]()

    def fire() -> None:
        for at, customer in sorted(timer for timer in due if timer[0] <= watermark_ms):
            due.discard((at, customer))
            out.append({"customer": customer, "at": at, "orders": number[customer], "spent": spent[customer]})

    for row in orders:
        watermark_ms = max(watermark_ms, row["at"] - WATERMARK_MS)
        fire()
        number[row["customer"]] += 1
        spent[row["customer"]] += row["amount"]
        due.add((row["at"] + REVIEW_MS, row["customer"]))
        fire()
    return out


def sizes(windows: Iterable[Row]) -> dict[str, Row]:
    """By their number of orders, the windows that are over. A key is written as text."""
    found: dict[str, Row] = {}
    for window in windows:
        number = window["number"]
        row = found.setdefault(str(number), {"number": str(number), "windows": 0, "total": 0})
        row["windows"] += 1
        row["total"] += window["total"]
    return found


def sessions(orders: Iterable[Row]) -> dict[str, Row]:
    """By the key of the output, each session of each product."""
    by_product = defaultdict[str, list[Row]](list)
    for row in orders:
        by_product[row["product"]].append(row)
    found = {}
    for product, rows in by_product.items():
        rows.sort(key=lambda row: row["at"])
        begin = 0
        for end in range(1, len(rows) + 1):
            if end < len(rows) and rows[end]["at"] - rows[end - 1]["at"] <= GAP_MS:
                continue
            session = rows[begin:end]
            start = _iso(session[0]["at"])
            found[f"{product}@{start}"] = {
                "product": product,
                "window": {"start": start, "end": _iso(session[-1]["at"] + GAP_MS)},
                "number": len(session),
                "total": sum(row["amount"] for row in session),
            }
            begin = end
    return found


def products(orders: Iterable[Row]) -> dict[str, Row]:
    """The sums of each product."""
    found: dict[str, Row] = {}
    for row in orders:
        before = found.get(row["product"], {"number": 0, "total": 0, "greatest": row["id"]})
        number, total = before["number"] + 1, before["total"] + row["amount"]
        found[row["product"]] = {
            "product": row["product"],
            "number": number,
            "total": total,
            "greatest": max(before["greatest"], row["id"]),
            "mean": total / number,
        }
    return found


def pairs(shown: Iterable[Row], clicks: Iterable[Row]) -> list[Row]:
    """Each impression with each click behind it, or alone."""
    times = defaultdict[str, list[int]](list)
    for click in clicks:
        times[click["ad"]].append(click["clicked"])
    for found in times.values():
        found.sort()
    out = []
    for row in shown:
        there = times[row["ad"]]
        near: list[int | None] = [
            *there[bisect_left(there, row["shown"]) : bisect_right(there, row["shown"] + CLICK_MS)]
        ]
        out += [{**row, "clicked": at} for at in near or [None]]
    return out


def _enriched(orders: Sequence[Row], evidence: ShopEvidence, verdict: Verdict) -> None:
    """Each order once, with a version of its customer that is none before that of an order before it."""
    versions: dict[str, list[int | None]] = defaultdict(_unknown)
    for record in evidence.inputs["shop-customers"]:
        versions[record.key.decode()].append(json.loads(record.value)["version"] if record.value else None)
    found = _values(evidence.outputs["enriched"])
    _same_rows("enriched", orders, [{k: v for k, v in row.items() if k != "version"} for row in found], verdict)
    met: dict[str, int] = {}
    last: dict[str, Row] = {}
    for row in found:
        customer, at = row["customer"], met.get(row["customer"], 0)
        known = versions[customer]
        later = next((n for n in range(at, len(known)) if known[n] == row["version"]), None)
        if later is None:
            sort = "enriched by an earlier version" if row["version"] in known else "enriched by no version"
            verdict.differences[sort].append(f"{row}: behind {known[at]} of {customer}")
        met[customer] = at if later is None else later
        if row["id"] >= last.get(customer, row)["id"]:
            last[customer] = row
    for customer, row in last.items():
        if row["version"] != versions[customer][-1]:
            verdict.differences["last order without last version"].append(f"{row}: needed {versions[customer][-1]}")


def _stamped(orders: Mapping[int, Sequence[Row]], evidence: ShopEvidence, verdict: Verdict) -> None:
    wanted, exact = stamps(orders, evidence.inputs["shop-versions"])
    found = _values(evidence.outputs["stamped"])
    bare = [{name: value for name, value in row.items() if name not in ("version", "changed")} for row in found]
    _same_rows("stamped", wanted, bare, verdict)
    verdict.compared["stamped versions"] = len(exact)
    for row in found:
        if row["version"] != exact.get(row["id"], row["version"]):
            verdict.differences["stamped by another version"].append(f"{row}: needed {exact[row['id']]}")


def stamps(orders: Mapping[int, Sequence[Row]], customers: Iterable[Record]) -> tuple[list[Row], dict[int, int | None]]:
    """The orders that are over at the end, and by its id the version of each that has to be its customer's then.

    One that is late may meet another version, and so may one when the table begins, or behind a silence of it.
    """
    watermark_ms = min(max(row["at"] for row in rows) for rows in orders.values()) - WATERMARK_MS
    versions, silences = _changes(customers)
    over, exact = list[Row](), dict[int, int | None]()
    for rows in orders.values():
        stream_ms = -(1 << 62)
        for row in rows:
            late = row["at"] <= stream_ms - WATERMARK_MS
            stream_ms = max(stream_ms, row["at"])
            if not late and row["at"] >= watermark_ms:
                continue
            over.append(row)
            if not late and not any(begin <= row["at"] <= end for begin, end in silences):
                known = versions[row["customer"]]
                place = bisect_right(known, row["at"], key=lambda change: change[0])
                exact[row["id"]] = known[place - 1][1] if place else None
    return over, exact


def _changes(records: Iterable[Record]) -> tuple[Mapping[str, Sequence[tuple[int, int | None]]], list[tuple[int, int]]]:
    """By customer, the versions with their times, in the order of time; and from when to when none is asked for."""
    versions: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    times = list[int]()
    for record in records:
        row = json.loads(record.value or b"null")
        times.append(row["changed"] if row else record.time_ms)
        versions[record.key.decode()].append((times[-1], row and row["version"]))
    for known in versions.values():
        known.sort(key=lambda change: change[0])
    silent = [(before, after) for before, after in pairwise(sorted(times)) if after - before > _SILENT_MS]
    silences = [(before + _SILENT_MS, after + _NOTICED_MS) for before, after in silent]
    return versions, [(-(1 << 62), min(times) + _BEGUN_MS), *silences]


def _commits(
    evidence: ShopEvidence,
    late: Mapping[int, Counter[int]],
    dropped: Mapping[int, Row],
    windows: int,
    verdict: Verdict,
) -> None:
    given = assigned(evidence.assignments, evidence.lost_at, verdict)
    written = {name: len(records) for name, records in evidence.inputs.items()}
    through = {
        3: written["shop-orders"],
        6: written["shop-impressions"] + written["shop-clicks"],
        9: written["shop-orders"] + written["shop-customers"],
        17: written["shop-orders"] + written["shop-versions"],
        12: windows,  # which combines those of a size before it writes them
    }
    for stage in STAGES:
        last = commit_chain(evidence.commits[stage.number], stage.number, stage.source, given, verdict)
        inputs = evidence.inputs.get(stage.source)
        for partition in range(stage.tasks):
            where, final = f"task {stage.number}_{partition}", last.get(partition)
            mine = [r.offset for r in inputs or () if r.partition == partition]
            if final is None:
                if inputs is None or mine:
                    verdict.differences["never committed"].append(where)
                continue
            wanted = {"failed": 0, "late": late.get(stage.number, Counter())[partition]}
            if inputs is not None:
                wanted["processed"] = len(mine)
                if reached(final, stage.source) != mine[-1] + 1:
                    verdict.differences["not processed to the end"].append(f"{where}: {final}, needed {mine[-1] + 1}")
            if stage.number == 1 and Counter(final["filtered"]) != Counter(dropped[partition]):
                verdict.differences["dropped miscounted"].append(f"{where}: {final}, needed {dropped[partition]}")
            for name, number in wanted.items():
                if final[name] != number:
                    verdict.differences[f"{name} miscounted"].append(f"{where}: {final[name]}, needed {number}")
        processed = sum(final["processed"] for final in last.values())
        if processed != through.get(stage.number, processed):
            verdict.differences["records between stages lost or doubled"].append(
                f"stage {stage.number}: {processed}, needed {through[stage.number]}"
            )


def _copies(evidence: ShopEvidence, verdict: Verdict) -> None:
    number = 0
    for task, copies in (evidence.copies or {}).items():
        number += len(copies)
        for copy in copies:
            if copy.unreadable is not None:
                verdict.differences[f"{copy.role} unreadable"].append(
                    f"{copy.role} of {task} on {copy.instance}: {copy.unreadable}"
                )
        for first, other in pairwise(copy for copy in copies if copy.unreadable is None):
            if first.content != other.content:
                keys = {*first.content, *other.content}
                key = min(k for k in keys if first.content.get(k) != other.content.get(k))
                verdict.differences["standby differs"].append(
                    f"{task}, {len(first.content)} keys on {first.instance}, {len(other.content)} on {other.instance}, "
                    f"{key!r}: {first.content.get(key)!r} and {other.content.get(key)!r}"[:_SHOWN]
                )
    verdict.compared["stores"] = number


def _same_rows(sink: str, wanted: Iterable[Row], got: Iterable[Row], verdict: Verdict) -> None:
    """Each row as often as it should be there; their order is not compared."""
    needed, there = (Counter(json.dumps(row, sort_keys=True) for row in rows) for rows in (wanted, got))
    verdict.compared[sink] = there.total()
    verdict.differences[f"{sink} missing"] += (needed - there).elements()
    for row in (there - needed).elements():
        verdict.differences[f"{sink} {'doubled' if row in needed else 'wrong'}"].append(row)


def _same_newest(sink: str, wanted: Mapping[str, Row], records: Iterable[Record], verdict: Verdict) -> None:
    newest: dict[str, Row] = {}
    for record in records:
        newest.pop(record.key.decode(), None)
        if record.value is not None:
            newest[record.key.decode()] = json.loads(record.value)
    verdict.compared[sink] = len(newest)
    for key in sorted({*wanted, *newest}):
        if newest.get(key) != wanted.get(key):
            verdict.differences[f"{sink} wrong"].append(f"{key}: {newest.get(key)}, needed {wanted.get(key)}")


def _counts_never_fall(sink: str, column: str, records: Iterable[Record], verdict: Verdict) -> None:
    before: Counter[bytes] = Counter()
    for record in records:
        number = json.loads(record.value or b"null")[column]
        if number <= before[record.key]:
            verdict.differences[f"{sink} went back"].append(f"{record.key!r}: {number} behind {before[record.key]}")
        before[record.key] = number


def _by_partition(records: Iterable[Record]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for record in records:
        found[record.partition].append(json.loads(record.value or b"null"))
    return found


def _rows(records: Iterable[Record]) -> Iterator[Row]:
    return (json.loads(record.value or b"null") for record in records)


def _values(records: Iterable[Record]) -> list[Row]:
    return [json.loads(record.value or b"null") for record in records]


def _iso(at_ms: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _unknown() -> list[int | None]:
    """What is known of a customer before anything was."""
    return [None]
