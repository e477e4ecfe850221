import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Scanner;
import java.util.Set;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;

/**
 * Reads lines "batch keep horizon marker empty ours" and answers each with what filterTo makes of
 * the batch, then how Kafka reads that, then how it reads ours. Bytes are hex; "-" is none.
 */
public class FilterTo {
    public static void main(String[] arguments) throws Exception {
        Scanner in = new Scanner(System.in);
        while (in.hasNext()) {
            byte[] batch = bytes(in.next());
            Set<Long> keep = new HashSet<>();
            for (String offset : in.next().split(",")) if (!offset.equals("-")) keep.add(Long.valueOf(offset));
            byte[] theirs = filtered(batch, keep, in.nextLong(), in.nextBoolean(), in.nextBoolean());
            byte[] ours = bytes(in.next());
            System.out.println(theirs.length == 0 ? "-" : HexFormat.of().formatHex(theirs));
            System.out.println(shown(theirs));
            System.out.println(shown(ours));
        }
    }

    static byte[] bytes(String text) {
        return text.equals("-") ? new byte[0] : HexFormat.of().parseHex(text);
    }

    static byte[] filtered(byte[] batch, Set<Long> keep, long horizon, boolean marker, boolean empty) {
        RecordFilter filter = new RecordFilter(0, horizon) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch one) {
                return new BatchRetentionResult(
                    empty ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY, marker);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch one, Record record) {
                return keep.contains(record.offset());
            }
        };
        var result = MemoryRecords.readableRecords(ByteBuffer.wrap(batch)).filterTo(
            filter, ByteBuffer.allocate(64 + 2 * batch.length), BufferSupplier.NO_CACHING, Integer.MAX_VALUE);
        ByteBuffer made = result.outputBuffer();
        made.flip();
        byte[] bytes = new byte[made.remaining()];
        made.get(bytes);
        return bytes;
    }

    static String shown(byte[] bytes) {
        StringBuilder out = new StringBuilder();
        for (MutableRecordBatch one : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            one.ensureValid();
            out.append(String.join(" ", "batch", "" + one.baseOffset(), "" + one.lastOffset(),
                "" + one.partitionLeaderEpoch(), "" + one.compressionType(), "" + one.timestampType(),
                "" + one.maxTimestamp(), "" + one.producerId(), "" + one.producerEpoch(),
                "" + one.baseSequence(), "" + one.lastSequence(), "" + one.isTransactional(),
                "" + one.isControlBatch(), "" + one.deleteHorizonMs(), "" + one.countOrNull()));
            for (Record record : one) {
                out.append(" | ").append(record.offset()).append(' ').append(record.timestamp())
                    .append(' ').append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers())
                    out.append(' ').append(header.key()).append('=')
                        .append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
            }
        }
        return out.toString();
    }

    static String hex(ByteBuffer value) {
        if (value == null) return "null";
        byte[] bytes = new byte[value.remaining()];
        value.duplicate().get(bytes);
        return "'" + HexFormat.of().formatHex(bytes) + "'";
    }
}
