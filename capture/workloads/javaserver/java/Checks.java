import java.util.ArrayList;
import java.util.List;

/** What must hold of the company after a run; money and numbers are whole, so all of it exactly. */
final class Checks {
    /** A quantity that must lie in a range. */
    record Check(String check, long value, long least, long most) {
        boolean passed() {
            return value >= least && value <= most;
        }
    }

    private final List<Check> list = new ArrayList<>();

    /** All checks; {@code live} is what stays alive of a warehouse, in bytes. */
    static List<Check> all(Company company, List<Terminal> terminals, long live) {
        Checks checks = new Checks();
        for (int i = 0; i < terminals.size(); i++) {
            checks.warehouse(company.warehouses.get(i), terminals.get(i));
        }
        checks.sum();
        long expected = company.scale.expectedBytes();
        checks.list.add(new Check("bytes alive of each warehouse", live, expected * 3 / 4, expected * 5 / 4));
        return checks.list;
    }

    private long money;
    private long balances;
    private long payments;
    private long orders;
    private long relations;
    private long stock;

    private void warehouse(Warehouse warehouse, Terminal terminal) {
        long yearToDate = 0;
        long taken = 0;
        for (District district : warehouse.districts) {
            yearToDate += district.yearToDate;
            taken += district.nextOrder - District.FIRST_ORDER;
            relations += relations(district);
            long balance = 0;
            long paid = 0;
            for (District.Customer customer : district.customers) {
                balance += customer.balance;
                paid += customer.paid;
            }
            balances += differ(balance, district.deliveredAmount - paid) + differ(paid, district.yearToDate);
        }
        money += differ(warehouse.yearToDate, yearToDate) + differ(warehouse.yearToDate, terminal.paid);
        payments += differ(warehouse.paymentsTaken, terminal.counts[Transactions.Kind.PAYMENT.ordinal()]);
        orders += differ(taken, terminal.counts[Transactions.Kind.NEW_ORDER.ordinal()] - terminal.rolledBack);
        long ordered = 0;
        for (Warehouse.Stock each : warehouse.stock.values()) {
            ordered += each.ordered;
            stock += each.quantity < 10 || each.quantity > 100 ? 1 : 0;
        }
        stock += differ(ordered, terminal.ordered);
    }

    /** How many relations between the orders of a district do not hold. */
    private static long relations(District district) {
        long wrong = differ(district.delivered + district.undelivered.size(), district.nextOrder - District.FIRST_ORDER);
        int expected = district.nextOrder - district.undelivered.size();
        for (int number : district.undelivered) {
            wrong += differ(number, expected++);
            District.Order order = district.orders.get(number);
            wrong += order == null || order.carrier != 0 ? 1 : 0;
        }
        int last = district.nextOrder - district.orders.size();
        for (District.Order order : district.orders.values()) {
            boolean open = order.number >= district.nextOrder - district.undelivered.size();
            wrong += differ(order.number, last++);
            wrong += open == (order.carrier == 0) ? 0 : 1;
            for (District.Line line : order.lines) {
                wrong += open == (line.delivered == 0) ? 0 : 1;
            }
        }
        return wrong;
    }

    private void sum() {
        list.add(new Check("warehouses whose W_YTD is not the sum of D_YTD, or not what was paid", money, 0, 0));
        list.add(new Check("districts whose balances are not deliveries less payments", balances, 0, 0));
        list.add(new Check("warehouses whose payments are not those of their terminal", payments, 0, 0));
        list.add(new Check("warehouses whose orders are not those of their terminal", orders, 0, 0));
        list.add(new Check("orders that are missing, doubled, or neither open nor delivered", relations, 0, 0));
        list.add(new Check("stock out of range, or not what was ordered", stock, 0, 0));
    }

    private static long differ(long one, long other) {
        return one == other ? 0 : 1;
    }
}
