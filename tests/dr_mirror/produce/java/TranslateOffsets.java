import java.time.Duration;
import java.util.Map;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints what MirrorMaker's own client makes of a group's checkpoints: topic, partition, offset. */
public class TranslateOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> target = Map.of("bootstrap.servers", arguments[0]);
        RemoteClusterUtils.translateOffsets(target, arguments[1], arguments[2], Duration.ofSeconds(20))
            .forEach((partition, offset) ->
                System.out.println(partition.topic() + " " + partition.partition() + " " + offset.offset()));
    }
}
