#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0
#
# ci/check.pl check|ci|full...: runs all stages of these tiers, which ci/stages defines
# ci/check.pl NAME...: runs these stages, after the stages that build what they need
#
# When a stage ends, this prints one line about it, followed by its failures. The totals come last.
# The output of a stage is in build/logs/NAME.log. The exit status is 1 if any test failed or was
# skipped.
#
# The full tier may take TWHEEL_CHECK_MINUTES (default: 90). A stage that would start in the last
# five minutes is skipped. A stage that still runs when the time is over is killed, and fails.
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

# "= TIER JOBS" begins a group of stages, of which JOBS run at once. "NAME  COMMAND" is a stage.
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
die "there is no stage @unknown: make help lists the stages\n" if @unknown;
my %wanted = map { $_ => 1 } @ARGV;
my $all = grep { $wanted{$_->{tier}} } @groups;
$ENV{FULL} = 1 if $wanted{full};

# Returns the command of a stage. It writes the output to the log as it is, and to the harness as
# one TAP stream.
sub command_of {
	my ($harness, $name) = @_;
	my $left = $limit - (time - $begin);
	$started{$name} = time;
	my $bounded = $ENV{FULL} && $all && $tier{$name} ne 'build';
	return "1..0 # SKIP less than five minutes are left\n" if $bounded && $left < 300;
	$ENV{STAGE} = $command{$name};
	return ['bash', '-o', 'pipefail', '-c', <<'END', $bounded ? "timeout $left" : '', "$logs/$name.log"];
full() { echo "$([ -n "${FULL-}" ] && echo "$1" || echo "$2")"; }
built() { "$@" && echo 1..1 && echo "ok 1 - $*"; }
share() { echo $(($1 * ${TWHEEL_CHECK_SHARE:-10} / 100)); }
export TWHEEL_RACE_SECONDS=${TWHEEL_RACE_SECONDS:-$(full 60 4)}
eval "$0 $STAGE" 2>&1 </dev/null | tee "$1" | awk -f ci/flat.awk
END
}

# Shows each failure with the lines since the result before it, and with the comments that follow
# it.
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
	# If there is no failed result, the stage has died: show its last lines.
	print "    $_\n" for $shown ? () : @before > 30 ? @before[-30 .. -1] : @before;
}

sub report {
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
	print "    the whole output is in $logs/$name.log\n";
}

for my $group (@groups) {
	my @names = grep { $wanted{$group->{tier}} || $wanted{$_} || $group->{tier} eq 'build' } @{$group->{names}};
	next if !@names;
	my $harness = TAP::Harness->new({ verbosity => -3, jobs => $group->{jobs},
		exec => \&command_of });
	$harness->callback(after_test => \&report);
	$harness->aggregate_tests(TAP::Parser::Aggregator->new, @names);
}
printf "after %d minutes\n", (time - $begin) / 60 if $all;
print "$passed passed, $failed failed", $skipped ? ", $skipped skipped" : '', "\n";
exit($failed || $skipped || !$passed ? 1 : 0);
