import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/** The third tier: a district with its customers and orders. */
final class District {
    /** Number of the first order. */
    static final int FIRST_ORDER = 1;

    /** Who orders and pays. */
    static final class Customer {
        final int number;
        final String last;
        final String address;
        String data;
        long balance;
        long paid;
        int payments;
        int deliveries;
        int lastOrder;

        Customer(int number, Stream stream) {
            this.number = number;
            last = stream.letters(12);
            address = stream.letters(80);
            data = stream.letters(350);
        }
    }

    /** An order; {@code carrier} is 0 until it is delivered. */
    static final class Order {
        final int number;
        final int customer;
        final long date;
        final Line[] lines;
        int carrier;

        Order(int number, int customer, long date, Line[] lines) {
            this.number = number;
            this.customer = customer;
            this.date = date;
            this.lines = lines;
        }

        long amount() {
            long sum = 0;
            for (Line line : lines) {
                sum += line.amount;
            }
            return sum;
        }
    }

    /** A line of an order; {@code delivered} is 0 until it is. */
    static final class Line {
        final int item;
        final int quantity;
        final long amount;
        final String information;
        long delivered;

        Line(int item, int quantity, long amount, String information) {
            this.item = item;
            this.quantity = quantity;
            this.amount = amount;
            this.information = information;
        }
    }

    final Warehouse warehouse;
    final int number;
    final String name;
    final int tax;
    long yearToDate;
    int nextOrder = FIRST_ORDER;
    final List<Customer> customers = new ArrayList<>();
    /** Orders that are remembered, by number. */
    final TreeMap<Integer, Order> orders = new TreeMap<>();
    /** Numbers of those not yet delivered, the oldest first. */
    final ArrayDeque<Integer> undelivered = new ArrayDeque<>();
    long delivered;
    long deliveredAmount;

    District(Warehouse warehouse, int number, Stream stream) {
        this.warehouse = warehouse;
        this.number = number;
        name = stream.letters(10);
        tax = stream.between(0, 2000);
        for (int customer = 1; customer <= warehouse.company.scale.customers(); customer++) {
            customers.add(new Customer(customer, stream));
        }
    }

    /** Takes an order in. */
    Order take(int customer, long date, Line[] lines) {
        Order order = new Order(nextOrder++, customer, date, lines);
        orders.put(order.number, order);
        undelivered.addLast(order.number);
        customers.get(customer - 1).lastOrder = order.number;
        return order;
    }

    /** Delivers the oldest order, and forgets one that was delivered long ago; null when there is none. */
    Order deliver(int carrier, long date) {
        Integer oldest = undelivered.pollFirst();
        if (oldest == null) {
            return null;
        }
        Order order = orders.get(oldest);
        order.carrier = carrier;
        for (Line line : order.lines) {
            line.delivered = date;
        }
        long amount = order.amount();
        Customer customer = customers.get(order.customer - 1);
        customer.balance += amount;
        customer.deliveries++;
        delivered++;
        deliveredAmount += amount;
        if (orders.size() - undelivered.size() > Scale.REMEMBERED) {
            orders.pollFirstEntry();
        }
        return order;
    }
}
