import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.Stores;

/**
 * Joins rows that are given: of a stream with a table, or of two streams.
 *
 * Arguments: a file of cases, a list of {"how": "inner", "left" or "outer", "history": ms, "grace": ms, "before": ms,
 * "after": ms, "rows": [[side, key, value, time]]}, where a case has before and after or is of a table, which is
 * versioned if it has a history; and the file for the answers, a list of {"dropped": number, "rows": [[key, left,
 * right]]}. One partition, without a broker.
 */
final class Joins {
    private static final Serde<String> TEXT = Serdes.String();
    private static final ValueJoiner<String, String, String> BOTH = (left, right) -> left + " " + right;

    private Joins() {}

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
        ArrayNode rows = answer.putArray("rows");
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> left = builder.stream("left", Consumed.with(TEXT, TEXT));
        KStream<String, String> joined =
                given.has("before") ? withStream(builder, left, given) : withTable(builder, left, given);
        joined.foreach((key, value) -> {
            String[] sides = value.split(" ");
            ArrayNode row = rows.addArray().add(key);
            for (String side : sides) {
                if (side.equals("null")) {
                    row.addNull();
                } else {
                    row.add(Long.parseLong(side));
                }
            }
        });
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "joins");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties, Instant.EPOCH)) {
            StringSerializer text = new StringSerializer();
            TestInputTopic<String, String> lefts = driver.createInputTopic("left", text, text);
            TestInputTopic<String, String> rights = driver.createInputTopic("right", text, text);
            for (JsonNode row : given.get("rows")) {
                (row.get(0).asInt() == 0 ? lefts : rights).pipeInput(text(row.get(1)), text(row.get(2)), row.get(3).asLong());
            }
            answer.put("dropped", dropped(driver));
        }
        return answer;
    }

    private static KStream<String, String> withTable(StreamsBuilder builder, KStream<String, String> left, JsonNode given) {
        Consumed<String, String> consumed = Consumed.with(TEXT, TEXT);
        KTable<String, String> table = given.has("history")
                ? builder.table("right", consumed, Materialized.as(Stores.persistentVersionedKeyValueStore(
                        "table", Duration.ofMillis(given.get("history").asLong()))))
                : builder.table("right", consumed);
        Joined<String, String, String> with = Joined.with(TEXT, TEXT, TEXT, "join");
        if (given.has("grace")) {
            with = with.withGracePeriod(Duration.ofMillis(given.get("grace").asLong()));
        }
        boolean inner = given.get("how").asText().equals("inner");
        return inner ? left.join(table, BOTH, with) : left.leftJoin(table, BOTH, with);
    }

    private static KStream<String, String> withStream(StreamsBuilder builder, KStream<String, String> left, JsonNode given) {
        KStream<String, String> right = builder.stream("right", Consumed.with(TEXT, TEXT));
        Duration before = Duration.ofMillis(given.get("before").asLong());
        Duration after = Duration.ofMillis(given.get("after").asLong());
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(
                        before.compareTo(after) > 0 ? before : after, Duration.ofMillis(given.get("grace").asLong()))
                .before(before)
                .after(after);
        StreamJoined<String, String, String> with = StreamJoined.with(TEXT, TEXT, TEXT);
        switch (given.get("how").asText()) {
            case "inner":
                return left.join(right, BOTH, windows, with);
            case "left":
                return left.leftJoin(right, BOTH, windows, with);
            default:
                return left.outerJoin(right, BOTH, windows, with);
        }
    }

    private static String text(JsonNode value) {
        return value.isNull() ? null : value.asText();
    }

    private static long dropped(TopologyTestDriver driver) {
        return driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
                .mapToLong(metric -> ((Number) metric.getValue().metricValue()).longValue())
                .sum();
    }
}
