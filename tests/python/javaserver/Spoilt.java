import java.util.List;

/** Makes the data of a small company wrong in one place after another, and prints the checks that fail. */
public final class Spoilt {
    private Spoilt() {}

    public static void main(String[] words) {
        for (String word : words) {
            spoil(word);
        }
    }

    private static void spoil(String word) {
        Company company = new Company(new Scale(1, 200), 1);
        Terminal terminal = new Terminal(company.warehouses.get(0), 1);
        terminal.open();
        terminal.prepare(500);
        terminal.run();
        Warehouse warehouse = company.warehouses.get(0);
        District district = warehouse.districts.get(0);
        switch (word) {
            case "nothing" -> { }
            case "W_YTD" -> warehouse.yearToDate++;
            case "D_YTD" -> district.yearToDate++;
            case "balance" -> district.customers.get(0).balance++;
            case "payments" -> warehouse.paymentsTaken--;
            case "order number" -> district.nextOrder++;
            case "carrier" -> district.orders.lastEntry().getValue().carrier = 3;
            case "lost order" -> district.orders.remove(district.undelivered.peekFirst() - 1);
            case "quantity" -> warehouse.stock.get(1).quantity = 200;
            case "ordered" -> warehouse.stock.get(1).ordered--;
            case "live set" -> { }
            default -> throw new IllegalArgumentException(word);
        }
        long live = company.scale.expectedBytes() * (word.equals("live set") ? 2 : 1);
        for (Checks.Check check : Checks.all(company, List.of(terminal), live)) {
            if (!check.passed()) {
                System.out.println(word + ": " + check.check());
            }
        }
    }
}
