import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Count, sum and maximum per customer over JSON orders, as orders_job.py does it.
 *
 * Measured from the record number `skip` on, for the JVM compiles before it, until the offsets of all of them are
 * committed. The orders' Kafka key is the customer, so nothing is repartitioned.
 *
 * Arguments: source=topic sink=topic records=n skip=n cache=true|false, and settings of Kafka Streams.
 */
final class Active {
    private static final long TICK_MS = 10;
    private static final LongAdder PROCESSED = new LongAdder();

    private Active() {}

    /** An order as it is read. */
    public record Order(String customer, double amount, int quantity) {}

    /** A customer's state. */
    public record Spent(long orders, double amount, double largest) {
        Spent plus(Order order) {
            return new Spent(orders + 1, amount + order.amount(), Math.max(largest, order.amount()));
        }
    }

    /** A customer's state as it is written. */
    public record Row(String customer, long orders, double amount, double largest) {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = Settings.parse(arguments);
        String source = Settings.take(properties, "source");
        String sink = Settings.take(properties, "sink");
        long records = Long.parseLong(Settings.take(properties, "records"));
        long skip = Long.parseLong(Settings.take(properties, "skip"));
        boolean cache = Boolean.parseBoolean(Settings.take(properties, "cache"));
        if (!cache) {
            properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        }
        KafkaStreams streams = new KafkaStreams(topology(source, sink, cache), properties);
        Settings.start(streams);
        await(skip);
        long begun = PROCESSED.sum();
        Figures figures = new Figures(begun);
        await(records);
        awaitCommit(properties, records);
        System.out.println(figures.until(records));
        Settings.close(streams);
    }

    private static Topology topology(String source, String sink, boolean cache) {
        ObjectMapper json = new ObjectMapper();
        ObjectReader reader = json.readerFor(Order.class);
        ObjectWriter writer = json.writerFor(Row.class);
        Materialized<String, Spent, org.apache.kafka.streams.state.KeyValueStore<
                        org.apache.kafka.common.utils.Bytes, byte[]>>
                store = Materialized.<String, Spent>as(Stores.persistentKeyValueStore("state"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(spent());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(source, Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .mapValues(value -> read(reader, value))
                .groupByKey()
                .aggregate(
                        () -> new Spent(0, 0, Double.NEGATIVE_INFINITY),
                        (customer, order, spent) -> spent.plus(order),
                        cache ? store.withCachingEnabled() : store.withCachingDisabled())
                .toStream()
                .mapValues((customer, spent) -> write(writer, customer, spent))
                .to(sink, Produced.with(Serdes.String(), Serdes.ByteArray()));
        return builder.build();
    }

    private static Order read(ObjectReader reader, byte[] value) {
        PROCESSED.increment();
        try {
            return reader.readValue(value);
        } catch (IOException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static byte[] write(ObjectWriter writer, String customer, Spent spent) {
        try {
            return writer.writeValueAsBytes(new Row(customer, spent.orders(), spent.amount(), spent.largest()));
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static Serde<Spent> spent() {
        Serializer<Spent> serializer = (topic, spent) -> spent == null
                ? null
                : ByteBuffer.allocate(24)
                        .putLong(spent.orders())
                        .putDouble(spent.amount())
                        .putDouble(spent.largest())
                        .array();
        Deserializer<Spent> deserializer = (topic, bytes) -> {
            if (bytes == null) {
                return null;
            }
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new Spent(buffer.getLong(), buffer.getDouble(), buffer.getDouble());
        };
        return Serdes.serdeFrom(serializer, deserializer);
    }

    private static void await(long records) throws InterruptedException {
        while (PROCESSED.sum() < records) {
            Thread.sleep(TICK_MS);
        }
    }

    private static void awaitCommit(Properties properties, long records) throws Exception {
        String server = properties.getProperty(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG);
        String group = properties.getProperty(StreamsConfig.APPLICATION_ID_CONFIG);
        try (Admin admin = Admin.create(Map.of(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, (Object) server))) {
            while (admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values().stream()
                            .mapToLong(offset -> offset.offset())
                            .sum()
                    < records) {
                Thread.sleep(TICK_MS);
            }
        }
    }
}
