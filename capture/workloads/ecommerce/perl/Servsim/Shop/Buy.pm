package Servsim::Shop::Buy;

# Carts, customers and orders (TPC-W 1.8, clauses 2.4, 2.5, 2.7 and 2.11 to 2.14).

use strict;
use warnings;

use Servsim::Pages qw(change html number refuse row rows text);

# The lines of a cart: book, title, quantity, price.
sub lines {
    my ($shop) = @_;
    return rows( $shop,
        'SELECT scl_i_id, i_title, scl_qty, scl_cost FROM shopping_cart_line JOIN item ON i_id = scl_i_id WHERE scl_sc_id = ? ORDER BY scl_i_id',
        $shop->{session} );
}

# Adds a book, or changes a line's quantity (0 takes it out); an empty cart is never shown.
sub shopping_cart {
    my ($shop) = @_;
    add_named($shop);
    if ( defined $shop->{form}{item} ) {
        my ( $item, $quantity ) = ( number( $shop, 'item' ), number( $shop, 'quantity' ) );
        my $changed
            = $quantity
            ? change( $shop, 'UPDATE shopping_cart_line SET scl_qty = ? WHERE scl_sc_id = ? AND scl_i_id = ?', $quantity, $shop->{session}, $item )
            : change( $shop, 'DELETE FROM shopping_cart_line WHERE scl_sc_id = ? AND scl_i_id = ?', $shop->{session}, $item );
        refuse( 400, "book $item is not in the cart" ) unless $changed == 1;
    }
    my @lines = lines($shop);
    if ( !@lines ) {
        add( $shop, number( $shop, 'promo' ) );
        @lines = lines($shop);
    }
    change( $shop, 'UPDATE shopping_cart SET sc_time = now() WHERE sc_id = ?', $shop->{session} );
    return Servsim::Shop::promotion( $shop, number( $shop, 'promo' ) ) . bill( $shop, 0, @lines );
}

# Adds the book that the form names, if it does: the forms of buying may, for whoever has nothing in the cart.
sub add_named {
    my ($shop) = @_;
    add( $shop, number( $shop, 'add' ) ) if defined $shop->{form}{add};
    return;
}

sub add {
    my ( $shop, $item ) = @_;
    my $added = change(
        $shop,
        'INSERT INTO shopping_cart_line (scl_sc_id, scl_i_id, scl_qty, scl_cost) SELECT ?, i_id, 1, i_cost FROM item WHERE i_id = ? '
            . 'ON CONFLICT (scl_sc_id, scl_i_id) DO UPDATE SET scl_qty = shopping_cart_line.scl_qty + 1',
        $shop->{session}, $item
    );
    refuse( 400, "there is no book $item" ) unless $added == 1;
    return;
}

# Lines with what they come to. Amounts are whole cents, the discount is in percent.
sub bill {
    my ( $shop, $discount, @lines ) = @_;
    my %sums = sums( $discount, @lines );
    $shop->{items} = @lines;
    my $table = join '', map {
        my ( $item, $title, $quantity, $cost ) = @$_;
        qq{<tr data-item="$item" data-quantity="$quantity" data-cost="$cost"><td>} . html($title) . "</td><td>$quantity</td><td>$cost</td></tr>\n";
    } @lines;
    my $told = join ' ', map { sprintf 'data-%s="%d.%02d"', $_, $sums{$_} / 100, $sums{$_} % 100 } qw(subtotal tax total);
    return qq{<table>\n$table</table>\n<p data-discount="$discount" $told>To pay: } . sprintf( "%.2f</p>\n", $sums{total} / 100 );
}

# Half a cent is rounded up; the tax is 8.25 % of the subtotal; shipping costs 3 dollars and 1 for each copy (clause 2.7.3.3).
sub sums {
    my ( $discount, @lines ) = @_;
    my ( $goods, $copies ) = ( 0, 0 );
    for my $line (@lines) {
        $goods += $line->[2] * cents( $line->[3] );
        $copies += $line->[2];
    }
    my $subtotal = int( ( $goods * ( 100 - $discount ) + 50 ) / 100 );
    my $tax      = int( ( $subtotal * 825 + 5000 ) / 10000 );
    return ( subtotal => $subtotal, tax => $tax, total => $subtotal + $tax + 300 + 100 * $copies );
}

sub cents {
    my ($amount) = @_;
    my ( $whole, $rest ) = split /\./, $amount;
    return $whole * 100 + $rest;
}

sub customer_registration {
    my ($shop) = @_;
    my @fields = qw(user password fname lname street1 street2 city state zip country phone email birthdate data);
    return qq{<form method="post" action="/shop/buy">} . join( '', map {qq{<input name="$_">}} @fields ) . qq{<input type="submit"></form>\n};
}

# Who buys: number, discount in percent, address.
sub customer {
    my ($shop) = @_;
    my ( $id, $discount, $address )
        = row( $shop, 'SELECT c_id, (c_discount * 100)::int, c_addr_id FROM customer WHERE c_uname = ? AND c_passwd = ?', text( $shop, 'user' ), text( $shop, 'password' ) );
    refuse( 403, 'no such customer, or another password' ) unless defined $id;
    return ( $id, $discount, $address );
}

# Bytes of a number, least significant digit first, as syllables: the names of clause 4.6.2.10.
my @SYLLABLES = qw(BA OG AL RI RE SE AT UL IN NG);

sub name_of {
    my ($id) = @_;
    return join '', map { $SYLLABLES[$_] } split //, $id;
}

