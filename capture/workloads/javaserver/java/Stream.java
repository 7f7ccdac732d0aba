/**
 * Reproducible random numbers: SplitMix64 (Steele, Lea and Flood 2014), a stream for each seed and number.
 *
 * <p>Written out because the numbers are part of the workload: they must not follow a library's versions.
 */
final class Stream {
    private static final long GOLDEN = 0x9e3779b97f4a7c15L;
    private long state;

    Stream(long seed, long number) {
        state = mix(seed + GOLDEN) ^ mix(number * GOLDEN + 1);
    }

    private static long mix(long value) {
        long z = (value ^ (value >>> 30)) * 0xbf58476d1ce4e5b9L;
        z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
        return z ^ (z >>> 31);
    }

    /** The next 64 random bits. */
    long bits() {
        state += GOLDEN;
        return mix(state);
    }

    /** A whole number from {@code low} to {@code high}, both included. */
    int between(int low, int high) {
        // The high half of a product: a bias below 2^-32 for the small ranges used here.
        return low + (int) (((bits() >>> 32) * (high - low + 1L)) >>> 32);
    }

    /** True so many times of a hundred. */
    boolean percent(int chance) {
        return between(0, 99) < chance;
    }

    /** A text of small letters. */
    String letters(int length) {
        byte[] text = new byte[length];
        for (int i = 0; i < length; i++) {
            text[i] = (byte) ('a' + between(0, 25));
        }
        return new String(text, java.nio.charset.StandardCharsets.ISO_8859_1);
    }
}
