import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;

/** Kafka Streams' settings from `name=value` arguments; those that are not given keep their defaults. */
final class Settings {
    private Settings() {}

    static Properties parse(String[] arguments) {
        Properties properties = new Properties();
        Arrays.stream(arguments).map(argument -> argument.split("=", 2)).forEach(pair -> properties.put(pair[0], pair[1]));
        return properties;
    }

    /** What is ours, not Kafka Streams': taken out, so that it is not reported as unknown. */
    static String take(Properties properties, String name) {
        Object value = properties.remove(name);
        if (value == null) {
            throw new IllegalArgumentException("need " + name + "=...");
        }
        return (String) value;
    }

    /** Leaves the group, so that the next run need not wait until this one counts as dead. */
    static void close(KafkaStreams streams) {
        streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)
                .withTimeout(java.time.Duration.ofSeconds(30)));
    }

    /** A failed stream thread ends the process: a benchmark without it would wait without end. */
    static void start(KafkaStreams streams) {
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
    }
}
