-- The five transactions of TPC-C clauses 2.4 to 2.8, one procedure and one round trip each.
-- Lock order, the same everywhere, so that no deadlock is possible: warehouse, district, then
-- stock by (warehouse, item) or new order, order, lines, customer.

-- The middle customer, ceil(n/2), of those with one last name, ordered by first name (clause 2.5.2.2).
CREATE OR REPLACE FUNCTION customer_by_name(p_w integer, p_d integer, p_last text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_ids integer[];
BEGIN
    SELECT array_agg(c_id ORDER BY c_first, c_id) INTO v_ids
        FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_last = p_last;
    IF v_ids IS NULL THEN
        RAISE EXCEPTION 'no customer % in warehouse % district %', p_last, p_w, p_d;
    END IF;
    RETURN v_ids[(cardinality(v_ids) + 1) / 2];
END $$;

CREATE OR REPLACE PROCEDURE new_order(
    p_w integer, p_d integer, p_c integer, p_supply integer[], p_items integer[], p_quantities integer[],
    OUT r_rolled_back boolean, OUT r_o_id integer, OUT r_last text, OUT r_credit text, OUT r_entry text,
    OUT r_total text, OUT r_names text[], OUT r_stock integer[], OUT r_brand text[], OUT r_amounts text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_w_tax numeric;
    v_d_tax numeric;
    v_discount numeric;
    v_entry timestamp := now();
    v_line integer;
    v_price numeric;
    v_name text;
    v_i_data text;
    v_s_data text;
    v_quantity integer;
    v_district_text text;
    v_amount numeric;
    v_total numeric := 0;
BEGIN
    r_rolled_back := false;
    SELECT w_tax INTO STRICT v_w_tax FROM warehouse WHERE w_id = p_w;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w AND d_id = p_d
        RETURNING d_next_o_id - 1, d_tax INTO STRICT r_o_id, v_d_tax;
    SELECT c_discount, c_last, c_credit INTO STRICT v_discount, r_last, r_credit
        FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = p_c;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
        VALUES (r_o_id, p_d, p_w, p_c, v_entry, NULL, cardinality(p_items),
                CASE WHEN p_w = ALL (p_supply) THEN 1 ELSE 0 END);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (r_o_id, p_d, p_w);
    FOR v_line IN 1 .. cardinality(p_items) LOOP
        SELECT i_price, i_name, i_data INTO v_price, v_name, v_i_data FROM item WHERE i_id = p_items[v_line];
        IF NOT FOUND THEN
            -- The unused item number of clause 2.4.1.4: undo everything, report, and no error.
            ROLLBACK;
            r_rolled_back := true;
            RETURN;
        END IF;
        UPDATE stock SET
            s_quantity = CASE WHEN s_quantity >= p_quantities[v_line] + 10 THEN s_quantity - p_quantities[v_line]
                              ELSE s_quantity - p_quantities[v_line] + 91 END,
            s_ytd = s_ytd + p_quantities[v_line],
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + CASE WHEN p_supply[v_line] = p_w THEN 0 ELSE 1 END
            WHERE s_w_id = p_supply[v_line] AND s_i_id = p_items[v_line]
            RETURNING s_quantity, s_data,
                CASE p_d WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
                         WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
                         WHEN 9 THEN s_dist_09 ELSE s_dist_10 END
            INTO STRICT v_quantity, v_s_data, v_district_text;
        v_amount := p_quantities[v_line] * v_price;
        v_total := v_total + v_amount;
        INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
                                ol_quantity, ol_amount, ol_dist_info)
            VALUES (r_o_id, p_d, p_w, v_line, p_items[v_line], p_supply[v_line], NULL,
                    p_quantities[v_line], v_amount, v_district_text);
        r_names[v_line] := v_name;
        r_stock[v_line] := v_quantity;
        r_brand[v_line] := CASE WHEN strpos(v_i_data, 'ORIGINAL') > 0 AND strpos(v_s_data, 'ORIGINAL') > 0
                                THEN 'B' ELSE 'G' END;
        r_amounts[v_line] := v_amount;
    END LOOP;
    r_entry := v_entry;
    r_total := v_total * (1 - v_discount) * (1 + v_w_tax + v_d_tax);
END $$;

CREATE OR REPLACE PROCEDURE payment(
    p_w integer, p_d integer, p_c_w integer, p_c_d integer, p_c integer, p_last text, p_cents integer,
    OUT r_c integer, OUT r_balance text, OUT r_customer text, OUT r_warehouse text, OUT r_district text,
    OUT r_data text)
LANGUAGE plpgsql AS $$
DECLARE
    v_amount numeric := p_cents * 0.01;
    v_w_name text;
    v_d_name text;
    v_credit text;
BEGIN
    UPDATE warehouse SET w_ytd = w_ytd + v_amount WHERE w_id = p_w
        RETURNING w_name, concat_ws(',', w_street_1, w_street_2, w_city, w_state, w_zip)
        INTO STRICT v_w_name, r_warehouse;
    UPDATE district SET d_ytd = d_ytd + v_amount WHERE d_w_id = p_w AND d_id = p_d
        RETURNING d_name, concat_ws(',', d_street_1, d_street_2, d_city, d_state, d_zip)
        INTO STRICT v_d_name, r_district;
    r_c := coalesce(p_c, customer_by_name(p_c_w, p_c_d, p_last));
    UPDATE customer SET
        c_balance = c_balance - v_amount,
        c_ytd_payment = c_ytd_payment + v_amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC'
                      THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, p_d, p_w, v_amount) || ' | ' || c_data, 500)
                      ELSE c_data END
        WHERE c_w_id = p_c_w AND c_d_id = p_c_d AND c_id = r_c
        RETURNING c_balance, c_credit, left(c_data, 200),
            concat_ws(',', c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
                      c_since, c_credit, c_credit_lim, c_discount)
        INTO STRICT r_balance, v_credit, r_data, r_customer;
    IF v_credit <> 'BC' THEN
        r_data := '';
    END IF;
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
        VALUES (r_c, p_c_d, p_c_w, p_d, p_w, now(), v_amount, v_w_name || '    ' || v_d_name);
