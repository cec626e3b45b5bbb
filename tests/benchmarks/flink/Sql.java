import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Statements of Flink's SQL, the last of which runs until the process is ended; who started it measures it.
 *
 * <p>Arguments: settings of Flink as name=value without spaces, then a statement each.
 */
final class Sql {
    private Sql() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        int at = 0;
        for (; at < arguments.length && !arguments[at].contains(" "); at++) {
            String[] pair = arguments[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Configuration configuration = Configuration.fromMap(settings);
        StreamTableEnvironment tables = StreamTableEnvironment.create(
                StreamExecutionEnvironment.createLocalEnvironment(configuration));
        for (; at < arguments.length - 1; at++) {
            tables.executeSql(arguments[at]);
        }
        tables.executeSql(arguments[at]).await();
    }
}
