import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * "read": each line a batch in hex; prints its records, or what is wrong with it.
 * "write": prints one batch per compression, in hex, in order of their numbers.
 */
public class Batches {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write")) {
            write();
        } else {
            read();
        }
    }

    static void read() throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            var records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(line)));
            for (MutableRecordBatch batch : records.batches()) {
                batch.ensureValid();
                for (Record record : batch) {
                    record.ensureValid();
                    System.out.println(show(record));
                }
            }
        }
    }

    static String show(Record record) {
        var text = new StringBuilder();
        text.append(record.offset()).append(' ').append(record.timestamp()).append(' ');
        text.append(hex(record.key())).append(' ').append(hex(record.value()));
        for (Header header : record.headers()) {
            byte[] value = header.value();
            text.append(' ').append(header.key()).append('=');
            text.append(value == null ? "null" : HEX.formatHex(value));
        }
        return text.toString();
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "null";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "'" + HEX.formatHex(bytes) + "'";
    }

    static void write() {
        for (CompressionType type : CompressionType.values()) {
            var headers = new Header[] {new RecordHeader("schema", "vehicle/1".getBytes()), new RecordHeader("none", null)};
            var records = MemoryRecords.withIdempotentRecords(
                1000L, Compression.of(type).build(), 7L, (short) 3, 40, 5,
                new SimpleRecord(1700000000000L, "k".repeat(50).getBytes(), "v".repeat(5000).getBytes(), headers),
                new SimpleRecord(1699999999000L, (byte[]) null, (byte[]) null),
                new SimpleRecord(1700000000001L, new byte[0], new byte[0]));
            byte[] bytes = new byte[records.buffer().remaining()];
            records.buffer().duplicate().get(bytes);
            System.out.println(HEX.formatHex(bytes));
        }
    }
}
