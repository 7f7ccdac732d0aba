import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/** The third tier: one warehouse with its stock and districts. One terminal works on it. */
final class Warehouse {
    /** What a warehouse has of an item. */
    static final class Stock {
        int quantity;
        long ordered;
        int orders;
        final String[] districtInformation = new String[Scale.DISTRICTS];
        final String data;

        Stock(Stream stream) {
            quantity = stream.between(10, 100);
            for (int i = 0; i < districtInformation.length; i++) {
                districtInformation[i] = stream.letters(24);
            }
            data = stream.letters(50);
        }
    }

    /** A payment of a customer. */
    record Payment(int district, int customer, long amount, String text) {}

    final Company company;
    final int number;
    final String name;
    final String address;
    /** In hundredths of a percent. */
    final int tax;
    long yearToDate;
    final TreeMap<Integer, Stock> stock = new TreeMap<>();
    final List<District> districts = new ArrayList<>();
    final ArrayDeque<Payment> payments = new ArrayDeque<>();
    long paymentsTaken;

    Warehouse(Company company, int number, Stream stream) {
        this.company = company;
        this.number = number;
        name = stream.letters(10);
        address = stream.letters(60);
        tax = stream.between(0, 2000);
        for (int item = 1; item <= company.scale.items(); item++) {
            stock.put(item, new Stock(stream));
        }
        for (int district = 1; district <= Scale.DISTRICTS; district++) {
            districts.add(new District(this, district, stream));
        }
    }

    void remember(Payment payment) {
        payments.addLast(payment);
        paymentsTaken++;
        if (payments.size() > Scale.PAYMENTS) {
            payments.removeFirst();
        }
    }
}
