-- The conditions of TPC-C clause 3.3.2 once more, for psql: row by row and in other words than the driver's (src/oltp/check.rs). A line
-- for each condition that something violates: its number.
WITH places AS (SELECT DISTINCT o_w_id AS w, o_d_id AS d FROM orders),
holds(condition, kept) AS (
    SELECT 1, w_ytd = (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id) FROM warehouse
    UNION ALL
    SELECT 2, EXISTS (
        SELECT FROM district WHERE d_w_id = w AND d_id = d
        AND d_next_o_id - 1 = (SELECT max(o_id) FROM orders WHERE o_w_id = w AND o_d_id = d)
        AND NOT EXISTS (SELECT FROM new_order WHERE no_w_id = w AND no_d_id = d AND no_o_id >= d_next_o_id)) FROM places
    UNION ALL
    SELECT 3, no_o_id = (SELECT min(no_o_id) FROM new_order WHERE no_w_id = n.no_w_id AND no_d_id = n.no_d_id)
        OR EXISTS (SELECT FROM new_order WHERE no_w_id = n.no_w_id AND no_d_id = n.no_d_id AND no_o_id = n.no_o_id - 1) FROM new_order n
    UNION ALL
    SELECT 4, (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = w AND o_d_id = d)
        = (SELECT count(*) FROM order_line WHERE ol_w_id = w AND ol_d_id = d) FROM places
    UNION ALL
    SELECT 5, (o_carrier_id IS NULL)
        = EXISTS (SELECT FROM new_order WHERE no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id) FROM orders
    UNION ALL
    SELECT 5, EXISTS (SELECT FROM orders WHERE o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id) FROM new_order
    UNION ALL
    SELECT 6, o_ol_cnt = (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id) FROM orders
    UNION ALL
    SELECT 6, EXISTS (SELECT FROM orders WHERE o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id) FROM order_line
    UNION ALL
    SELECT 7, (ol_delivery_d IS NULL) = (SELECT o_carrier_id IS NULL FROM orders
        WHERE o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id) FROM order_line
    UNION ALL
    SELECT 8, w_ytd = (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id) FROM warehouse
    UNION ALL
    SELECT 9, d_ytd = (SELECT sum(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id) FROM district
    UNION ALL
    -- Who has paid something is a customer, too.
    SELECT unnest(ARRAY[10, 12]), EXISTS (SELECT FROM customer WHERE c_w_id = h_c_w_id AND c_d_id = h_c_d_id AND c_id = h_c_id) FROM history
    UNION ALL
    SELECT condition, found FROM customer, LATERAL (
        SELECT coalesce(sum(ol_amount), 0) AS delivered FROM orders, order_line
        WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
        AND ol_delivery_d IS NOT NULL) AS o, LATERAL (
        SELECT 10 AS condition, c_balance = delivered
            - (SELECT sum(h_amount) FROM history WHERE h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id) AS found
        UNION ALL
        SELECT 12, c_balance + c_ytd_payment = delivered) AS both_of_them
    UNION ALL
    -- Of 30 orders that a district is loaded with, 21 have been delivered.
    SELECT 11, (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
        - (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) = 21 FROM district
)
SELECT DISTINCT condition FROM holds WHERE kept IS NOT TRUE ORDER BY condition
