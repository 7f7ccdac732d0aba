-- The tables of TPC-W (specification 1.8, clause 3), with these differences: a session is a shopping cart; an order line keeps
-- the price that was paid, because prices change; images are numbers of files.
CREATE TABLE country (co_id int, co_name text, co_exchange numeric(12,6), co_currency text);
CREATE TABLE author (a_id int, a_fname text, a_lname text, a_mname text, a_dob date, a_bio text);
CREATE TABLE item (i_id int, i_title text, i_a_id int, i_pub_date date, i_publisher text, i_subject text, i_desc text,
    i_related1 int, i_related2 int, i_related3 int, i_related4 int, i_related5 int, i_thumbnail int, i_image int,
    i_srp numeric(6,2), i_cost numeric(6,2), i_avail date, i_stock int, i_isbn text, i_page int, i_backing text,
    i_dimensions text);
CREATE TABLE address (addr_id int, addr_street1 text, addr_street2 text, addr_city text, addr_state text, addr_zip text,
    addr_co_id int);
CREATE TABLE customer (c_id int, c_uname text, c_passwd text, c_fname text, c_lname text, c_addr_id int, c_phone text,
    c_email text, c_since date, c_last_login date, c_login timestamp, c_expiration timestamp, c_discount numeric(3,2),
    c_balance numeric(10,2), c_ytd_pmt numeric(10,2), c_birthdate date, c_data text);
CREATE TABLE orders (o_id int, o_c_id int, o_date timestamp, o_sub_total numeric(10,2), o_tax numeric(10,2),
    o_total numeric(10,2), o_ship_type text, o_ship_date timestamp, o_bill_addr_id int, o_ship_addr_id int, o_status text);
CREATE TABLE order_line (ol_o_id int, ol_id int, ol_i_id int, ol_qty int, ol_cost numeric(6,2), ol_discount numeric(3,2),
    ol_comments text);
CREATE TABLE cc_xacts (cx_o_id int, cx_type text, cx_num text, cx_name text, cx_expire date, cx_auth_id text,
    cx_xact_amt numeric(10,2), cx_xact_date timestamp, cx_co_id int);
CREATE TABLE shopping_cart (sc_id int GENERATED ALWAYS AS IDENTITY, sc_c_id int, sc_time timestamp NOT NULL DEFAULT now());
CREATE TABLE shopping_cart_line (scl_sc_id int, scl_i_id int, scl_qty int, scl_cost numeric(6,2));
