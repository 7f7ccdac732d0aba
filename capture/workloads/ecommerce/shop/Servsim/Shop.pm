package Servsim::Shop;

# The book shop: one address for each of TPC-W's fourteen interactions (specification 1.8, clause 2), answered inside Apache by
# mod_perl. A process keeps its connection to PostgreSQL and its prepared statements; the state of a session is a
# row of shopping_cart, named by a cookie. One request is one transaction of the database.

use strict;
use warnings;

use Apache2::Const -compile => qw(OK HTTP_BAD_REQUEST HTTP_FORBIDDEN HTTP_NOT_FOUND);
use Apache2::RequestIO  ();
use Apache2::RequestRec ();
use Apache2::RequestUtil ();
use APR::Table          ();
use DBI                 ();

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

# The process's connection, opened at its first request.
my $database;

sub database {
    $database //= DBI->connect( "dbi:Pg:dbname=shop;host=$ENV{servsim_run}", 'postgres', undef,
        { AutoCommit => 0, RaiseError => 1, PrintError => 0 } );
    return $database;
}

# What pages throw: a status and a reason for the log.
sub refuse {
    my ( $status, $reason ) = @_;
    die { status => $status, reason => $reason };
}

sub handler {
    my ($r) = @_;
    my ($name) = $r->uri =~ m{^/shop/([a-z-]+)$};
    my $page = $PAGES{ $name // '' } or return Apache2::Const::HTTP_NOT_FOUND;
    my $ok   = eval {
        my $shop = { db => database(), form => form($r) };
        session( $shop, $r );
        my $body = $page->[1]->($shop);
        $shop->{db}->commit;
        $r->content_type('text/html; charset=utf-8');
        my $items = $shop->{items} // 0;
        $r->print( "<!DOCTYPE html>\n<html><head><title>Servsim Books: $page->[0]</title></head>\n",
            qq{<body data-session="$shop->{session}" data-items="$items">\n<h1>$page->[0]</h1>\n},
            $body, links(), "</body></html>\n" );
        1;
    };
    return Apache2::Const::OK if $ok;
    my $error = $@;
    eval { $database->rollback if $database; 1 } or undef $database;
    return $error->{status} if ref $error;
    $r->log_error("shop: $error");
    # A connection that broke is opened anew by the next request.
    undef $database if $database && !$database->ping;
    return 500;
}

# The session of a cookie; whoever brings none begins one.
sub session {
    my ( $shop, $r ) = @_;
    my ($number) = ( $r->headers_in->get('Cookie') // '' ) =~ /\bsession=(\d{1,9})\b/;
    if ( defined $number ) {
        ( $shop->{session}, $shop->{customer} )
            = row( $shop, 'SELECT sc_id, sc_c_id FROM shopping_cart WHERE sc_id = ?', $number );
        refuse( Apache2::Const::HTTP_FORBIDDEN, "there is no session $number" ) unless $shop->{session};
        return;
    }
    ( $shop->{session} ) = row( $shop, 'INSERT INTO shopping_cart DEFAULT VALUES RETURNING sc_id' );
    $r->err_headers_out->set( 'Set-Cookie' => "session=$shop->{session}; Path=/" );
    return;
}

# The fields of the address and of a form that was sent.
sub form {
    my ($r) = @_;
    my $text = $r->args // '';
    if ( $r->method eq 'POST' ) {
        my $length = $r->headers_in->get('Content-Length') // 0;
        refuse( Apache2::Const::HTTP_BAD_REQUEST, 'the form is too long' ) if $length > 65536;
        my $sent = '';
        while ( length $sent < $length ) {
            $r->read( $sent, $length - length $sent, length $sent ) or last;
        }
        $text .= "&$sent";
    }
    my %form;
    for my $field ( split /&/, $text ) {
        my ( $name, $value ) = split /=/, $field, 2;
        next unless defined $value;
        $value =~ tr/+/ /;
        $value =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
        $form{$name} = $value;
    }
    return \%form;
}

sub links {
    return '<p><a href="/shop/home">Home</a> <a href="/shop/search">Search</a> <a href="/shop/cart">Cart</a> '
        . '<a href="/shop/inquiry">Order</a></p>' . "\n";
}

# What the pages share, by these names.

# A whole number of the form that must be there.
sub number {
    my ( $shop, $name ) = @_;
    my $value = $shop->{form}{$name} // '';
    refuse( Apache2::Const::HTTP_BAD_REQUEST, "$name is no number" ) unless $value =~ /^\d{1,9}$/;
    return $value;
}

# A text of the form that must be there.
sub text {
    my ( $shop, $name ) = @_;
    my $value = $shop->{form}{$name} // '';
    refuse( Apache2::Const::HTTP_BAD_REQUEST, "$name is missing" ) if $value eq '';
    return $value;
}

# All rows of a statement, each an array.
sub rows {
    my ( $shop, $statement, @values ) = @_;
    my $prepared = $shop->{db}->prepare_cached($statement);
    $prepared->execute(@values);
    return @{ $prepared->fetchall_arrayref };
}

# The first row of a statement.
sub row {
    my @rows = rows(@_);
    return @rows ? @{ $rows[0] } : ();
}

# Runs a statement without rows, and tells how many it has changed.
sub change {
    my ( $shop, $statement, @values ) = @_;
    return $shop->{db}->prepare_cached($statement)->execute(@values);
}

# Text as HTML shows it.
sub html {
    my ($text) = @_;
    $text =~ s/&/&amp;/g;
    $text =~ s/</&lt;/g;
    $text =~ s/>/&gt;/g;
    $text =~ s/"/&quot;/g;
    return $text;
}

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
