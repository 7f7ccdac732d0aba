package Servsim::Pages;

# Pages of an application, answered inside Apache by mod_perl: what they need of the request, of the database and of HTML.
# A process keeps its connection to PostgreSQL and its prepared statements. One request is one transaction of the database.

use strict;
use warnings;

use Apache2::Const -compile => qw(OK HTTP_BAD_REQUEST HTTP_FORBIDDEN HTTP_NOT_FOUND);
use Apache2::RequestIO  ();
use Apache2::RequestRec ();
use Apache2::RequestUtil ();
use APR::Table          ();
use DBI                 ();
use Exporter            qw(import);

our @EXPORT_OK = qw(answer change html number refuse row rows text);

# The process's connection, opened at its first request.
my $database;

sub database {
    $database //= DBI->connect( "dbi:Pg:dbname=$ENV{database};host=$ENV{servsim_run}", 'postgres', undef,
        { AutoCommit => 0, RaiseError => 1, PrintError => 0 } );
    return $database;
}

# What pages throw: a status and a reason for the log.
sub refuse {
    my ( $status, $reason ) = @_;
    die { status => $status, reason => $reason };
}

# Answers a request for the page behind the last '/' of its address: `$pages` tells title and maker of each. What a maker gets
# is passed to `$begin` with the request first; `$frame` makes the whole page of it, the title and what the maker has made.
sub answer {
    my ( $r, $pages, $begin, $frame ) = @_;
    my ($name) = $r->uri =~ m{^/[a-z]+/([a-z-]+)$};
    my $page = $pages->{ $name // '' } or return Apache2::Const::HTTP_NOT_FOUND;
    my $ok   = eval {
        my $site = { db => database(), form => form($r) };
        $begin->( $site, $r );
        my $body = $page->[1]->($site);
        $site->{db}->commit;
        $r->content_type('text/html; charset=utf-8');
        $r->print( $frame->( $site, $page->[0], $body ) );
        1;
    };
    return Apache2::Const::OK if $ok;
    my $error = $@;
    eval { $database->rollback if $database; 1 } or undef $database;
    return $error->{status} if ref $error;
    $r->log_error("$name: $error");
    # A connection that broke is opened anew by the next request.
    undef $database if $database && !$database->ping;
    return 500;
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

# A whole number of the form that must be there.
sub number {
    my ( $site, $name ) = @_;
    my $value = $site->{form}{$name} // '';
    refuse( Apache2::Const::HTTP_BAD_REQUEST, "$name is no number" ) unless $value =~ /^\d{1,9}$/;
    return $value;
}

# A text of the form that must be there.
sub text {
    my ( $site, $name ) = @_;
    my $value = $site->{form}{$name} // '';
    refuse( Apache2::Const::HTTP_BAD_REQUEST, "$name is missing" ) if $value eq '';
    return $value;
}

# All rows of a statement, each an array.
sub rows {
    my ( $site, $statement, @values ) = @_;
    my $prepared = $site->{db}->prepare_cached($statement);
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
    my ( $site, $statement, @values ) = @_;
    return $site->{db}->prepare_cached($statement)->execute(@values);
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

1;
