import java.util.Arrays;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** Word count over lines of text, as words_job.py does it; until it is ended. Arguments: source, sink, settings. */
final class Words {
    private static final Pattern NO_WORD = Pattern.compile("[^a-z]+");

    private Words() {}

    public static void main(String[] arguments) throws InterruptedException {
        Job job = Job.parse(arguments);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(job.argument("source"), Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(NO_WORD.split(line.toLowerCase(Locale.ROOT))))
                .filter((key, word) -> !word.isEmpty())
                .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("words"))
                .toStream()
                .to(job.argument("sink"), Produced.with(Serdes.String(), Serdes.Long()));
        job.run(builder);
    }
}
