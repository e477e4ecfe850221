import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;

/** Each line the value of a metadata record in hex: Kafka's own reader reads and writes it again. */
public class MetadataFrames {
    public static void main(String[] arguments) throws Exception {
        var serde = new MetadataRecordSerde();
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            byte[] bytes = HexFormat.of().parseHex(line);
            var record = serde.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length);
            var cache = new ObjectSerializationCache();
            var again = ByteBuffer.allocate(serde.recordSize(record, cache));
            serde.write(record, cache, new ByteBufferAccessor(again));
            String name = record.message().getClass().getSimpleName();
            System.out.println(name + " " + HexFormat.of().formatHex(again.array()));
        }
    }
}
