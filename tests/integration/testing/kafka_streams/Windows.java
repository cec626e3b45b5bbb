import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.SessionStore;

/**
 * Counts and sums by window, each emitted when it closes, of rows that are given.
 *
 * Arguments: a file of cases, a list of {"size": ms, "slide": ms, "gap": ms, "grace": ms, "retention": ms,
 * "emit": "suppress" or "close", "rows": [[key, value, time]]}, where a case has a gap or size and slide; and the file for the answers, a list of {"dropped": number, "windows": [[key, start,
 * end, count, sum]]}. One partition, without a broker.
 */
final class Windows {
    private Windows() {}

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        ArrayNode answers = json.createArrayNode();
        for (JsonNode given : json.readTree(new File(arguments[0]))) {
            answers.add(answer(json, given));
        }
        json.writeValue(new File(arguments[1]), answers);
    }

    private static ObjectNode answer(ObjectMapper json, JsonNode given) {
        ObjectNode answer = json.createObjectNode();
        ArrayNode windows = answer.putArray("windows");
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, String> grouped = builder.stream("in", Consumed.with(Serdes.String(), Serdes.String()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
        table(grouped, given).toStream().foreach((window, state) -> add(windows, window, state));
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "windows");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties, Instant.EPOCH)) {
            TestInputTopic<String, String> in =
                    driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
            for (JsonNode row : given.get("rows")) {
                in.pipeInput(row.get(0).asText(), row.get(1).asText(), row.get(2).asLong());
            }
            answer.put("dropped", dropped(driver));
        }
        return answer;
    }

    private static KTable<Windowed<String>, String> table(KGroupedStream<String, String> grouped, JsonNode given) {
        Duration grace = Duration.ofMillis(given.get("grace").asLong());
        boolean suppresses = given.get("emit").asText().equals("suppress");
        EmitStrategy strategy = suppresses ? EmitStrategy.onWindowUpdate() : EmitStrategy.onWindowClose();
        KTable<Windowed<String>, String> table;
        if (given.has("gap")) {
            Materialized<String, String, SessionStore<Bytes, byte[]>> store =
                    Materialized.with(Serdes.String(), Serdes.String());
            if (given.has("retention")) {
                store = store.withRetention(Duration.ofMillis(given.get("retention").asLong()));
            }
            Duration gap = Duration.ofMillis(given.get("gap").asLong());
            table = grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(gap, grace))
                    .emitStrategy(strategy)
                    .aggregate(
                            () -> "0 0",
                            (key, value, state) -> sum(state, "1 " + value),
                            (key, one, other) -> sum(one, other),
                            store);
        } else {
            Duration size = Duration.ofMillis(given.get("size").asLong());
            Duration slide = Duration.ofMillis(given.get("slide").asLong());
            table = grouped.windowedBy(TimeWindows.ofSizeAndGrace(size, grace).advanceBy(slide))
                    .emitStrategy(strategy)
                    .aggregate(
                            () -> "0 0",
                            (key, value, state) -> sum(state, "1 " + value),
                            Materialized.with(Serdes.String(), Serdes.String()));
        }
        return suppresses ? table.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded())) : table;
    }

    /** A state is the count and the sum. */
    private static String sum(String one, String other) {
        String[] ones = one.split(" ");
        String[] others = other.split(" ");
        long count = Long.parseLong(ones[0]) + Long.parseLong(others[0]);
        return count + " " + (Long.parseLong(ones[1]) + Long.parseLong(others[1]));
    }

    private static void add(ArrayNode windows, Windowed<String> window, String state) {
        if (state == null) {
            return;
        }
        String[] parts = state.split(" ");
        windows.addArray()
                .add(window.key())
                .add(window.window().start())
                .add(window.window().end())
                .add(Long.parseLong(parts[0]))
                .add(Long.parseLong(parts[1]));
    }

    private static long dropped(TopologyTestDriver driver) {
        return driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
                .mapToLong(metric -> ((Number) metric.getValue().metricValue()).longValue())
                .sum();
    }
}
