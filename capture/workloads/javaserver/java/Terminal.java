/**
 * The first tier: the requests of one warehouse's clerk, one after another, without pauses.
 *
 * <p>The requests depend on seed and warehouse alone, and so do the answers, because nobody else changes this
 * warehouse: the log of both is the same in every run.
 */
final class Terminal implements Runnable {
    private final Warehouse warehouse;
    private final Transactions transactions;
    private final Stream stream;
    private final Transactions.Kind[] deck;
    private int dealt;
    private long date = 1;
    private long left;
    /** Says when a transaction of a guest is the last; none natively, where so many are prepared. */
    Guest guest;

    /** A digest of all requests and answers (FNV-1a). */
    long log = 0xcbf29ce484222325L;
    final long[] counts = new long[Transactions.Kind.values().length];
    long rolledBack;
    long paid;
    long ordered;
    /** What ended this terminal before its time. */
    Throwable failure;

    Terminal(Warehouse warehouse, long seed) {
        this.warehouse = warehouse;
        transactions = new Transactions(warehouse);
        stream = new Stream(seed, 1_000_000L + warehouse.number);
        int cards = 0;
        for (Transactions.Kind kind : Transactions.Kind.values()) {
            cards += kind.cards;
        }
        deck = new Transactions.Kind[cards];
        int card = 0;
        for (Transactions.Kind kind : Transactions.Kind.values()) {
            for (int i = 0; i < kind.cards; i++) {
                deck[card++] = kind;
            }
        }
        dealt = deck.length;
    }

    /** Gives every district the orders that the run begins with; they count as requests. */
    void open() {
        for (int round = 0; round < Scale.REMEMBERED + Scale.BACKLOG; round++) {
            for (int district = 1; district <= Scale.DISTRICTS; district++) {
                order(district, false);
            }
            if (round >= Scale.BACKLOG) {
                record(Transactions.Kind.DELIVERY, transactions.delivery(stream.between(1, 10), date++));
            }
        }
    }

    void prepare(long requests) {
        left = requests;
    }

    @Override
    public void run() {
        try {
            for (; guest == null ? left > 0 : guest.goesOn(); left--) {
                long before = rolledBack;
                Transactions.Kind kind = next();
                request(kind);
                if (guest == null) {
                    Mark.transaction(kind, rolledBack > before);
                } else {
                    guest.ended(kind, rolledBack > before);
                }
                warehouse.company.transactions.increment();
            }
        } catch (Throwable failure) {
            this.failure = failure;
        }
    }

    /** The next card; the deck is shuffled whenever it has been dealt. */
    private Transactions.Kind next() {
        if (dealt == deck.length) {
            for (int last = deck.length - 1; last > 0; last--) {
                int other = stream.between(0, last);
                Transactions.Kind kept = deck[last];
                deck[last] = deck[other];
                deck[other] = kept;
            }
            dealt = 0;
        }
        return deck[dealt++];
    }

    private void request(Transactions.Kind kind) {
        int district = stream.between(1, Scale.DISTRICTS);
        int customer = stream.between(1, warehouse.company.scale.customers());
        switch (kind) {
            case NEW_ORDER -> order(district, stream.percent(1));
            case PAYMENT -> {
                int amount = stream.between(100, 500_000);
                paid += amount;
                record(kind, transactions.payment(district, customer, amount));
            }
            case ORDER_STATUS -> record(kind, transactions.orderStatus(district, customer));
            case DELIVERY -> record(kind, transactions.delivery(stream.between(1, 10), date++));
            case STOCK_LEVEL -> record(kind, transactions.stockLevel(district, stream.between(10, 20)));
            case CUSTOMER_REPORT -> record(kind, transactions.customerReport(district, customer));
        }
    }

    private void order(int district, boolean wrong) {
        Transactions.Wish[] wishes = new Transactions.Wish[stream.between(5, 15)];
        long quantity = 0;
        for (int i = 0; i < wishes.length; i++) {
            wishes[i] = new Transactions.Wish(stream.between(1, warehouse.company.scale.items()), stream.between(1, 10));
            quantity += wishes[i].quantity();
        }
        if (wrong) {
            wishes[wishes.length - 1] = new Transactions.Wish(0, 1);
        }
        int customer = stream.between(1, warehouse.company.scale.customers());
        String answer = transactions.newOrder(district, customer, wishes, date++);
        if (answer == null) {
            rolledBack++;
        } else {
            ordered += quantity;
        }
        record(Transactions.Kind.NEW_ORDER, answer);
    }

    private void record(Transactions.Kind kind, String answer) {
        counts[kind.ordinal()]++;
        log = (log ^ kind.ordinal()) * 0x100000001b3L;
        String text = answer == null ? "" : answer;
        for (int i = 0; i < text.length(); i++) {
            log = (log ^ text.charAt(i)) * 0x100000001b3L;
        }
    }
}
