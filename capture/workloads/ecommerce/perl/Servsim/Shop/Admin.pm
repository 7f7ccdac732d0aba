package Servsim::Shop::Admin;

# Changing a book (TPC-W 1.8, clauses 2.15 and 2.16).

use strict;
use warnings;

use Servsim::Pages qw(change html number refuse row rows text);

sub admin_request {
    my ($shop) = @_;
    my $id = number( $shop, 'id' );
    my ( $title, $cost, $thumbnail, $image )
        = row( $shop, 'SELECT i_title, i_cost, i_thumbnail, i_image FROM item WHERE i_id = ?', $id );
    refuse( 400, "there is no book $id" ) unless defined $title;
    $shop->{items} = 1;
    return
          qq{<h2 data-item="$id">}
        . html($title)
        . "</h2>\n"
        . Servsim::Shop::image( thumb => $thumbnail )
        . Servsim::Shop::image( full  => $image )
        . qq{<form method="post" action="/shop/admin-confirm"><input name="cost" value="$cost"><input name="image"><input type="submit"></form>\n};
}

# New price and images; from now on the book goes with the five that those sold best to who have bought it, of the last 10,000 orders.
sub admin_confirm {
    my ($shop) = @_;
    my ( $id, $image ) = ( number( $shop, 'id' ), number( $shop, 'image' ) );
    my $cost = text( $shop, 'cost' );
    refuse( 400, 'the cost is no amount' ) unless $cost =~ /^\d{1,4}\.\d\d$/;
    my @related = map { $_->[0] } rows(
        $shop,
        'SELECT ol_i_id FROM order_line WHERE ol_i_id <> ? AND ol_o_id IN '
            . '(SELECT o_id FROM orders WHERE o_id > (SELECT max(o_id) - 10000 FROM orders) AND o_c_id IN '
            . '(SELECT o_c_id FROM orders JOIN order_line ON ol_o_id = o_id WHERE o_id > (SELECT max(o_id) - 10000 FROM orders) AND ol_i_id = ?)) '
            . 'GROUP BY ol_i_id ORDER BY sum(ol_qty) DESC, ol_i_id LIMIT 5',
        $id, $id
    );

    # Too few have bought it: the books that it went with stay.
    my $books = @related == 5 ? ', i_related1 = ?, i_related2 = ?, i_related3 = ?, i_related4 = ?, i_related5 = ?' : '';
    my $changed = change( $shop, "UPDATE item SET i_cost = ?, i_image = ?, i_thumbnail = ?, i_pub_date = now()$books WHERE i_id = ?",
        $cost, $image, $image, ( $books ? @related : () ), $id );
    refuse( 400, "there is no book $id" ) unless $changed == 1;
    $shop->{items} = 1;
    return qq{<h2 data-item="$id">Changed</h2>\n<p data-now="$cost">It costs $cost now</p>\n} . Servsim::Shop::image( full => $image );
}

1;