END $$;

CREATE OR REPLACE PROCEDURE order_status(
    p_w integer, p_d integer, p_c integer, p_last text,
    OUT r_c integer, OUT r_customer text, OUT r_o_id integer, OUT r_carrier integer, OUT r_lines text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_entry timestamp;
BEGIN
    r_c := coalesce(p_c, customer_by_name(p_w, p_d, p_last));
    SELECT concat_ws(',', c_first, c_middle, c_last, c_balance) INTO STRICT r_customer
        FROM customer WHERE c_w_id = p_w AND c_d_id = p_d AND c_id = r_c;
    SELECT o_id, o_carrier_id, o_entry_d INTO STRICT r_o_id, r_carrier, v_entry
        FROM orders WHERE o_w_id = p_w AND o_d_id = p_d AND o_c_id = r_c ORDER BY o_id DESC LIMIT 1;
    SELECT array_agg(concat_ws(',', ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d)) INTO r_lines
        FROM order_line WHERE ol_w_id = p_w AND ol_d_id = p_d AND ol_o_id = r_o_id;
END $$;

CREATE OR REPLACE PROCEDURE delivery(p_w integer, p_carrier integer, p_districts integer, OUT r_delivered integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_d integer;
    v_o integer;
    v_c integer;
    v_amount numeric;
BEGIN
    r_delivered := 0;
    FOR v_d IN 1 .. p_districts LOOP
        -- A concurrent delivery waits here, and then takes the next oldest.
        SELECT no_o_id INTO v_o FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d
            ORDER BY no_o_id LIMIT 1 FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM new_order WHERE no_w_id = p_w AND no_d_id = v_d AND no_o_id = v_o;
        UPDATE orders SET o_carrier_id = p_carrier WHERE o_w_id = p_w AND o_d_id = v_d AND o_id = v_o
            RETURNING o_c_id INTO STRICT v_c;
        WITH delivered AS (
            UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = p_w AND ol_d_id = v_d AND ol_o_id = v_o
            RETURNING ol_amount)
        SELECT sum(ol_amount) INTO STRICT v_amount FROM delivered;
        UPDATE customer SET c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = p_w AND c_d_id = v_d AND c_id = v_c;
        r_delivered := r_delivered + 1;
    END LOOP;
END $$;

CREATE OR REPLACE PROCEDURE stock_level(p_w integer, p_d integer, p_threshold integer, OUT r_low integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_next integer;
BEGIN
    SELECT d_next_o_id INTO STRICT v_next FROM district WHERE d_w_id = p_w AND d_id = p_d;
    SELECT count(DISTINCT s_i_id) INTO r_low
        FROM order_line JOIN stock ON s_w_id = p_w AND s_i_id = ol_i_id
        WHERE ol_w_id = p_w AND ol_d_id = p_d AND ol_o_id >= v_next - 20 AND ol_o_id < v_next
          AND s_quantity < p_threshold;
END $$;
