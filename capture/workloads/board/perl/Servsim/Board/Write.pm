package Servsim::Board::Write;

# Writing: comments, stories, members, points. Rows of comments are locked before those of stories, sections and members, one of
# each at most, so that nobody waits in a circle.

use strict;
use warnings;

use Servsim::Pages qw(change html number refuse row text);

# Scores that a comment may have.
my ( $LOWEST, $HIGHEST ) = ( -1, 5 );

# Who writes: the member's number.
sub writer {
    my ($board) = @_;
    my ($id) = row( $board, 'SELECT me_id FROM members WHERE me_name = ? AND me_password = ?', text( $board, 'user' ), text( $board, 'password' ) );
    refuse( 403, 'no such member, or another password' ) unless defined $id;
    return $id;
}

# A comment on a story, or a reply to the comment `id`.
sub reply {
    my ($board) = @_;
    my $member  = writer($board);
    my $parent  = number( $board, 'id' );
    my $story;
    if ($parent) {
        ($story) = row( $board, 'UPDATE comments SET co_children = co_children + 1 WHERE co_id = ? RETURNING co_st_id', $parent );
        refuse( 404, "there is no comment $parent" ) unless defined $story;
    }
    else {
        $story = number( $board, 'story' );
    }
    my ($id) = row(
        $board,
        q{INSERT INTO comments VALUES (nextval('comment_ids'), ?, ?, ?, ?, ?, now(), 1, 0) RETURNING co_id},
        $story, $parent, $member, text( $board, 'subject' ), text( $board, 'text' )
    );
    change( $board, 'UPDATE stories SET st_comments = st_comments + 1 WHERE st_id = ?', $story ) == 1
        or refuse( 404, "there is no story $story" );
    change( $board, 'UPDATE members SET me_comments = me_comments + 1 WHERE me_id = ?', $member );
    return Servsim::Board::Read::comment( $board, $id );
}

# A story in the section `id`.
sub submit {
    my ($board) = @_;
    my ( $member, $section ) = ( writer($board), number( $board, 'id' ) );
    my ($id) = row(
        $board,
        q{INSERT INTO stories VALUES (nextval('story_ids'), ?, ?, ?, ?, ?, now(), 0) RETURNING st_id},
        $section, $member, ( map { text( $board, $_ ) } qw(title lead text) )
    );
    change( $board, 'UPDATE sections SET se_stories = se_stories + 1 WHERE se_id = ?', $section ) == 1
        or refuse( 404, "there is no section $section" );
    return Servsim::Board::Read::story( $board, $id );
}

sub register {
    my ($board) = @_;
    my $name = text( $board, 'user' );
    my ($id) = row(
        $board,
        q{INSERT INTO members VALUES (nextval('member_ids'), ?, ?, 0, 0, now()) ON CONFLICT (me_name) DO NOTHING RETURNING me_id},
        $name, text( $board, 'password' )
    );
    refuse( 409, "there is a member $name" ) unless defined $id;
    return sprintf qq{<h2 data-member="%d" data-name="%s">Welcome</h2>\n}, $id, html($name);
}

# A point more or less for the comment `id`, once from each member and never for an own one.
sub moderate {
    my ($board) = @_;
    my ( $member, $id ) = ( writer($board), number( $board, 'id' ) );
    my $points = number( $board, 'up' ) ? 1 : -1;
    my ( $author, $score ) = row( $board, 'SELECT co_me_id, co_score FROM comments WHERE co_id = ? FOR UPDATE', $id );
    refuse( 404, "there is no comment $id" ) unless defined $author;
    my $applied = 0;
    if ( $author != $member && $score + $points >= $LOWEST && $score + $points <= $HIGHEST ) {
        $applied = 0 + change( $board, 'INSERT INTO moderations VALUES (?, ?, ?, now()) ON CONFLICT DO NOTHING', $member, $id, $points );
    }
    if ($applied) {
        change( $board, 'UPDATE comments SET co_score = co_score + ? WHERE co_id = ?', $points, $id );
        change( $board, 'UPDATE members SET me_karma = me_karma + ? WHERE me_id = ?', $points, $author );
    }
    return qq{<p data-applied="$applied">Thank you</p>\n} . Servsim::Board::Read::comment( $board, $id );
}

1;
