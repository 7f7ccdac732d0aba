import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.atomic.LongAdder;

/** The third tier: what all warehouses share, and they themselves. Amounts of money are whole cents. */
final class Company {
    /** What is sold: the same for all warehouses, and never changed. */
    record Item(int number, String name, int price, String description) {}

    final Scale scale;
    final TreeMap<Integer, Item> items = new TreeMap<>();
    final List<Warehouse> warehouses = new ArrayList<>();
    /** Transactions of all terminals. */
    final LongAdder transactions = new LongAdder();

    Company(Scale scale, long seed) {
        this.scale = scale;
        Stream stream = new Stream(seed, 0);
        for (int number = 1; number <= scale.items(); number++) {
            Item item = new Item(number, stream.letters(24), stream.between(100, 10_000), stream.letters(50));
            items.put(number, item);
        }
        for (int number = 1; number <= scale.warehouses(); number++) {
            warehouses.add(new Warehouse(this, number, new Stream(seed, number)));
        }
    }
}
