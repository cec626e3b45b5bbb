"""A consumer that hands records over as columns, not as a Python object each.

confluent-kafka makes an object of each record, with a call for each of its fields: 3 us. Here the C library beneath it
hands over a thousand pointers with one call; numpy gathers the records' fields behind them, and Arrow copies their
bytes. That is librdkafka's public interface (https://docs.confluent.io/platform/current/clients/librdkafka/html/
rdkafka_8h.html), in the library that confluent-kafka has loaded: no other version of it can be met.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka.cimpl
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.errors import ConfigurationError

SourcePartition = tuple[str, int]

BEGINNING: Final = -2
"""In place of an offset: the first that the log still has."""
END: Final = -1
"""In place of an offset: after the last record that can be read."""

_CONSUMER: Final = 1
_OK: Final = 0
_NO_CONSUMER_CLOSE: Final = 8
_INVALID_ARG: Final = KafkaError._INVALID_ARG  # noqa: SLF001
_TEXT_BYTES: Final = 512
_LARGE: Final = 4 << 10
"""Bytes of a record, in the mean, from which a call for each costs less than to copy them once more."""
_MOST_BYTES: Final = (1 << 31) - 1
_NEAR: Final = 64 << 10
"""Bytes between two records' that are copied together: more than what lies between those of one fetch."""


class _Message(ctypes.Structure):
    """``rd_kafka_message_t``."""

    _fields_ = (
        ("err", ctypes.c_int32),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("_private", ctypes.c_void_p),
    )


