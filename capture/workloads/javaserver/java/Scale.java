/**
 * Sizes of the company: how many of everything a warehouse has.
 *
 * <p>With 20,000 items a warehouse holds about 20 MB, as published for SPECjbb (some 25 MB).
 */
record Scale(int warehouses, int items) {
    static final int DISTRICTS = 10;
    /** Delivered orders that a district remembers; older ones are forgotten, so that the live set does not grow. */
    static final int REMEMBERED = 60;
    /** Payments that a warehouse remembers. */
    static final int PAYMENTS = 2000;
    /** Undelivered orders of a district at the begin. */
    static final int BACKLOG = 9;
    static final int LEAST_ITEMS = 100;

    /** Customers of a district: a hundredth of the items, which makes 200. */
    int customers() {
        return items / 100;
    }

    /**
     * Bytes of a warehouse that stay alive, about: fitted to what 1,000, 5,000 and 20,000 items took on OpenJDK 17 with
     * compressed pointers (1.5, 5.3 and 19.6 MB).
     */
    long expectedBytes() {
        long orders = (long) DISTRICTS * (REMEMBERED + BACKLOG);
        return 885L * items + 680L * DISTRICTS * customers() + 560L * orders + 75L * PAYMENTS;
    }
}
