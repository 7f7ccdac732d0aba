package Servsim::Board::Read;

# Reading: lists of stories, a story with its thread, a comment with the replies to it, a member.

use strict;
use warnings;

use Servsim::Pages qw(html number refuse row rows);

# Stories of a list, comments of a page, comments of a member.
my ( $LISTED, $SHOWN, $LAST ) = ( 10, 50, 20 );

# What lists have of a story.
my $LINES = 'SELECT st_id, st_title, st_lead, st_time, st_comments, me_name, se_id, se_name '
    . 'FROM stories JOIN members ON me_id = st_me_id JOIN sections ON se_id = st_se_id';

sub stories {
    my ( $board, @stories ) = @_;
    $board->{items} = @stories;
    return "<ul>\n" . join( '', map { line($_) } @stories ) . "</ul>\n";
}

sub line {
    my ($story) = @_;
    my ( $id, $title, $lead, $time, $comments, $member, $section, $name ) = @$story;
    return
          qq{<li data-item="$id" data-comments="$comments"><a href="/board/story?id=$id" class="text">}
        . html($title)
        . qq{</a> by }
        . html($member)
        . qq{ in <a href="/board/section?id=$section">}
        . html($name)
        . qq{</a>, $time<p class="text">}
        . html($lead)
        . "</p>$comments comments</li>\n";
}

sub front {
    my ($board) = @_;
    return stories( $board, rows( $board, "$LINES ORDER BY st_id DESC LIMIT $LISTED" ) );
}

sub older {
    my ($board) = @_;
    return stories( $board, rows( $board, "$LINES ORDER BY st_id DESC LIMIT $LISTED OFFSET ?", $LISTED * number( $board, 'id' ) ) );
}

sub section {
    my ($board) = @_;
    my $id = number( $board, 'id' );
    my ( $name, $count ) = row( $board, 'SELECT se_name, se_stories FROM sections WHERE se_id = ?', $id );
    refuse( 404, "there is no section $id" ) unless defined $name;
    return '<h2>' . html($name) . ", $count stories</h2>\n"
        . stories( $board, rows( $board, "$LINES WHERE st_se_id = ? ORDER BY st_id DESC LIMIT $LISTED", $id ) );
}

sub story {
    my ( $board, $id ) = @_;
    $id //= number( $board, 'id' );
    my ( $title, $lead, $text, $time, $comments, $member, $name )
        = row(
        $board,
        'SELECT st_title, st_lead, st_text, st_time, st_comments, me_name, se_name FROM stories '
            . 'JOIN members ON me_id = st_me_id JOIN sections ON se_id = st_se_id WHERE st_id = ?',
        $id
        );
    refuse( 404, "there is no story $id" ) unless defined $title;
    return
          qq{<h2 data-story="$id" class="text">}
        . html($title)
        . '</h2>by '
        . html($member) . ' in '
        . html($name)
        . qq{, $time<p class="text">}
        . html($lead)
        . '</p><p class="text">'
        . html($text)
        . "</p>\n<p>$comments comments</p>\n"
        . thread( $board, $id, 0 );
}

sub comment {
    my ( $board, $id ) = @_;
    $id //= number( $board, 'id' );
    my ($story) = row( $board, 'SELECT co_st_id FROM comments WHERE co_id = ?', $id );
    refuse( 404, "there is no comment $id" ) unless defined $story;
    return qq{<p><a href="/board/story?id=$story">The story</a></p>\n} . thread( $board, $story, $id );
}

# The thread of a story, or of one of its comments: each behind the one that it answers. All are sorted into a tree, of which as
# many as a page holds are shown.
sub thread {
    my ( $board, $story, $root ) = @_;
    my ( %replies, %comment );
    for my $row (
        rows(
            $board,
            'SELECT co_id, co_parent, co_children, co_score, co_subject, me_name, co_time '
                . 'FROM comments JOIN members ON me_id = co_me_id WHERE co_st_id = ? ORDER BY co_id',
            $story
        )
        )
    {
        $comment{ $row->[0] } = $row;
        push @{ $replies{ $row->[1] } }, $row->[0];
    }
    my @left = map { [ $_, 0 ] } reverse( $root ? $root : @{ $replies{0} // [] } );
    my @thread;
    while ( my $next = pop @left ) {
        push @thread, $next;
        push @left, map { [ $_, $next->[1] + 1 ] } reverse @{ $replies{ $next->[0] } // [] };
    }
    my $more = @thread - $SHOWN;
    splice @thread, $SHOWN if $more > 0;
    my %text = map { @$_ } rows( $board, 'SELECT co_id, co_text FROM comments WHERE co_id = ANY (?)', [ map { $_->[0] } @thread ] );
    $board->{items} = @thread;
    return
          sprintf( qq{<ul data-more="%d">\n}, $more > 0 ? $more : 0 )
        . join( '', map { shown( $comment{ $_->[0] }, $_->[1], $text{ $_->[0] } ) } @thread )
        . "</ul>\n";
}

sub shown {
    my ( $comment, $depth, $text ) = @_;
    my ( $id, $parent, $children, $score, $subject, $member, $time ) = @$comment;
    return
          qq{<li data-item="$id" data-parent="$parent" data-depth="$depth" data-children="$children" data-score="$score" }
        . qq{style="margin-left:${depth}em"><a href="/board/comment?id=$id" class="text">}
        . html($subject)
        . "</a> (score $score) by "
        . html($member)
        . qq{, $time<p class="text">}
        . html($text)
        . "</p></li>\n";
}

sub member {
    my ($board) = @_;
    my $id = number( $board, 'id' );
    my ( $name, $karma, $count, $since )
        = row( $board, 'SELECT me_name, me_karma, me_comments, me_since FROM members WHERE me_id = ?', $id );
    refuse( 404, "there is no member $id" ) unless defined $name;
    my @last = rows( $board, "SELECT co_id, co_subject, co_score FROM comments WHERE co_me_id = ? ORDER BY co_id DESC LIMIT $LAST", $id );
    $board->{items} = @last;
    return
          qq{<h2 data-member="$id">}
        . html($name)
        . "</h2><p>Karma $karma, $count comments since $since</p>\n<ul>\n"
        . join( '', map { qq{<li data-item="$_->[0]"><a href="/board/comment?id=$_->[0]" class="text">} . html( $_->[1] ) . "</a> (score $_->[2])</li>\n" } @last )
        . "</ul>\n";
}

1;
