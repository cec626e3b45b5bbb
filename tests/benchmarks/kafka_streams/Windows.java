import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Orders and spending per customer and hour, as windows_job.py does it, by the records' timestamps; until it is ended.
 *
 * Arguments: source, sink, settings. The orders' Kafka key is the customer, so nothing is repartitioned.
 */
final class Windows {
    private Windows() {}

    /** An order as it is read. */
    public record Order(String customer, long amount, long at) {}

    /** What is kept of a customer and hour. */
    public record Spent(long orders, long spent) {}

    /** The same as it is written. */
    public record Row(String customer, long start, long orders, long spent) {}

    public static void main(String[] arguments) throws InterruptedException {
        Job job = Job.parse(arguments);
        ObjectMapper json = new ObjectMapper();
        ObjectReader reader = json.readerFor(Order.class);
        ObjectWriter writer = json.writerFor(Row.class);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(job.argument("source"), Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .mapValues(value -> Job.<Order>read(reader, value))
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofHours(1), Duration.ofMinutes(10)))
                .aggregate(
                        () -> new Spent(0, 0),
                        (customer, order, spent) -> new Spent(spent.orders() + 1, spent.spent() + order.amount()),
                        Materialized.<String, Spent, WindowStore<Bytes, byte[]>>as("hourly")
                                .withKeySerde(Serdes.String())
                                .withValueSerde(spent()))
                .toStream()
                .map((window, spent) -> org.apache.kafka.streams.KeyValue.pair(
                        window.key(),
                        Job.write(
                                writer,
                                new Row(window.key(), window.window().start(), spent.orders(), spent.spent()))))
                .to(job.argument("sink"), Produced.with(Serdes.String(), Serdes.ByteArray()));
        job.run(builder);
    }

    private static Serde<Spent> spent() {
        return Serdes.serdeFrom(
                (topic, spent) -> spent == null
                        ? null
                        : ByteBuffer.allocate(16).putLong(spent.orders()).putLong(spent.spent()).array(),
                (topic, bytes) -> {
                    if (bytes == null) {
                        return null;
                    }
                    ByteBuffer buffer = ByteBuffer.wrap(bytes);
                    return new Spent(buffer.getLong(), buffer.getLong());
                });
    }
}
