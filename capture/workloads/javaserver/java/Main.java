import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * A server of three tiers in one process: terminals, business rules, and tables in memory, for every warehouse a
 * thread. SPECjbb-like, not SPECjbb; not comparable.
 *
 * <p>Exit codes: 0 success, 1 a check failed, 2 wrong usage, 3 too little memory, 70 a fault of the program.
 */
public final class Main {
    private static final String NOTICE = "SPECjbb-like, not SPECjbb; not comparable";

    private Main() {}

    /** Runs the server. */
    public static void main(String[] words) {
        System.exit(code(words));
    }

    private static int code(String[] words) {
        try {
            return run(Options.read(words));
        } catch (Options.Wrong wrong) {
            System.err.println("javaserver: " + wrong.getMessage());
            return 2;
        } catch (OutOfMemoryError full) {
            System.err.println("javaserver: the heap of " + (Runtime.getRuntime().maxMemory() >> 20)
                    + " MiB is full: give fewer --warehouses or --items, or a larger --heap");
            return 3;
        }
    }

    private static int run(Options options) {
        if (!options.marks().isEmpty()) {
            Mark.load(options.marks());
        }
        long before = alive();
        Scale scale = new Scale(options.warehouses(), options.items());
        Company company = new Company(scale, options.seed());
        List<Terminal> terminals = new ArrayList<>();
        for (Warehouse warehouse : company.warehouses) {
            Terminal terminal = new Terminal(warehouse, options.seed());
            terminal.open();
            terminals.add(terminal);
        }
        Guest guest = options.control().isEmpty() ? null : new Guest(options.control(), options.warmUp(), terminals.size());
        double seconds = guest == null ? natively(terminals, options) : guest.run(terminals, () -> work(terminals, 0));
        long shared = sharedBytes(scale);
        long live = Math.max(0, alive() - before - shared) / scale.warehouses();
        List<Checks.Check> checks = Checks.all(company, terminals, live);
        // Every request of warm-up and measurement, the start and the stop.
        long wanted = guest == null ? (long) options.warmUp() + options.transactions() + 2 : Mark.asked();
        checks.add(new Checks.Check("marks", Mark.isLoaded() ? Mark.done() : Mark.asked(), wanted, wanted));
        Report report = new Report(options, scale, terminals, checks, seconds, live);
        System.out.print(options.json() ? report.json() : report.text());
        if (guest != null) {
            guest.leave(checks);
        }
        boolean valid = true;
        for (Checks.Check check : checks) {
            if (!check.passed()) {
                valid = false;
                System.err.printf(Locale.ROOT, "javaserver: a check failed: %s: %d, must be from %d to %d%n",
                        check.check(), check.value(), check.least(), check.most());
            }
        }
        return valid ? 0 : 1;
    }

    private static double natively(List<Terminal> terminals, Options options) {
        work(terminals, options.warmUp());
        Mark.start();
        long start = System.nanoTime();
        work(terminals, options.transactions());
        double seconds = (System.nanoTime() - start) / 1e9;
        Mark.stop();
        return seconds;
    }

    /** Lets the terminals make so many requests in all, each on a thread of its own. */
    private static void work(List<Terminal> terminals, long requests) {
        List<Thread> threads = new ArrayList<>();
        for (Terminal terminal : terminals) {
            long number = threads.size();
            terminal.prepare(requests * (number + 1) / terminals.size() - requests * number / terminals.size());
            Thread thread = new Thread(terminal, "warehouse-" + (threads.size() + 1));
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(interrupted);
            }
        }
        for (Terminal terminal : terminals) {
            if (terminal.failure instanceof Error failure) {
                throw failure;
            }
            if (terminal.failure != null) {
                throw new IllegalStateException("a terminal failed", terminal.failure);
            }
        }
    }

    /** Bytes of the heap that are reachable: what is left after collections that find nothing more. */
    private static long alive() {
        Runtime runtime = Runtime.getRuntime();
        long least = Long.MAX_VALUE;
        for (int round = 0; round < 3; round++) {
            System.gc();
            least = Math.min(least, runtime.totalMemory() - runtime.freeMemory());
        }
        return least;
    }

    /** Bytes of the items, which all warehouses share, about: measured as those of {@link Scale}. */
    private static long sharedBytes(Scale scale) {
        return 250L * scale.items();
    }

    /** What a run found. */
    private record Report(
            Options options, Scale scale, List<Terminal> terminals, List<Checks.Check> checks, double seconds, long live) {
        /** A digest of the logs of all warehouses, in their order. */
        private long log() {
            long log = 0;
            for (Terminal terminal : terminals) {
                log = log * 31 + terminal.log;
            }
            return log;
        }

        String text() {
            StringBuilder text = new StringBuilder(NOTICE).append('\n');
            text.append(String.format(Locale.ROOT,
                    "%d warehouses, %d transactions in %.2f s: %.0f transactions/s%n%.1f MB alive per warehouse, "
                            + "operation log %016x%n",
                    scale.warehouses(), options.transactions(), seconds, options.transactions() / seconds, live / 1e6, log()));
            for (Checks.Check check : checks) {
                text.append(String.format(Locale.ROOT, "  %s %s: %d%n", check.passed() ? "ok    " : "FAILED",
                        check.check(), check.value()));
            }
            return text.toString();
        }

        String json() {
            List<String> found = new ArrayList<>();
            boolean valid = true;
            for (Checks.Check check : checks) {
                valid &= check.passed();
                found.add(String.format(Locale.ROOT,
                        "{\"check\": \"%s\", \"value\": %d, \"least\": %d, \"most\": %d, \"passed\": %b}", check.check(),
                        check.value(), check.least(), check.most(), check.passed()));
            }
            List<String> logs = new ArrayList<>();
            for (Terminal terminal : terminals) {
                logs.add(String.format("\"%016x\"", terminal.log));
            }
            List<String> kinds = new ArrayList<>();
            for (Transactions.Kind kind : Transactions.Kind.values()) {
                long sum = 0;
                for (Terminal terminal : terminals) {
                    sum += terminal.counts[kind.ordinal()];
                }
                kinds.add(String.format("\"%s\": %d", kind.name().toLowerCase(Locale.ROOT), sum));
            }
            Runtime runtime = Runtime.getRuntime();
            return String.format(Locale.ROOT,
                    "{%n  \"schema\": \"servsim.workload.javaserver/1\",%n  \"notice\": \"%s\",%n  \"valid\": %b,%n"
                            + "  \"warehouses\": %d,%n  \"items\": %d,%n  \"seed\": %d,%n  \"transactions\": %d,%n"
                            + "  \"seconds\": %.6f,%n  \"transactions_per_second\": %.1f,%n"
                            + "  \"live_bytes_per_warehouse\": %d,%n  \"heap_bytes\": %d,%n  \"java\": \"%s\",%n"
                            + "  \"requests\": {%s},%n  \"marks\": {\"asked\": %d, \"executed\": %d},%n"
                            + "  \"operation_log\": \"%016x\",%n  \"operation_logs\": [%s],%n  \"checks\": [%s]%n}%n",
                    NOTICE, valid, scale.warehouses(), scale.items(), options.seed(), options.transactions(), seconds,
                    options.transactions() / seconds, live, runtime.maxMemory(), System.getProperty("java.version"),
                    String.join(", ", kinds), Mark.asked(), Mark.done(), log(), String.join(", ", logs), String.join(", ", found));
        }
    }
}
