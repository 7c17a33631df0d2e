#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0
#
# ci/check.pl check | ci | full ...: runs the stages of these tiers, as ci/stages has them; or
# ci/check.pl NAME...: these stages, after what they are built from. Prints a line for each when
# it has ended, under it what failed, and in the end the sums; what a stage said is in
# build/logs/NAME.log. A skipped test is no success: with one, the exit status is bad.
#
# The full tier takes TWHEEL_CHECK_MINUTES (90). A stage that would begin in the last five is
# skipped; one that runs when they are over is ended, and fails.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path);
use TAP::Harness;
use TAP::Parser::Aggregator;

chdir dirname(abs_path($0)) . '/..' or die;
my $begin = time;
my $limit = 60 * ($ENV{TWHEEL_CHECK_MINUTES} || 90);
my (@groups, %command, %tier, %started);
my ($passed, $failed, $skipped) = (0, 0, 0);
my $logs = 'build/logs';
make_path($logs);
$| = 1;

# "= TIER JOBS" begins a group of stages that run so many at once; "NAME  COMMAND" is one.
open(my $table, '<', 'ci/stages') or die;
while (<$table>) {
	next if /^\s*(#|$)/;
	$_ .= <$table> while s/\\\n\s*$//;
	if (/^= (\w+) (\w+)$/) {
		push @groups, { tier => $1, jobs => $2 eq 'all' ? int(`nproc`) : $2, names => [] };
	} elsif (/^(\S+)\s+(.*)/) {
		push @{$groups[-1]{names}}, $1;
		($command{$1}, $tier{$1}) = ($2, $groups[-1]{tier});
	}
}

if ("@ARGV" eq '--list') {
	print join(' ', map { @{$_->{names}} } @groups), "\n";
	exit;
}
my @unknown = grep { !$command{$_} && !/^(check|ci|full)$/ } @ARGV;
die "no stage @unknown: make help names them\n" if @unknown;
my %wanted = map { $_ => 1 } @ARGV;
my $all = grep { $wanted{$_->{tier}} } @groups;
$ENV{FULL} = 1 if $wanted{full};

# What runs for a stage: its log is as it spoke, and the harness has it as one stream.
sub command_of {
	my ($harness, $name) = @_;
	my $left = $limit - (time - $begin);
	$started{$name} = time;
	my $bounded = $ENV{FULL} && $all && $tier{$name} ne 'build';
	return "1..0 # SKIP cut: the time is soon over\n" if $bounded && $left < 300;
	$ENV{STAGE} = $command{$name};
	return ['bash', '-o', 'pipefail', '-c', <<'END', $bounded ? "timeout $left" : '', "$logs/$name.log"];
full() { echo "$([ -n "${FULL-}" ] && echo "$1" || echo "$2")"; }
built() { "$@" && echo 1..1 && echo "ok 1 - $*"; }
share() { echo $(($1 * ${TWHEEL_CHECK_SHARE:-10} / 100)); }
export TWHEEL_RACE_SECONDS=${TWHEEL_RACE_SECONDS:-$(full 60 4)}
eval "$0 $STAGE" 2>&1 </dev/null | tee "$1" | awk -f ci/flat.awk
END
}

# What led to each failure: the lines since the result before it, and its own remarks.
sub show {
	my ($name) = @_;
	open(my $log, '<', "$logs/$name.log") or return;
	my (@before, $open, $shown);
	while (<$log>) {
		s/\r?\n//;
		if (/^(not )?ok\b/ || /^twheel-vm: (run|exit|verdict)/) {
			$open = /^not ok/ || /# *(SKIP|TODO|XFAIL|XPASS)/i || /: (exit|verdict): (?!0$|PASS$)/;
			$shown ||= $open;
			print "    $_\n" for $open ? (@before > 60 ? @before[-60 .. -1] : @before, $_) : ();
			@before = ();
		} elsif ($open && /^#/) {
			print "    $_\n";
		} else {
			$open = 0;
			push @before, $_;
		}
	}
	# It never came to a result.
	print "    $_\n" for $shown ? () : @before > 30 ? @before[-30 .. -1] : @before;
}

sub told {
	my ($test, $parser) = @_;
	local $_;
	my $name = $test->[0];
	my $s = $parser->skip_all ? 1 : scalar(my @s = $parser->skipped);
	my $f = scalar(my @f = $parser->failed);
	my $p = scalar(my @p = $parser->passed) - ($parser->skip_all ? 0 : $s);
	$f = 1 if !$f && $parser->has_problems;
	$passed += $p, $failed += $f, $skipped += $s;
	printf "%-14s %5d passed, %d failed%s %6d s\n", $name, $p, $f, $s ? ", $s skipped" : '',
		time - $started{$name};
	return if !$f && !$s;
	show($name);
	print "    $_\n" for $parser->parse_errors;
	print '    exit ', $parser->exit, "\n" if $parser->exit;
	print "    $logs/$name.log has all of it\n";
}

for my $group (@groups) {
	my @names = grep { $wanted{$group->{tier}} || $wanted{$_} || $group->{tier} eq 'build' } @{$group->{names}};
	next if !@names;
	my $harness = TAP::Harness->new({ verbosity => -3, jobs => $group->{jobs},
		exec => \&command_of });
	$harness->callback(after_test => \&told);
	$harness->aggregate_tests(TAP::Parser::Aggregator->new, @names);
}
printf "after %d minutes\n", (time - $begin) / 60 if $all;
print "$passed passed, $failed failed", $skipped ? ", $skipped skipped" : '', "\n";
exit($failed || $skipped || !$passed ? 1 : 0);
