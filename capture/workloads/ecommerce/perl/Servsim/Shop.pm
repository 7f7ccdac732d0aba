package Servsim::Shop;

# The book shop: one address for each of TPC-W's fourteen interactions (specification 1.8, clause 2). The state of a session is a
# row of shopping_cart, named by a cookie.

use strict;
use warnings;

use Servsim::Pages qw(answer refuse row rows);
use Servsim::Shop::Admin;
use Servsim::Shop::Browse;
use Servsim::Shop::Buy;

# The part behind /shop/, the title of its page, and what makes the page.
my %PAGES = (
    'home'          => [ 'Home',                  \&Servsim::Shop::Browse::home ],
    'new'           => [ 'New Products',          \&Servsim::Shop::Browse::new_products ],
    'best'          => [ 'Best Sellers',          \&Servsim::Shop::Browse::best_sellers ],
    'item'          => [ 'Product Detail',        \&Servsim::Shop::Browse::product_detail ],
    'search'        => [ 'Search Request',        \&Servsim::Shop::Browse::search_request ],
    'results'       => [ 'Search Results',        \&Servsim::Shop::Browse::search_results ],
    'cart'          => [ 'Shopping Cart',         \&Servsim::Shop::Buy::shopping_cart ],
    'register'      => [ 'Customer Registration', \&Servsim::Shop::Buy::customer_registration ],
    'buy'           => [ 'Buy Request',           \&Servsim::Shop::Buy::buy_request ],
    'confirm'       => [ 'Buy Confirm',           \&Servsim::Shop::Buy::buy_confirm ],
    'inquiry'       => [ 'Order Inquiry',         \&Servsim::Shop::Buy::order_inquiry ],
    'order'         => [ 'Order Display',         \&Servsim::Shop::Buy::order_display ],
    'admin'         => [ 'Admin Request',         \&Servsim::Shop::Admin::admin_request ],
    'admin-confirm' => [ 'Admin Confirm',         \&Servsim::Shop::Admin::admin_confirm ],
);

sub handler {
    my ($r) = @_;
    return answer( $r, \%PAGES, \&session, \&framed );
}

# The whole page.
sub framed {
    my ( $shop, $title, $body ) = @_;
    my $items = $shop->{items} // 0;
    return "<!DOCTYPE html>\n<html><head><title>Servsim Books: $title</title></head>\n"
        . qq{<body data-session="$shop->{session}" data-items="$items">\n<h1>$title</h1>\n}
        . $body
        . '<p><a href="/shop/home">Home</a> <a href="/shop/search">Search</a> <a href="/shop/cart">Cart</a> '
        . qq{<a href="/shop/inquiry">Order</a></p>\n</body></html>\n};
}

# The session of a cookie; whoever brings none begins one.
sub session {
    my ( $shop, $r ) = @_;
    my ($number) = ( $r->headers_in->get('Cookie') // '' ) =~ /\bsession=(\d{1,9})\b/;
    if ( defined $number ) {
        ( $shop->{session}, $shop->{customer} )
            = row( $shop, 'SELECT sc_id, sc_c_id FROM shopping_cart WHERE sc_id = ?', $number );
        refuse( 403, "there is no session $number" ) unless $shop->{session};
        return;
    }
    ( $shop->{session} ) = row( $shop, 'INSERT INTO shopping_cart DEFAULT VALUES RETURNING sc_id' );
    $r->err_headers_out->set( 'Set-Cookie' => "session=$shop->{session}; Path=/" );
    return;
}

# What the pages share.

# Five books that go with another, by their thumbnails.
sub promotion {
    my ( $shop, $item ) = @_;
    my @books = rows(
        $shop,
        'SELECT other.i_id, other.i_thumbnail FROM item '
            . 'CROSS JOIN LATERAL (VALUES (i_related1), (i_related2), (i_related3), (i_related4), (i_related5)) AS r (id) '
            . 'JOIN item AS other ON other.i_id = r.id WHERE item.i_id = ?',
        $item
    );
    return '<p>' . join( '', map { qq{<a href="/shop/item?id=$_->[0]">} . image( thumb => $_->[1] ) . '</a>' } @books ) . "</p>\n";
}

sub image {
    my ( $kind, $number ) = @_;
    return sprintf '<img src="/%s/%05d.gif">', $kind, $number;
}

1;