sub new_customer {
    my ($shop) = @_;
    my ($id) = row( $shop, q{SELECT nextval('customer_ids')} );
    my $name = name_of($id);
    my $address = new_address($shop);
    change(
        $shop,
        'INSERT INTO customer VALUES (?, ?, ?, ?, ?, ?, ?, ?, now(), now(), now(), now() + interval \'2 hours\', ?, 0, 0, ?, ?)',
        $id, $name, lc $name, text( $shop, 'fname' ), text( $shop, 'lname' ),
        $address, text( $shop, 'phone' ), text( $shop, 'email' ), sprintf( '0.%02d', $id % 51 ), text( $shop, 'birthdate' ), text( $shop, 'data' )
    );
    return ( $name, $id, $id % 51, $address );
}

sub new_address {
    my ($shop) = @_;
    my ($id) = row( $shop, q{SELECT nextval('address_ids')} );
    change( $shop, 'INSERT INTO address VALUES (?, ?, ?, ?, ?, ?, ?)', $id, ( map { text( $shop, $_ ) } qw(street1 street2 city state zip) ), number( $shop, 'country' ) );
    return $id;
}

# A known customer gives name and password, a new one is entered; the session is that customer's from now on.
sub buy_request {
    my ($shop) = @_;
    my ( $name, $id, $discount );
    add_named($shop);
    if ( defined $shop->{form}{user} ) {
        ( $id, $discount ) = customer($shop);
        $name = text( $shop, 'user' );
        change( $shop, q{UPDATE customer SET c_last_login = c_login, c_login = now(), c_expiration = now() + interval '2 hours' WHERE c_id = ?}, $id );
    }
    else {
        ( $name, $id, $discount ) = new_customer($shop);
    }
    change( $shop, 'UPDATE shopping_cart SET sc_c_id = ? WHERE sc_id = ?', $id, $shop->{session} );
    return
          qq{<p data-user="$name">You are }
        . html($name)
        . "</p>\n"
        . bill( $shop, $discount, lines($shop) )
        . '<form method="post" action="/shop/confirm">'
        . join( '', map {qq{<input name="$_">}} qw(card number holder expiry shipping) )
        . qq{<input type="submit"></form>\n};
}

# Places the order: order, lines and payment, the stock of each book, and the cart is empty.
sub buy_confirm {
    my ($shop) = @_;
    my ( $id, $discount, $address ) = customer($shop);
    add_named($shop);
    my $to = defined $shop->{form}{street1} ? new_address($shop) : $address;
    my @lines = lines($shop);
    refuse( 400, 'the cart is empty' ) unless @lines;
    my %sums = sums( $discount, @lines );
    my ($order) = row( $shop, q{SELECT nextval('order_ids')} );
    my @money = map { sprintf '%d.%02d', $sums{$_} / 100, $sums{$_} % 100 } qw(subtotal tax total);
    my ($country) = row( $shop, 'SELECT addr_co_id FROM address WHERE addr_id = ?', $address );
    change( $shop, q{INSERT INTO orders VALUES (?, ?, now(), ?, ?, ?, ?, now() + interval '3 days', ?, ?, 'PENDING')},
        $order, $id, @money, text( $shop, 'shipping' ), $address, $to );
    my $place = 0;

    # In the order of the books, as everybody does: two orders never wait for one another in a circle.
    for my $line (@lines) {
        my ( $item, undef, $quantity, $cost ) = @$line;
        change( $shop, q{INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, '')}, $order, ++$place, $item, $quantity, $cost, sprintf( '0.%02d', $discount ) );

        # Whoever would leave fewer than ten has 21 more printed, and more where that is not enough (clause 2.7.3.3).
        change(
            $shop,
            'UPDATE item SET i_stock = i_stock - q.n + CASE WHEN i_stock - q.n >= 10 THEN 0 ELSE 21 * ceil((10 - i_stock + q.n) / 21.0)::int END '
                . 'FROM (SELECT ?::int AS n) AS q WHERE i_id = ?',
            $quantity, $item
        );
    }
    change( $shop, 'INSERT INTO cc_xacts VALUES (?, ?, ?, ?, ?, ?, ?, now(), ?)',
        $order, ( map { text( $shop, $_ ) } qw(card number holder expiry) ), sprintf( 'AUTH%011d', $order ), $money[2], $country );
    change( $shop, 'DELETE FROM shopping_cart_line WHERE scl_sc_id = ?', $shop->{session} );
    return qq{<p data-order="$order">Your order has number $order</p>\n} . bill( $shop, $discount, @lines );
}

sub order_inquiry {
    return qq{<form method="post" action="/shop/order"><input name="user"><input name="password"><input type="submit"></form>\n};
}

# The last order of a customer, who may have none.
sub order_display {
    my ($shop) = @_;
    my ($id) = customer($shop);
    my ( $order, $date, $status, $shipping, $total, $number )
        = row( $shop,
        'SELECT o_id, o_date, o_status, o_ship_type, o_total, cx_num FROM orders JOIN cc_xacts ON cx_o_id = o_id WHERE o_c_id = ? ORDER BY o_id DESC LIMIT 1',
        $id );
    return "<p>You have no orders</p>\n" unless defined $order;
    my @lines = rows( $shop,
        'SELECT ol_i_id, i_title, ol_qty, ol_cost, (ol_discount * 100)::int FROM order_line JOIN item ON i_id = ol_i_id WHERE ol_o_id = ? ORDER BY ol_id', $order );
    return
          qq{<p data-order="$order" data-paid="$total">Order $order of $date: $status, by }
        . html($shipping)
        . ', paid with '
        . substr( $number, 0, 4 )
        . " and 12 digits more</p>\n"
        . bill( $shop, $lines[0][4], @lines );
}

1;
