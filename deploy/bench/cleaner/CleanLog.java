import java.io.File;
import java.lang.reflect.Proxy;
import java.util.Optional;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Cleans logs with Apache Kafka's own cleaner. Reads lines "directory firstDirty end now retention
 * segmentBytes indexInterval" and answers each with the offset from which the log is dirty then and
 * the seconds that the cleaning took; the log is opened, and recovered, before that.
 */
public class CleanLog {
    public static void main(String[] arguments) throws Exception {
        int dedupeBytes = Integer.parseInt(arguments[0]);
        Scanner in = new Scanner(System.in);
        while (in.hasNext()) {
            File directory = new File(in.next());
            long firstDirty = in.nextLong(), end = in.nextLong(), now = in.nextLong();
            Properties settings = new Properties();
            settings.put("cleanup.policy", "compact");
            settings.put("delete.retention.ms", in.next());
            settings.put("internal.segment.bytes", in.next());
            settings.put("index.interval.bytes", in.next());
            UnifiedLog log = open(directory, new LogConfig(settings), at(now));
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(dedupeBytes), 1 << 19, 1 << 20, 0.9,
                new Throttler(Double.MAX_VALUE, 300, "throttler", "entries", Time.SYSTEM), Time.SYSTEM, partition -> { });
            long began = System.nanoTime();
            var cleaned = cleaner.doClean(new LogToClean(log, firstDirty, end, false), now);
            double seconds = (System.nanoTime() - began) / 1e9;
            log.close();
            System.out.println(cleaned.getKey() + " " + seconds);
        }
    }

    /** Its scheduler is never started, so old segments stay: whoever asked removes the directory. */
    static UnifiedLog open(File directory, LogConfig config, Time time) throws Exception {
        UnifiedLog log = UnifiedLog.create(directory, config, 0, 0, new KafkaScheduler(1), new BrokerTopicStats(),
            time, 900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000,
            new LogDirFailureChannel(1), false, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        return log;
    }

    /** A clock that stands, so that no producer of the log has expired; it measures and waits as others do. */
    static Time at(long now) {
        return (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, values) ->
                method.getName().equals("milliseconds") ? (Object) now : method.invoke(Time.SYSTEM, values));
    }
}
