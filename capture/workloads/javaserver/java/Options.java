/** The command line: names and whole numbers. */
record Options(int warehouses, int items, int transactions, int warmUp, long seed, boolean json, String marks, String control) {
    /** A request that makes no sense. */
    static final class Wrong extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Wrong(String message) {
            super(message);
        }
    }

    static Options read(String[] words) {
        int warehouses = 24;
        int items = 20_000;
        int transactions = 48_000;
        int warmUp = 12_000;
        long seed = 1;
        boolean json = false;
        String marks = "";
        String control = "";
        for (int i = 0; i < words.length; i++) {
            String word = words[i];
            if (word.equals("--json")) {
                json = true;
                continue;
            }
            if (i + 1 == words.length) {
                throw new Wrong("the option " + word + " is unknown, or its value is missing");
            }
            String value = words[++i];
            switch (word) {
                case "--warehouses" -> warehouses = (int) number(word, value, 1, 1024);
                case "--items" -> items = (int) number(word, value, Scale.LEAST_ITEMS, 10_000_000);
                case "--transactions" -> transactions = (int) number(word, value, 1, 1_000_000_000);
                case "--warm-up" -> warmUp = (int) number(word, value, 0, 1_000_000_000);
                case "--seed" -> seed = number(word, value, 0, Long.MAX_VALUE);
                case "--marks" -> marks = value;
                case "--control" -> control = value;
                default -> throw new Wrong("the option " + word + " is unknown: there are --warehouses, --items, "
                        + "--transactions, --warm-up, --seed, --marks, --control and --json");
            }
        }
        return new Options(warehouses, items, transactions, warmUp, seed, json, marks, control);
    }

    private static long number(String name, String text, long least, long most) {
        try {
            long value = Long.parseLong(text.replace("_", ""));
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException wrong) {
            // Told below.
        }
        throw new Wrong(name + " must be a whole number from " + least + " to " + most + ", not '" + text + "'");
    }
}
