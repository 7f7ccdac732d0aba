import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The transaction mark: an instruction without effect that a capture recognises.
 *
 * <p>Without the library that executes it, marks are only counted.
 */
final class Mark {
    private static final int TRANSACTION = 1;
    private static final int START = 2;
    private static final int STOP = 3;

    private static final AtomicLong ASKED = new AtomicLong();
    private static final long PROCESS = ProcessHandle.current().pid();
    private static volatile boolean loaded;

    private Mark() {}

    static void load(String library) {
        try (InputStream kept = Mark.class.getResourceAsStream("/" + library)) {
            if (library.contains("/") || kept == null) {
                System.load(Path.of(library).toAbsolutePath().toString());
            } else {
                loadCopy(kept);
            }
            loaded = true;
        } catch (IOException | UnsatisfiedLinkError wrong) {
            throw new Options.Wrong("--marks " + library + " cannot be loaded: " + wrong.getMessage());
        }
    }

    /** Loads what lies in this program's archive; the copy that this takes is needed no longer once it is mapped. */
    private static void loadCopy(InputStream kept) throws IOException {
        Path copy = Files.createTempFile("mark", ".so");
        try {
            Files.copy(kept, copy, StandardCopyOption.REPLACE_EXISTING);
            System.load(copy.toString());
        } finally {
            Files.delete(copy);
        }
    }

    static void start() {
        mark(START, 0, false);
    }

    static void stop() {
        mark(STOP, 0, false);
    }

    /** Types are numbered from 1. */
    static void transaction(Transactions.Kind kind, boolean rolledBack) {
        mark(TRANSACTION, kind.ordinal() + 1, rolledBack);
    }

    private static void mark(int kind, int type, boolean rolledBack) {
        ASKED.incrementAndGet();
        if (loaded) {
            execute(kind, type, rolledBack, PROCESS);
        }
    }

    /** Marks asked for so far. */
    static long asked() {
        return ASKED.get();
    }

    /** Marks that the library has executed so far; none without it. */
    static long done() {
        return loaded ? executed() : 0;
    }

    static boolean isLoaded() {
        return loaded;
    }

    private static native void execute(int kind, int type, boolean rolledBack, long process);

    private static native long executed();

    /** Stops the emulated machine; returns when it goes on, or at once with false where it cannot be stopped. */
    static native boolean pause();
}
