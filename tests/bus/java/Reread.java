import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/** Each line "class version hex": Kafka's own class reads the bytes and writes them again. */
public class Reread {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        var out = new PrintStream(System.out, false);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            out.println(reread(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
        out.flush();
    }

    static String reread(String name, short version, byte[] bytes) {
        try {
            Constructor<?> constructor = Class.forName(name).getConstructor(Readable.class, short.class);
            var buffer = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
            var message = (Message) constructor.newInstance(buffer, version);
            if (buffer.remaining() > 0) {
                return "left over: " + buffer.remaining();
            }
            var cache = new ObjectSerializationCache();
            var again = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(again), cache, version);
            return HexFormat.of().formatHex(again.array());
        } catch (ReflectiveOperationException | RuntimeException failure) {
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            return "failed: " + cause;
        }
    }
}
