import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/** What one run measured: wall and CPU time of this process between two moments. */
final class Figures {
    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final long records;
    private final long wall = System.nanoTime();
    private final long cpu = PROCESS.getProcessCpuTime();

    /** Begins now, with so many records done. */
    Figures(long records) {
        this.records = records;
    }

    /** Ends now, with so many records done in all: one line of JSON for the program that started this one. */
    String until(long recordsInAll) {
        return String.format(
                java.util.Locale.ROOT,
                "{\"records\":%d,\"seconds\":%.6f,\"cpu_seconds\":%.6f}",
                recordsInAll - records,
                (System.nanoTime() - wall) / 1e9,
                (PROCESS.getProcessCpuTime() - cpu) / 1e9);
    }
}
