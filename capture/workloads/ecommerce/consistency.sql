-- Conditions of a consistent shop, in SQL alone: nothing here is shared with the shop or its users. Each is a name, how many
-- rows break it, and what it means. Missing rows count as breaking: comparisons are null-safe.
SELECT 'population', (SELECT count(*) <> :size_items FROM item)::int + (SELECT count(*) <> :size_authors FROM author)::int
    + (SELECT count(*) <> 92 FROM country)::int, 'tables whose number of rows is not that of the population';
SELECT 'orders', abs((SELECT count(*) FROM orders) - :size_orders - :done_orders),
    'orders more or fewer than were there and were confirmed';
SELECT 'customers', abs((SELECT count(*) FROM customer) - :size_customers - :done_customers),
    'customers more or fewer than were there and were entered';
SELECT 'totals', count(*), 'orders that do not come to what their lines, discount, tax and shipping do'
FROM orders LEFT JOIN (
    SELECT ol_o_id, sum(ol_qty) AS copies, round(sum(ol_qty * ol_cost) * (1 - max(ol_discount)), 2) AS goods,
        count(DISTINCT ol_discount) AS discounts
    FROM order_line GROUP BY ol_o_id) AS line ON ol_o_id = o_id
WHERE (o_sub_total, o_tax, o_total, 1::bigint) IS DISTINCT FROM
    (goods, round(goods * 0.0825, 2), goods + round(goods * 0.0825, 2) + 3 + copies, discounts);
SELECT 'lines', count(*), 'lines without an order, or without copies, or numbered with a gap'
FROM (SELECT order_line.*, row_number() OVER (PARTITION BY ol_o_id ORDER BY ol_id) AS place FROM order_line) AS line
LEFT JOIN orders ON o_id = ol_o_id WHERE o_id IS NULL OR ol_qty < 1 OR ol_id <> place;
SELECT 'payments', count(*), 'orders that were not paid once and to the cent, and payments for none'
FROM orders FULL JOIN cc_xacts ON cx_o_id = o_id WHERE o_total IS DISTINCT FROM cx_xact_amt;
SELECT 'stock', count(*), 'books of which fewer than ten are left' FROM item WHERE i_stock < 10;
SELECT 'sold', count(*), 'books of lines that the shop does not have'
FROM order_line LEFT JOIN item ON i_id = ol_i_id WHERE i_id IS NULL;
SELECT 'authors', count(*), 'books without an author, and authors without a book'
FROM item FULL JOIN author ON a_id = i_a_id WHERE a_id IS NULL OR i_id IS NULL;
SELECT 'related', count(*), 'books that do not go with five others'
FROM item AS book WHERE (SELECT count(DISTINCT other.i_id) FROM item AS other
    WHERE other.i_id IN (book.i_related1, book.i_related2, book.i_related3, book.i_related4, book.i_related5)
        AND other.i_id <> book.i_id) <> 5;
SELECT 'addresses', (SELECT count(*) FROM customer LEFT JOIN address ON addr_id = c_addr_id WHERE addr_id IS NULL)
    + (SELECT count(*) FROM orders LEFT JOIN address ON addr_id = o_ship_addr_id WHERE addr_id IS NULL)
    + (SELECT count(*) FROM orders LEFT JOIN address ON addr_id = o_bill_addr_id WHERE addr_id IS NULL)
    + (SELECT count(*) FROM address LEFT JOIN country ON co_id = addr_co_id WHERE co_id IS NULL),
    'customers and orders without an address, and addresses without a country';
SELECT 'buyers', count(*), 'orders without a customer' FROM orders LEFT JOIN customer ON c_id = o_c_id WHERE c_id IS NULL;
SELECT 'names', count(*), 'customers whose name does not spell their number, or whose password is another'
FROM customer WHERE c_passwd IS DISTINCT FROM lower(c_uname) OR c_uname IS DISTINCT FROM (
    SELECT string_agg(('{BA,OG,AL,RI,RE,SE,AT,UL,IN,NG}'::text[])[digit::int + 1], '' ORDER BY place)
    FROM regexp_split_to_table(c_id::text, '') WITH ORDINALITY AS spelled (digit, place));
SELECT 'carts', count(*), 'lines of carts that there are not, or without copies, or of books that the shop does not have'
FROM shopping_cart_line LEFT JOIN shopping_cart ON sc_id = scl_sc_id LEFT JOIN item ON i_id = scl_i_id
WHERE sc_id IS NULL OR i_id IS NULL OR scl_qty < 1;
