import com.sun.nio.file.ExtendedOpenOption;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.ObjectName;

/**
 * The run inside an emulated guest: the machine is saved while all terminals are at work, and when it goes on, the
 * control disk says how many transactions are measured. Nobody is idle at either end of the measurement.
 *
 * <p>The disk's layout is that of every client of a guest: orders in the first block, the result at 1 MiB behind its
 * length, all past the guest's cache, because the host changes the disk while the guest sleeps.
 */
final class Guest {
    private static final int BLOCK = 4096;
    private static final long RESULT = 1 << 20;

    private final Path control;
    private final long warmUp;
    private final long users;
    private long ended;
    private long leadIn;
    private long transactions;
    private long seed;
    private boolean ordered;
    private long began;
    private double seconds;
    private volatile boolean over;
    private String failure;

    Guest(String control, long warmUp, long users) {
        this.control = Path.of(control);
        this.warmUp = Math.max(1, warmUp);
        this.users = users;
    }

    boolean goesOn() {
        return !over;
    }

    /** Lets the terminals work until what is ordered has been measured; how long that took. */
    double run(List<Terminal> terminals, Runnable work) {
        for (Terminal terminal : terminals) {
            terminal.guest = this;
        }
        work.run();
        return seconds;
    }

    /** A transaction has ended. One at a time, so that exactly as many marks as ordered lie between start and stop. */
    synchronized void ended(Transactions.Kind kind, boolean rolledBack) {
        if (over) {
            return;
        }
        Mark.transaction(kind, rolledBack);
        ended++;
        if (!ordered) {
            if (ended == warmUp) {
                savePoint();
            }
        } else if (ended == leadIn) {
            Mark.start();
            began = System.nanoTime();
        } else if (ended == leadIn + transactions) {
            Mark.stop();
            seconds = (System.nanoTime() - began) / 1e9;
            over = true;
        }
    }

    private void savePoint() {
        try {
            write("null");
            if (!Mark.pause()) {
                throw new IOException("the machine cannot be stopped: run as root inside the guest");
            }
            String orders = read();
            transactions = number(orders, "transactions", 0);
            seed = number(orders, "seed", 1);
            leadIn = Math.max(1, number(orders, "lead_in", users));
            if (transactions == 0) {
                throw new IOException("the control disk holds no orders");
            }
            ended = 0;
            ordered = true;
        } catch (IOException wrong) {
            failure = wrong.getMessage();
            over = true;
        }
    }

    /** Leaves the result: what failed, what was ordered, and where the parts of the memory lie. */
    void leave(List<Checks.Check> checks) {
        List<String> problems = new ArrayList<>();
        if (failure != null) {
            problems.add(failure);
        }
        for (Checks.Check check : checks) {
            if (!check.passed()) {
                problems.add(String.format(Locale.ROOT, "%s: %d, must be from %d to %d", check.check(), check.value(),
                        check.least(), check.most()));
            }
        }
        String told = problems.isEmpty() ? "" : "\"" + String.join("\", \"", problems).replace('\n', ' ') + "\"";
        try {
            write(String.format(Locale.ROOT,
                    "{\"schema\": \"servsim.workload.run/1\", \"valid\": %b, \"problems\": [%s], \"orders\": "
                            + "{\"transactions\": %d, \"seed\": %d}, \"lead_in_transactions\": %d, \"seconds\": %.6f, "
                            + "\"data\": {\"process\": %d, \"ranges\": [%s]}}",
                    problems.isEmpty(), told, transactions, seed, leadIn, seconds, ProcessHandle.current().pid(), String.join(", ", ranges())));
        } catch (IOException wrong) {
            throw new IllegalStateException("the control disk does not take a result", wrong);
        }
    }

    /** The spaces of the heap, as the virtual machine tells them, and its compiled code. */
    private static List<String> ranges() throws IOException {
        List<String> ranges = new ArrayList<>();
        Matcher space = Pattern.compile(" (eden|from|to|the|object) +space.*\\[0x([0-9a-f]+),.* 0x([0-9a-f]+)\\)")
                .matcher(heap());
        while (space.find()) {
            String name = switch (space.group(1)) {
                case "eden" -> "eden";
                case "from", "to" -> "survivor space (" + space.group(1) + ")";
                default -> "old generation";
            };
            add(ranges, "java." + name, space.group(2), space.group(3));
        }
        for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
            Matcher code = Pattern.compile("([0-9a-f]+)-([0-9a-f]+) rwxp 0+ 00:00 0 *").matcher(line);
            if (code.matches()) {
                add(ranges, "java.code made at run time", code.group(1), code.group(2));
            }
        }
        return ranges;
    }

    private static void add(List<String> ranges, String name, String start, String end) {
        long first = Long.parseUnsignedLong(start, 16);
        ranges.add(String.format(Locale.ROOT, "[\"%s\", %d, %d]", name, first, Long.parseUnsignedLong(end, 16) - first));
    }

    private static String heap() {
        try {
            ObjectName commands = new ObjectName("com.sun.management:type=DiagnosticCommand");
            return (String) ManagementFactory.getPlatformMBeanServer().invoke(commands, "gcHeapInfo", null, null);
        } catch (javax.management.JMException unknown) {
            return "";
        }
    }

    private static long number(String orders, String key, long otherwise) {
        Matcher found = Pattern.compile("\"" + key + "\": *([0-9]+)").matcher(orders);
        return found.find() ? Long.parseLong(found.group(1)) : otherwise;
    }

    private String read() throws IOException {
        ByteBuffer block = ByteBuffer.allocateDirect(2 * BLOCK).alignedSlice(BLOCK).limit(BLOCK);
        try (FileChannel disk = FileChannel.open(control, StandardOpenOption.READ, ExtendedOpenOption.DIRECT)) {
            disk.read(block, 0);
        }
        return StandardCharsets.UTF_8.decode(block.flip()).toString();
    }

    private void write(String json) throws IOException {
        byte[] text = json.getBytes(StandardCharsets.UTF_8);
        int size = (text.length + 8 + BLOCK - 1) / BLOCK * BLOCK;
        ByteBuffer blocks = ByteBuffer.allocateDirect(size + BLOCK).alignedSlice(BLOCK).limit(size);
        blocks.order(java.nio.ByteOrder.LITTLE_ENDIAN).putLong(0, text.length).put(8, text);
        try (FileChannel disk = FileChannel.open(
                control, StandardOpenOption.WRITE, StandardOpenOption.DSYNC, ExtendedOpenOption.DIRECT)) {
            disk.write(blocks, RESULT);
        }
    }
}
