package Servsim::Shop::Browse;

# Looking around: the first page, lists of a subject, a book, and searches (TPC-W 1.8, clauses 2.3 and 2.6 to 2.10).

use strict;
use warnings;

use Servsim::Pages qw(change html number refuse row rows text);

sub promotion { return Servsim::Shop::promotion( $_[0], number( $_[0], 'promo' ) ) }

sub home {
    my ($shop) = @_;
    my $greeting = 'Welcome.';
    if ( defined $shop->{form}{customer} ) {
        my $customer = number( $shop, 'customer' );
        my ( $first, $last ) = row( $shop, 'SELECT c_fname, c_lname FROM customer WHERE c_id = ?', $customer );
        refuse( 400, "there is no customer $customer" ) unless defined $first;
        change( $shop, 'UPDATE shopping_cart SET sc_c_id = ? WHERE sc_id = ?', $customer, $shop->{session} );
        $greeting = 'Welcome back, ' . html("$first $last") . '.';
    }
    return "<p>$greeting</p>\n" . promotion($shop);
}

# A table of books: number, title, author.
sub books {
    my ( $shop, @books ) = @_;
    $shop->{items} = @books;
    return "<table>\n" . join( '', map { line($_) } @books ) . "</table>\n";
}

sub line {
    my ($book) = @_;
    my ( $id, $title, $first, $last ) = @$book;
    return qq{<tr data-item="$id"><td><a href="/shop/item?id=$id">} . html($title) . '</a></td><td>' . html("$first $last") . "</td></tr>\n";
}

sub new_products {
    my ($shop) = @_;
    my $subject = text( $shop, 'subject' );
    return promotion($shop) . books(
        $shop,
        rows(
            $shop,
            'SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id WHERE i_subject = ? '
                . 'ORDER BY i_pub_date DESC, i_title LIMIT 50',
            $subject
        )
    );
}

# The fifty books of a subject of which most were sold by the last 3,333 orders.
sub best_sellers {
    my ($shop) = @_;
    my $subject = text( $shop, 'subject' );
    return promotion($shop) . books(
        $shop,
        rows(
            $shop,
            'SELECT i_id, i_title, a_fname, a_lname FROM '
                . '(SELECT ol_i_id, sum(ol_qty) AS sold FROM order_line JOIN item ON i_id = ol_i_id '
                . 'WHERE ol_o_id > (SELECT max(o_id) - 3333 FROM orders) AND i_subject = ? '
                . 'GROUP BY ol_i_id ORDER BY sold DESC, ol_i_id LIMIT 50) AS best '
                . 'JOIN item ON i_id = ol_i_id JOIN author ON a_id = i_a_id ORDER BY sold DESC, ol_i_id',
            $subject
        )
    );
}

sub product_detail {
    my ($shop) = @_;
    my $id = number( $shop, 'id' );
    my ( $title, $first, $last, $date, $publisher, $subject, $description, $image, $srp, $cost, $stock, $isbn, $pages, $backing, $dimensions )
        = row(
        $shop,
        'SELECT i_title, a_fname, a_lname, i_pub_date, i_publisher, i_subject, i_desc, i_image, i_srp, i_cost, i_stock, i_isbn, '
            . 'i_page, i_backing, i_dimensions FROM item JOIN author ON a_id = i_a_id WHERE i_id = ?',
        $id
        );
    refuse( 400, "there is no book $id" ) unless defined $title;
    $shop->{items} = 1;
    return
          qq{<h2 data-item="$id">}
        . html($title)
        . '</h2><p>'
        . html("$first $last")
        . ', published '
        . html("$date by $publisher")
        . "</p>\n"
        . Servsim::Shop::image( full => $image ) . '<p>'
        . html($description)
        . "</p>\n<p>"
        . html("$subject, ISBN $isbn, $pages pages, $backing, $dimensions")
        . "</p>\n<p>Suggested $srp, here $cost; $stock in stock</p>\n"
        . qq{<p><a href="/shop/cart?add=$id">Add to the cart</a> <a href="/shop/admin?id=$id">Change</a></p>\n};
}

sub search_request {
    my ($shop) = @_;
    return promotion($shop)
        . '<form action="/shop/results"><select name="by"><option>author<option>title<option>subject</select>'
        . '<input name="words"><input type="submit"></form>' . "\n";
}

# Where a search looks; every one ends with fifty books at most, by title.
my %WHERE = (
    author  => q{to_tsvector('simple', a_lname) @@ plainto_tsquery('simple', ?)},
    title   => q{to_tsvector('simple', i_title) @@ plainto_tsquery('simple', ?)},
    subject => 'i_subject = ?',
);

sub search_results {
    my ($shop) = @_;
    my $where = $WHERE{ text( $shop, 'by' ) } or refuse( 400, 'no such search' );
    my $words = text( $shop, 'words' );
    return promotion($shop) . books(
        $shop,
        rows(
            $shop,
            "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id WHERE $where ORDER BY i_title, i_id LIMIT 50",
            $words
        )
    );
}

1;
