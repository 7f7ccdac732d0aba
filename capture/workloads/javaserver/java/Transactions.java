import java.util.HashSet;
import java.util.Set;

/**
 * The second tier: what a request does to the company, and the text of its answer.
 *
 * <p>The rules are those of TPC-C's five transactions as SPECjbb simplifies them, and a report on a customer.
 */
final class Transactions {
    /** Kinds of requests, with their cards in a deck of 33. */
    enum Kind {
        NEW_ORDER(10),
        PAYMENT(10),
        ORDER_STATUS(1),
        DELIVERY(1),
        STOCK_LEVEL(1),
        CUSTOMER_REPORT(10);

        final int cards;

        Kind(int cards) {
            this.cards = cards;
        }
    }

    /** What a new order asks for. */
    record Wish(int item, int quantity) {}

    private final Warehouse warehouse;
    private final StringBuilder answer = new StringBuilder();

    Transactions(Warehouse warehouse) {
        this.warehouse = warehouse;
    }

    /** Takes an order; one that names an item that is not sold changes nothing, and its answer is null. */
    String newOrder(int districtNumber, int customerNumber, Wish[] wishes, long date) {
        District district = warehouse.districts.get(districtNumber - 1);
        for (Wish wish : wishes) {
            if (!warehouse.company.items.containsKey(wish.item())) {
                return null;
            }
        }
        begin("NEW ORDER", district);
        District.Line[] lines = new District.Line[wishes.length];
        for (int i = 0; i < wishes.length; i++) {
            lines[i] = line(wishes[i], districtNumber);
        }
        District.Order order = district.take(customerNumber, date, lines);
        long total = order.amount() * (10_000 + warehouse.tax + district.tax) / 10_000;
        return answer.append("order ").append(order.number).append(" total ").append(total).toString();
    }

    private District.Line line(Wish wish, int district) {
        Company.Item item = warehouse.company.items.get(wish.item());
        Warehouse.Stock stock = warehouse.stock.get(wish.item());
        stock.quantity -= wish.quantity();
        if (stock.quantity < 10) {
            stock.quantity += 91;
        }
        stock.ordered += wish.quantity();
        stock.orders++;
        long amount = (long) wish.quantity() * item.price();
        answer.append(item.name()).append(' ').append(wish.quantity()).append(" x ").append(item.price());
        answer.append(" in stock ").append(stock.quantity).append('\n');
        return new District.Line(wish.item(), wish.quantity(), amount, stock.districtInformation[district - 1]);
    }

    /** Takes a customer's money. */
    String payment(int districtNumber, int customerNumber, long amount) {
        District district = warehouse.districts.get(districtNumber - 1);
        District.Customer customer = district.customers.get(customerNumber - 1);
        warehouse.yearToDate += amount;
        district.yearToDate += amount;
        customer.balance -= amount;
        customer.paid += amount;
        customer.payments++;
        // One customer in ten has bad credit: what happens is noted in front, and the oldest falls off.
        if (customer.number % 10 == 0) {
            String note = customer.number + " " + district.number + " " + warehouse.number + " " + amount + " ";
            customer.data = note + customer.data.substring(0, customer.data.length() - note.length());
        }
        warehouse.remember(new Warehouse.Payment(districtNumber, customerNumber, amount, warehouse.name + district.name));
        begin("PAYMENT", district);
        return answer.append(customer.last).append(" balance ").append(customer.balance).toString();
    }

    /** Tells how a customer's last order stands. */
    String orderStatus(int districtNumber, int customerNumber) {
        District district = warehouse.districts.get(districtNumber - 1);
        District.Customer customer = district.customers.get(customerNumber - 1);
        begin("ORDER STATUS", district);
        answer.append(customer.last).append(" balance ").append(customer.balance).append('\n');
        District.Order order = district.orders.get(customer.lastOrder);
        if (order != null) {
            answer.append("order ").append(order.number).append(" carrier ").append(order.carrier).append('\n');
            for (District.Line line : order.lines) {
                answer.append(line.item).append(' ').append(line.quantity).append(' ').append(line.amount).append('\n');
            }
        }
        return answer.toString();
    }

    /** Delivers the oldest order of every district. */
    String delivery(int carrier, long date) {
        answer.setLength(0);
        answer.append("DELIVERY ").append(warehouse.number).append('\n');
        for (District district : warehouse.districts) {
            District.Order order = district.deliver(carrier, date);
            answer.append(district.number).append(": ").append(order == null ? 0 : order.number).append('\n');
        }
        return answer.toString();
    }

    /** Counts the items of the last twenty orders of which little is left. */
    String stockLevel(int districtNumber, int threshold) {
        District district = warehouse.districts.get(districtNumber - 1);
        Set<Integer> low = new HashSet<>();
        for (District.Order order : district.orders.tailMap(district.nextOrder - 20).values()) {
            for (District.Line line : order.lines) {
                if (warehouse.stock.get(line.item).quantity < threshold) {
                    low.add(line.item);
                }
            }
        }
        begin("STOCK LEVEL", district);
        return answer.append(low.size()).append(" below ").append(threshold).toString();
    }

    /** Tells what a customer has paid lately, and has on order. */
    String customerReport(int districtNumber, int customerNumber) {
        District district = warehouse.districts.get(districtNumber - 1);
        District.Customer customer = district.customers.get(customerNumber - 1);
        begin("CUSTOMER REPORT", district);
        answer.append(customer.last).append(' ').append(customer.address).append('\n');
        long lately = 0;
        for (Warehouse.Payment payment : warehouse.payments) {
            if (payment.district() == districtNumber && payment.customer() == customerNumber) {
                lately += payment.amount();
            }
        }
        long open = 0;
        for (Integer number : district.undelivered) {
            District.Order order = district.orders.get(number);
            open += order.customer == customerNumber ? order.amount() : 0;
        }
        return answer.append("paid ").append(customer.paid).append(" lately ").append(lately).append(" open ")
                .append(open).toString();
    }

    private void begin(String title, District district) {
        answer.setLength(0);
        answer.append(title).append(' ').append(warehouse.number).append('/').append(district.number).append('\n');
    }
}
