import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** A job that runs until the process is told to end; who started it measures it. */
final class Job {
    private final Properties properties;
    private final Map<String, String> ours = new HashMap<>();

    private Job(Properties properties) {
        this.properties = properties;
    }

    static Job parse(String[] arguments) {
        return new Job(Settings.parse(arguments));
    }

    /** What is no setting, such as a topic by what it is to the job; called before `run`. */
    String argument(String role) {
        return ours.computeIfAbsent(role, name -> Settings.take(properties, name));
    }

    void run(StreamsBuilder builder) throws InterruptedException {
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Settings.close(streams)));
        Settings.start(streams);
        new CountDownLatch(1).await();
    }

    static <T> T read(ObjectReader reader, byte[] value) {
        try {
            return reader.readValue(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static byte[] write(ObjectWriter writer, Object row) {
        try {
            return writer.writeValueAsBytes(row);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