class _Partition(ctypes.Structure):
    """``rd_kafka_topic_partition_t``."""

    _fields_ = (
        ("topic", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", ctypes.c_void_p),
        ("metadata_size", ctypes.c_size_t),
        ("opaque", ctypes.c_void_p),
        ("err", ctypes.c_int32),
        ("_private", ctypes.c_void_p),
    )


class _Partitions(ctypes.Structure):
    """``rd_kafka_topic_partition_list_t``."""

    _fields_ = (("cnt", ctypes.c_int), ("size", ctypes.c_int), ("elems", ctypes.POINTER(_Partition)))


_WORD: Final = ctypes.sizeof(ctypes.c_int64)
_AT: Final = {name: getattr(_Message, name).offset // _WORD for name, _ in _Message._fields_}
"""By field of a message, its place in words of eight bytes."""
_LOW_HALF: Final = 0xFFFFFFFF

# What they return and take; of what is not named here nothing is called.
_pointer, _int, _text, _partitions = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_Partitions)
_offset = ctypes.POINTER(ctypes.c_int64)
_FUNCTIONS: Final[Mapping[str, tuple[Any, Sequence[Any]]]] = {
    "rd_kafka_conf_new": (_pointer, ()),
    "rd_kafka_conf_set": (_int, (_pointer, _text, _text, _text, ctypes.c_size_t)),
    "rd_kafka_conf_destroy": (None, (_pointer,)),
    "rd_kafka_new": (_pointer, (_int, _pointer, _text, ctypes.c_size_t)),
    "rd_kafka_destroy_flags": (None, (_pointer, _int)),
    "rd_kafka_poll_set_consumer": (_int, (_pointer,)),
    "rd_kafka_sasl_background_callbacks_enable": (_pointer, (_pointer,)),
    "rd_kafka_queue_get_consumer": (_pointer, (_pointer,)),
    "rd_kafka_queue_io_event_enable": (None, (_pointer, _int, _text, ctypes.c_size_t)),
    "rd_kafka_queue_destroy": (None, (_pointer,)),
    "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, (_pointer, _int, _pointer, ctypes.c_size_t)),
    "rd_kafka_topic_name": (_text, (_pointer,)),
    "rd_kafka_topic_partition_list_new": (_partitions, (_int,)),
    "rd_kafka_topic_partition_list_add": (ctypes.POINTER(_Partition), (_partitions, _text, ctypes.c_int32)),
    "rd_kafka_topic_partition_list_destroy": (None, (_partitions,)),
    "rd_kafka_incremental_assign": (_pointer, (_pointer, _partitions)),
    "rd_kafka_incremental_unassign": (_pointer, (_pointer, _partitions)),
    "rd_kafka_offsets_for_times": (_int, (_pointer, _partitions, _int)),
    "rd_kafka_query_watermark_offsets": (_int, (_pointer, _text, ctypes.c_int32, _offset, _offset, _int)),
    "rd_kafka_get_watermark_offsets": (_int, (_pointer, _text, ctypes.c_int32, _offset, _offset)),
    "rd_kafka_error_code": (_int, (_pointer,)),
    "rd_kafka_error_string": (_text, (_pointer,)),
    "rd_kafka_error_destroy": (None, (_pointer,)),
}
_OF_EACH_RECORD: Final[Mapping[str, tuple[Any, Sequence[Any]]]] = {
    "rd_kafka_message_destroy": (None, (_pointer,)),
    "rd_kafka_message_timestamp": (ctypes.c_int64, (_pointer, _pointer)),
}
"""So short that to give the interpreter's lock away, and to take it again, would be most of them."""


@functools.cache
def _library() -> Any:
    """The functions of librdkafka.

    Raises:
        ConfigurationError: they cannot be called from here.
    """
    module = confluent_kafka.cimpl.__file__
    found: dict[str, Any] = {}
    try:
        if ctypes.sizeof(ctypes.c_void_p) != _WORD:
            raise OSError("addresses are not 64 bits wide")
        for kind, functions in ((ctypes.CDLL, _FUNCTIONS), (ctypes.PyDLL, _OF_EACH_RECORD)):
            library = kind(module)
            for name, (returned, taken) in functions.items():
                function = getattr(library, name)
                function.restype, function.argtypes = returned, list(taken)
                found[name.removeprefix("rd_kafka_")] = function
    except (OSError, AttributeError) as error:
        raise ConfigurationError(
            f"librdkafka cannot be called by way of {module} ({error}): install confluent-kafka from its own wheel, "
            "which brings the library, in the Python of the workers."
        ) from error
    return type("Library", (), {name: staticmethod(function) for name, function in found.items()})


@dataclass(frozen=True)
class PartitionEvent:
    """What a consumer says of a partition beside its records.

    Args:
        error: ``_PARTITION_EOF`` at its end.
        offset: where that is; of other errors nothing that could be relied on.
    """

    topic: str
    partition: int
    offset: int
    error: KafkaError


@dataclass(frozen=True)
class Columns:
    """What was read.

    Args:
        rows: by topic, records with the columns ``__partition``, ``__offset``, ``__source_key``, ``__value`` and
            ``__timestamp_ms`` where it was asked for; those of a partition follow each other, in its order, up to
            where something is wrong with it.
        events: what was said beside.
        more: whether more may lie ready than was asked for.
        left_out: partitions of which records came behind what is wrong: who goes on reads them again. That an end was
            reached there is not among the events.
    """

    rows: Mapping[str, pa.RecordBatch]
    events: Sequence[PartitionEvent]
    more: bool
    left_out: Collection[SourcePartition] = ()


def by_partition(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The records of a topic, at least one, by their partition, each of which comes once."""
    numbers, begin = rows.column("__partition").to_numpy(), 0
    for end in [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]:
        yield int(numbers[begin]), rows.slice(begin, end - begin)
        begin = end


class ColumnConsumer:
    """Reads partitions from given offsets, without a group. Not safe for several threads. Close it.

    Args:
        config: in librdkafka's words (`KafkaConnection.to_client_config`); callbacks are not taken.

    Raises:
        ConfigurationError: librdkafka cannot be called from here.
        KafkaException: the configuration is none.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._lib = lib = _library()
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        conf = lib.conf_new()
        for name, value in (dict(config) | {"enable.auto.commit": False, "enable.partition.eof": True}).items():
            as_text = str(value).lower() if isinstance(value, bool) else str(value)
            if lib.conf_set(conf, name.encode(), as_text.encode(), text, _TEXT_BYTES) != _OK:
                lib.conf_destroy(conf)
                raise KafkaException(KafkaError(_INVALID_ARG, text.value.decode()))
        handle = lib.new(_CONSUMER, conf, text, _TEXT_BYTES)
        if not handle:
            lib.conf_destroy(conf)  # which is the client's once there is one
            raise KafkaException(KafkaError(_INVALID_ARG, text.value.decode()))
        lib.poll_set_consumer(handle)
        if error := lib.sasl_background_callbacks_enable(handle):  # a login without tokens has none
            lib.error_destroy(error)
        self._queue = lib.queue_get_consumer(handle)
        self._ready, signal = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        lib.queue_io_event_enable(self._queue, signal, b"1", 1)
        self._pointers: Any = (ctypes.c_void_p * 0)()
        self._handle = handle
        # Also where nobody closes it: its threads would stay.
        self._end = weakref.finalize(self, _end, lib, handle, self._queue, (self._ready, signal))
        self._end.atexit = False

    @property
    def ready(self) -> int:
        """A file descriptor that can be read once something has come where nothing had lain; `read` empties it."""
        return self._ready

    def assign(self, offsets: Mapping[SourcePartition, int]) -> None:
        """Read these partitions too, from these offsets on (or `BEGINNING`); what had come of them is dropped.

        Raises:
            KafkaException: they are read already, or there are no such offsets.
        """
        self._change(self._lib.incremental_assign, offsets)

    def unassign(self, partitions: Collection[SourcePartition]) -> None:
        """Read these partitions no more; what had come of them is dropped.

        Raises:
            KafkaException: they are not read.
        """
        self._change(self._lib.incremental_unassign, dict.fromkeys(partitions, 0))

    def ends(
        self, partitions: Collection[SourcePartition], timeout_s: float, offset: int = END
    ) -> Mapping[SourcePartition, int]:
        """By partition, where a reader of committed records stops now, or where its log begins (`BEGINNING`).

        Returns:
            Those that are known.

        Raises:
            KafkaException: nobody answered in time.
        """
        asked = self._list(dict.fromkeys(partitions, offset))
        try:
            if (code := self._lib.offsets_for_times(self._handle, asked, int(timeout_s * 1000))) != _OK:
                raise KafkaException(KafkaError(code))
            answers = [asked.contents.elems[at] for at in range(asked.contents.cnt)]
            return {
                (one.topic.decode(), one.partition): one.offset for one in answers if one.err == _OK and one.offset >= 0
            }
        finally:
            self._lib.topic_partition_list_destroy(asked)

    def bounds(self, at: SourcePartition, timeout_s: float) -> tuple[int, int]:
        """The first offset that a log still has, and the one where a reader of committed records stops now.

        Raises:
            KafkaException: there is no such partition, or nobody answered in time.
        """
        return self._bounds(self._lib.query_watermark_offsets, at, int(timeout_s * 1000))

    def known_end(self, at: SourcePartition) -> int | None:
        """Where a log that is read ends, as its leader said with the last records; None before any have come."""
        _, end = self._bounds(self._lib.get_watermark_offsets, at)
        return end if end >= 0 else None

    def read(self, most: int, timestamps: Collection[str] = (), timeout_s: float = 0.0) -> Columns:
        """What has come, at most so many records.

        Args:
            timestamps: the topics of whose records the time is wanted: it costs a call for each record.
            timeout_s: how long to wait for so many; by default it is not waited at all.
        """
        self._check_open()
        self._empty_signal()
        if len(self._pointers) < most:
            self._pointers = (ctypes.c_void_p * most)()
        count = self._lib.consume_batch_queue(self._queue, int(timeout_s * 1000), self._pointers, most)
        if count <= 0:
            return Columns({}, (), more=False)
        pointers = np.frombuffer(self._pointers, np.int64, count)
        try:
            return self._columns(pointers, timestamps, more=count == most)
        finally:
            destroy = self._lib.message_destroy
            for pointer in pointers.tolist():
                destroy(pointer)

    def close(self) -> None:
        """Leave the cluster; a second time changes nothing."""
        self._end()

    def _check_open(self) -> None:
        """Refuse to call the library with what it has freed: that would end the process, or worse."""
        if not self._end.alive:
            raise RuntimeError("The consumer is closed.")

    def _empty_signal(self) -> None:
        """Before what has come is taken: what comes from now on is signalled again."""
        with contextlib.suppress(BlockingIOError):
            while True:
                os.read(self._ready, 4096)

    def _list(self, offsets: Mapping[SourcePartition, int]) -> Any:
        self._check_open()
        listed = self._lib.topic_partition_list_new(len(offsets))
        for (topic, partition), offset in offsets.items():
            self._lib.topic_partition_list_add(listed, topic.encode(), partition).contents.offset = offset
        return listed

    def _change(self, function: Any, offsets: Mapping[SourcePartition, int]) -> None:
        listed = self._list(offsets)
        try:
            error = function(self._handle, listed)
        finally:
            self._lib.topic_partition_list_destroy(listed)
        if error:
            found = KafkaError(self._lib.error_code(error), self._lib.error_string(error).decode())
            self._lib.error_destroy(error)
            raise KafkaException(found)

    def _bounds(self, function: Any, at: SourcePartition, *timeout_ms: int) -> tuple[int, int]:
        self._check_open()
        low, high = ctypes.c_int64(), ctypes.c_int64()
        topic, partition = at
        code = function(self._handle, topic.encode(), partition, ctypes.byref(low), ctypes.byref(high), *timeout_ms)
        if code != _OK:
            raise KafkaException(KafkaError(code))
        return low.value, high.value

    def _columns(self, pointers: np.ndarray[Any, Any], timestamps: Collection[str], *, more: bool) -> Columns:
        words, at = _words(pointers)
        bad = (words[at + _AT["err"]] & _LOW_HALF) != _OK
        events = [self._event(pointer) for pointer in pointers[bad].tolist()] if bad.any() else []
        left_out = set[SourcePartition]()
        if events:
            taken = ~bad
            for place, event in zip(np.flatnonzero(bad).tolist(), events, strict=True):
                if event.error.code() != KafkaError._PARTITION_EOF:
                    # Behind a damaged record librdkafka reads anything.
                    same = (words[at + _AT["rkt"]] == words[at[place] + _AT["rkt"]]) & (
                        (words[at + _AT["partition"]] & _LOW_HALF) == event.partition
                    )
                    behind = taken & same & (np.arange(len(at)) > place)
                    if behind.any():
                        left_out.add((event.topic, event.partition))
                        taken &= ~behind
            at, pointers = at[taken], pointers[taken]
            events = [
                event
                for event in events
                if event.error.code() != KafkaError._PARTITION_EOF or (event.topic, event.partition) not in left_out
            ]
        rows = {}
        while len(at):
            handles = words[at + _AT["rkt"]]
            topic, others = self._topic(int(handles[0])), handles != handles[0]
            of_topic, theirs = (at[~others], pointers[~others]) if others.any() else (at, pointers)
            rows[topic] = self._rows(words, of_topic, theirs if topic in timestamps else None)
            at, pointers = at[others], pointers[others]
        return Columns(rows, events, more, left_out)

    def _rows(
        self, words: np.ndarray[Any, Any], at: np.ndarray[Any, Any], timed: np.ndarray[Any, Any] | None
    ) -> pa.RecordBatch:
        partition = (words[at + _AT["partition"]] & _LOW_HALF).astype(np.int32)
        if partition[0] != partition[-1] or (partition != partition[0]).any():
            # In the order of the partitions, and in each of them in the order in which its records came.
            order = np.argsort(partition, kind="stable")
            at, partition = at[order], partition[order]
            timed = None if timed is None else timed[order]
        columns = {
            "__partition": pa.array(partition),
            "__offset": pa.array(words[at + _AT["offset"]]),
            "__source_key": _bytes(words[at + _AT["key"]], words[at + _AT["key_len"]]),
            "__value": _bytes(words[at + _AT["payload"]], words[at + _AT["len"]]),
        }
        if timed is not None:
            kind, time = ctypes.c_int(), self._lib.message_timestamp
            of_kind = ctypes.byref(kind)
            columns["__timestamp_ms"] = pa.array([time(pointer, of_kind) for pointer in timed.tolist()], pa.int64())
        return pa.RecordBatch.from_pydict(columns)

    def _event(self, pointer: int) -> PartitionEvent:
        message = _Message.from_address(pointer)
        text = ctypes.string_at(message.payload, message.len).decode(errors="replace") if message.payload else None
        topic = self._topic(message.rkt) if message.rkt else ""
        return PartitionEvent(topic, message.partition, message.offset, KafkaError(message.err, text or None))

    def _topic(self, handle: int) -> str:
        name: bytes = self._lib.topic_name(handle)
        return name.decode()


class _Memory:
    """A stretch of this process's memory, for numpy's array interface: an array over it copies nothing."""

    def __init__(self, address: int, words: int) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": (words,), "typestr": "<i8", "version": 3}


def _end(lib: Any, handle: int, queue: int, pipe: tuple[int, int]) -> None:
    lib.queue_io_event_enable(queue, -1, None, 0)
    lib.queue_destroy(queue)
    lib.destroy_flags(handle, _NO_CONSUMER_CLOSE)  # there is no group that would have to be left
    for end in pipe:
        os.close(end)


def _words(pointers: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The memory from the first message to the last, in words, and where in it each begins.

    What lies between them is nobody's business, and not looked at; perhaps it is not even there.
    """
    first = int(pointers.min())
    stretch = int(pointers.max()) - first + ctypes.sizeof(_Message)
    return np.asarray(_Memory(first, stretch // _WORD)), (pointers - first) // _WORD


def _bytes(begins: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> pa.BinaryArray:
    """Copies of stretches of memory, as an array; null where one begins nowhere."""
    there = begins != 0
    if not there.any():
        return pa.nulls(len(begins), pa.binary())
    live, size = (begins, sizes) if there.all() else (begins[there], sizes[there])
    if int(size.sum()) >= _LARGE * len(live):
        return _copied_one_by_one(begins, np.where(there, sizes, 0), there)
    order = np.argsort(live, kind="stable")
    starts = live[order]
    ends = starts + size[order]
    places = np.zeros(len(begins), np.int64)
    places[np.flatnonzero(there)[order]] = np.arange(len(starts))
    wanted = pa.array(places, mask=None if len(live) == len(begins) else ~there)
    # Arrow reserves for a copy by all that lies between the first and the last, so those far from each other are apart.
    far = np.flatnonzero(starts[1:] - ends[:-1] > _NEAR) + 1
    if not len(far):
        return _copied(starts, ends, wanted)
    groups = itertools.pairwise([0, *far.tolist(), len(starts)])
    copies = [_copied(starts[begin:end], ends[begin:end], pa.array(np.arange(end - begin))) for begin, end in groups]
    return pa.concat_arrays(copies).take(wanted)


def _copied_one_by_one(
    begins: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], there: np.ndarray[Any, Any]
) -> pa.BinaryArray:
    """The same, of large ones: each is copied once, where Arrow's way copies all of them two or three times."""
    ends = np.cumsum(sizes)
    if (total := int(ends[-1])) > _MOST_BYTES:
        raise pa.ArrowCapacityError(f"{total} bytes were read at once: a column holds {_MOST_BYTES}")
    copy = pa.allocate_buffer(total)
    places = (copy.address + ends - sizes).tolist()
    for to, begin, size in zip(places, begins.tolist(), sizes.tolist(), strict=True):
        if size:
            ctypes.memmove(to, begin, size)
    valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    offsets = pa.py_buffer(np.concatenate(([0], ends)).astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(begins), [valid, offsets, copy])


def _copied(starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], wanted: pa.Int64Array) -> pa.BinaryArray:
    """Copies of some of the stretches of memory that follow each other.

    Arrow takes all memory from the first to the last as one array, whose every other element is one of them and whose
    others are what lies between: of those nothing is read.
    """
    edges = np.empty(2 * len(starts), np.int64)
    edges[0::2], edges[1::2] = starts, ends
    first = int(starts[0])
    edges -= first
    memory = pa.foreign_buffer(first, max(1, int(edges[-1])))
    stretches = pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), memory])
    return pc.cast(stretches.take(pc.multiply(wanted, 2)), pa.binary())
