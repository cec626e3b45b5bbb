import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;

/**
 * Restores the store `state` of an application from its changelog, into a folder that holds nothing yet.
 *
 * Measured from the first partition's start of restoration to the last one's end: the start of the JVM and the
 * rebalance before it are not in the figures, the JVM's compiling is.
 *
 * Arguments: source=topic partitions=n, and settings of Kafka Streams.
 */
final class Restore {
    private Restore() {}

    public static void main(String[] arguments) throws InterruptedException {
        Properties properties = Settings.parse(arguments);
        String source = Settings.take(properties, "source");
        Progress progress = new Progress(Integer.parseInt(Settings.take(properties, "partitions")));
        KafkaStreams streams = new KafkaStreams(topology(source), properties);
        streams.setGlobalStateRestoreListener(progress);
        Settings.start(streams);
        System.out.println(progress.await());
        Settings.close(streams);
    }

    private static Topology topology(String source) {
        return new Topology()
                .addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), source)
                .addProcessor("processor", Idle::new, "source")
                .addStateStore(
                        Stores.keyValueStoreBuilder(
                                        Stores.persistentKeyValueStore("state"), Serdes.ByteArray(), Serdes.ByteArray())
                                .withLoggingEnabled(Map.of())
                                .withCachingDisabled(),
                        "processor");
    }

    private static final class Idle implements Processor<byte[], byte[], Void, Void> {
        @Override
        public void process(Record<byte[], byte[]> record) {}
    }

    private static final class Progress implements StateRestoreListener {
        private final CountDownLatch left;
        private final AtomicReference<Figures> begun = new AtomicReference<>();
        private final AtomicReference<String> ended = new AtomicReference<>();
        private final AtomicLong restored = new AtomicLong();

        Progress(int partitions) {
            left = new CountDownLatch(partitions);
        }

        @Override
        public void onRestoreStart(TopicPartition partition, String store, long startingOffset, long endingOffset) {
            synchronized (this) {
                if (begun.get() == null) {
                    begun.set(new Figures(0));
                }
            }
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long batchEndOffset, long numRestored) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long totalRestored) {
            ended.set(begun.get().until(restored.addAndGet(totalRestored)));
            left.countDown();
        }

        String await() throws InterruptedException {
            left.await();
            return ended.get();
        }
    }
}
