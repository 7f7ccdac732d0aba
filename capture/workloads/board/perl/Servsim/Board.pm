package Servsim::Board;

# The message board: one address for each request. Stories are in sections, comments in threads; a comment can be given or
# denied a point. Everybody reads, members write: a form that writes carries name and password.

use strict;
use warnings;

use Servsim::Pages qw(answer);
use Servsim::Board::Read;
use Servsim::Board::Write;

# The part behind /board/, the title of its page, and what makes the page.
my %PAGES = (
    'front'    => [ 'Front Page',    \&Servsim::Board::Read::front ],
    'section'  => [ 'Section',       \&Servsim::Board::Read::section ],
    'older'    => [ 'Older Stories', \&Servsim::Board::Read::older ],
    'story'    => [ 'Story',         \&Servsim::Board::Read::story ],
    'comment'  => [ 'Comment',       \&Servsim::Board::Read::comment ],
    'member'   => [ 'Member',        \&Servsim::Board::Read::member ],
    'reply'    => [ 'Reply',         \&Servsim::Board::Write::reply ],
    'submit'   => [ 'Submission',    \&Servsim::Board::Write::submit ],
    'register' => [ 'Registration',  \&Servsim::Board::Write::register ],
    'moderate' => [ 'Moderation',    \&Servsim::Board::Write::moderate ],
);

sub handler {
    my ($r) = @_;
    return answer( $r, \%PAGES, sub { }, \&framed );
}

# The whole page.
sub framed {
    my ( $board, $title, $body ) = @_;
    my $items = $board->{items} // 0;
    return "<!DOCTYPE html>\n<html><head><title>Servsim Board: $title</title></head>\n"
        . qq{<body data-items="$items">\n<h1>$title</h1>\n}
        . $body
        . qq{<p><a href="/board/front">Front page</a> <a href="/board/older?id=1">Older stories</a></p>\n</body></html>\n};
}

1;
