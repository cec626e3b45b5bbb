import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Orders with their customers' countries, as joins_job.py does it; until it is ended.
 *
 * Arguments: source, table, sink, settings. Both topics' key is the customer, and they are partitioned alike, so nothing
 * is repartitioned.
 */
final class Joins {
    private Joins() {}

    /** An order as it is read. */
    public record Order(long id, String customer, long amount) {}

    /** A customer as it is read. */
    public record Customer(String customer, String country) {}

    /** What is written. */
    public record Row(String customer, long id, long amount, String country) {}

    public static void main(String[] arguments) throws InterruptedException {
        Job job = Job.parse(arguments);
        ObjectMapper json = new ObjectMapper();
        ObjectReader orders = json.readerFor(Order.class);
        ObjectReader customers = json.readerFor(Customer.class);
        ObjectWriter writer = json.writerFor(Row.class);
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> countries = builder.stream(
                        job.argument("table"), Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .mapValues(value -> Job.<Customer>read(customers, value).country())
                .toTable(Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("customers")
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.String()));
        builder.stream(job.argument("source"), Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .mapValues(value -> Job.<Order>read(orders, value))
                .leftJoin(
                        countries,
                        (customer, order, country) ->
                                Job.write(writer, new Row(customer, order.id(), order.amount(), country)),
                        Joined.keySerde(Serdes.String()))
                .to(job.argument("sink"), Produced.with(Serdes.String(), Serdes.ByteArray()));
        job.run(builder);
    }
}
