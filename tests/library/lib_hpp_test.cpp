// SPDX-License-Identifier: GPL-2.0
/* twheel.hpp: ownership, errors, and that durations and times are not distorted. */
#include <twheel.hpp>
#include <twheel/reader.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tap.hpp"

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<tw::wheel> && !std::is_copy_assignable_v<tw::wheel>);
static_assert(!std::is_copy_constructible_v<tw::timer> && !std::is_copy_assignable_v<tw::timer>);
static_assert(std::is_nothrow_move_constructible_v<tw::wheel>);
static_assert(std::is_nothrow_move_assignable_v<tw::wheel>);
static_assert(std::is_nothrow_move_constructible_v<tw::timer>);
static_assert(std::is_nothrow_move_assignable_v<tw::timer>);
static_assert(tw::to_ns(tw::never) == ~0ULL && tw::from_ns(~0ULL) == tw::never);
static_assert(tw::to_ns(tw::duration::max()) == ~0ULL);
static_assert(tw::to_ns(std::chrono::microseconds::max()) == ~0ULL);
static_assert(tw::to_ns(std::chrono::seconds::max()) == ~0ULL);
static_assert(tw::to_ns(std::chrono::hours::max()) == ~0ULL);
static_assert(tw::to_ns(std::chrono::hours::min()) == 0);
static_assert(tw::to_ns(std::chrono::hours(24LL * 365 * 1000)) == ~0ULL);
static_assert(tw::to_ns(std::chrono::hours(24 * 365 * 292)) == 24ULL * 365 * 292 * 3600000000000);
static_assert(tw::to_ns(std::chrono::duration<double>(0.5)) == 500000000);
static_assert(tw::to_ns(std::chrono::duration<double>(1e300)) == ~0ULL);
static_assert(tw::to_ns(std::chrono::duration<double>(
		      std::numeric_limits<double>::quiet_NaN())) == ~0ULL);
static_assert(tw::to_ns(std::chrono::duration<long long, std::pico>(1001)) == 2);
static_assert(tw::to_ns(-1ns) == 0 && tw::to_ns(5s) == 5000000000);
static_assert(tw::to_ns(tw::from_ns(1)) == 1 && tw::from_ns(1ULL << 63) == tw::never);

namespace {

/* Returns the errno that @f throws, or 0. */
template <class F> int thrown(F &&f)
{
	try {
		f();
	} catch (const std::system_error &e) {
		return e.code().category() == std::system_category() ? e.code().value() : -1;
	}
	return 0;
}

unsigned int armed(const tw::wheel &w)
{
	unsigned int total = 0;
	std::uint32_t cursor = 0;
	twheel_timer timer;

	while (twheel_list(w.get(), &timer, 1, &cursor) > 0)
		total += timer.state == TWHEEL_ARMED;
	return total;
}

/* Runs @f in a child. Returns what @f returned, or -1. */
template <class F> int in_child(F &&f)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(f());
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* Returns the next event, which must come. */
tw::event next(tw::wheel &w)
{
	tw::event e = {};

	for (int i = 0; i < 1000 && !w.read(&e, 1); i++)
		w.wait(20ms);
	return e;
}

void owners()
{
	tw::wheel moved(nullptr);
	tw::wheel w;

	{
		tw::timer t(w, 1h, 7);

		check(t && armed(w) == 1, "a timer is armed");
		tw::timer other(std::move(t));
		check(!t && other && armed(w) == 1, "a timer that is moved stays armed");
		t = std::move(other);
		check(t && !other && armed(w) == 1, "a timer that is moved back stays armed");
		t = tw::timer(w, 2h, 8);
		check(t && armed(w) == 1, "a timer that is assigned over ends");
	}
	check(!armed(w), "a timer ends with its scope");
	tw::timer t(w, 1h);
	std::uint64_t id = t.release();

	check(!t && armed(w) == 1 && twheel_del(w.get(), id) == 1,
	      "release() leaves the timer armed");
	t = tw::timer(w, 1h);
	check(t.del() && !t && !armed(w), "del() ends a timer and reports that it was armed");

	tw::timer first(w, 1h, 1);

	moved = std::move(w);

	check(!w && moved && armed(moved) == 1, "a wheel that is moved keeps its timers");
	check(first.set(30ms) && next(moved).user_data == 1, "a timer of a moved wheel can be set");
}

void times()
{
	tw::wheel w;
	auto before = w.now();
	tw::timer t(w, 20ms, 3);
	tw::event e = next(w);

	check(e.user_data == 3 && e.id == t.id(), "an event has the id of its timer");
	check(tw::deadline(e) >= before + 20ms && tw::lateness(e) >= 0ns, "an event is not early");
	check(!t.set(tw::never), "set() reports that the timer was not armed");
	check(!w.wait(0ns) && t.clear(), "a timer that never expires is armed");
	check(!t.set(-5s) && next(w).user_data == 3, "a negative delay is due at once");
	check(w.next() == tw::never, "next() is never without armed timers");
	check(!t.set(tw::time_point(-1ns)) && next(w).user_data == 3,
	      "a negative time point is due at once");
	t.set(tw::never);
	w.wake();
	check(w.wait(), "wake() ends a wait");
	w.read([](const tw::event &) {});
	check(!w.wait(-1s), "a negative wait returns at once");
	check(!*w.backend_reason() == (w.backend() == std::string("kernel")),
	      "it says why it is not the kernel's");
}

/* A duration that is too long for nanoseconds never ends, and a wait for it waits. */
template <class D> void longest(D d, const char *name)
{
	tw::wheel w;
	tw::timer t(w, d, 4);
	tw::event e;

	check(!w.wait(20ms) && !w.read(&e, 1), name);
	check(!(w.after(d) < tw::never), "after() with a very long delay is never");
	t.set(1h);
	check(t.set(d) && !w.wait(20ms) && !w.read(&e, 1),
	      "set() with a very long delay does not expire");
	t.set(20ms);
	check(w.wait(d) && w.read(&e, 1) && e.user_data == 4,
	      "a very long wait() waits for an event");
}

void longest_of_all()
{
	longest(std::chrono::nanoseconds::max(), "nanoseconds::max()");
	longest(std::chrono::milliseconds::max(), "milliseconds::max()");
	longest(std::chrono::seconds::max(), "seconds::max()");
	longest(std::chrono::hours::max(), "hours::max()");
	longest(std::chrono::hours(24LL * 365 * 1000), "1000 years");
	longest(std::chrono::duration<double>(1e300), "1e300 seconds");
}

void readers()
{
	tw::wheel w;
	tw::timer a(w, 5ms, 1), b(w, 10ms, 2), c(w, 15ms, 3);
	unsigned int calls = 0;

	/* Wait until all are due. */
	for (auto until = w.after(25ms); w.now() < until;)
		;
	while (calls < 1) {
		w.wait(20ms);
		try {
			w.read([&](const tw::event &) {
				calls++;
				throw calls;
			});
		} catch (unsigned int) {
		}
	}
	for (int i = 0; i < 1000 && calls < 3; i++) {
		w.wait(20ms);
		w.read([&](const tw::event &) { calls++; });
	}
	check(calls == 3, "an exception of the reader loses no event");
}

/* Throws at the first event. */
void count_and_throw(const twheel_event *, void *calls)
{
	if (!(*static_cast<unsigned int *>(calls))++)
		throw 1;
}

/* A loop checks the descriptor, and is called again after an exception. */
void adapters()
{
	tw::wheel w;
	tw::timer a(w, 5ms, 1), b(w, 5ms, 2), c(w, 10ms, 3);
	unsigned int calls = 0, thrown = 0;
	twheel_reader reader;

	twheel_reader_init(&reader, w.get(), count_and_throw, &calls);
	for (int i = 0; i < 1000 && calls < 3; i++) {
		w.wait(20ms);
		try {
			twheel_reader_read(&reader);
		} catch (int) {
			thrown++;
		}
	}
	check(calls == 3 && thrown == 1, "an exception of a callback loses no event");
}

/* Dispatches until @calls is @wanted. Returns true if that happened. */
bool dispatched(tw::wheel &w, const unsigned int &calls, unsigned int wanted)
{
	for (int i = 0; i < 1000 && calls < wanted; i++) {
		w.dispatch();
		w.wait(20ms);
	}
	w.dispatch();
	return calls == wanted;
}

/* A timer that is due again each time it has expired does not keep its caller in dispatch(). */
void busy_timer()
{
	tw::wheel w;
	tw::timer t;
	unsigned int calls = 0, most = 0;

	t = tw::timer(w, 0ms, [&] { calls++, t.set(0ms); });
	while (calls < 3000 && w.wait(1s))
		most = std::max(most, w.dispatch());
	check(calls >= 3000 && most <= 1024, "dispatch() returns although a timer is always due");
}

struct connection {
	connection(tw::wheel &w, unsigned int &kicked)
		: silent(w, 10ms, [&kicked] { kicked++; })
	{
	}

	tw::timer silent;
};

void functions()
{
	tw::wheel w;
	unsigned int calls = 0;
	std::uint64_t seen = 0;

	static_assert(std::is_constructible_v<tw::timer, tw::wheel &, tw::duration, void (*)()>);
	static_assert(!std::is_constructible_v<tw::timer, tw::wheel &, tw::duration, void (*)(int)>);
	{
		tw::timer t(w, 5ms, [&](const tw::event &e) { calls++, seen = e.id; });

		check(dispatched(w, calls, 1) && seen == t.id(), "a timer calls its function");
		t.set(5ms);
		check(dispatched(w, calls, 2), "a timer calls its function again");

		std::vector<connection> all;

		calls = 0;
		for (int i = 0; i < 1000; i++)
			all.emplace_back(w, calls);
		check(dispatched(w, calls, 1000),
		      "functions follow their timers when a vector grows");
	}
	check(!armed(w), "timers with functions end with their scope");

	tw::timer first(w, 5ms, [&] { seen = 1, calls++; });
	tw::timer second(w, 1h, [&] { seen = 2, calls++; });

	calls = 0;
	first.swap(second);
	check(dispatched(w, calls, 1) && seen == 1, "swap() exchanges the functions too");
	first = std::move(second);
	first.set(5ms);
	check(dispatched(w, calls, 2) && seen == 1, "an assignment moves the function");

	/* An object that the function has captured lives until the function returns. */
	auto own = std::make_unique<tw::timer>();
	auto shared = std::make_shared<unsigned int>(0);

	*own = tw::timer(w, 5ms, [&own, shared, &calls] {
		own.reset();
		calls = ++*shared;
	});
	calls = 0;
	check(dispatched(w, calls, 1) && !own && shared.use_count() == 1,
	      "a function may end its timer");

	tw::timer other;
	tw::timer moves(w, 5ms, [&] { other = std::move(moves), calls++; });

	check(dispatched(w, calls, 2) && other && !moves, "a function may move its timer");
	other.set(5ms);
	check(dispatched(w, calls, 3), "a function whose timer has moved is called again");

	unsigned int depth = 0;
	tw::timer nested(w, 5ms, [&] {
		calls++;
		if (++depth == 1) {
			nested.set(1ms);
			dispatched(w, depth, 2);
		}
	});

	calls = 0;
	check(dispatched(w, calls, 2), "a function may dispatch its own timer");

	tw::timer thrower(w, 5ms, [&] {
		if (!calls++)
			throw 1;
	});
	unsigned int thrown = 0;

	calls = 0;
	for (int i = 0; i < 1000 && !thrown; i++) {
		w.wait(20ms);
		try {
			w.dispatch();
		} catch (int) {
			thrown++;
		}
	}
	thrower.set(5ms);
	check(thrown && dispatched(w, calls, 2), "a timer keeps a function that throws");

	std::uint64_t id = thrower.release();

	twheel_set(w.get(), id, 1);
	check(w.wait(1s) && w.dispatch() == 1 && calls == 2, "a released timer has no function");
	twheel_del(w.get(), id);

	auto empty = std::make_unique<tw::timer>(w, w.after(1h), tw::timer::function());
	tw::timer moved(std::move(*empty));

	empty.reset();
	moved.set(tw::time_point());
	check(w.wait(1s) && w.dispatch() == 1, "an empty function is not called, even after a move");
}

void errors()
{
	tw::options bad = {};
	std::error_code ec;
	tw::timer none;

	bad.levels = 99;
	check(thrown([&] { tw::wheel w(bad); }) == EINVAL, "impossible options throw");
	tw::wheel w(bad, ec);
	check(!w && ec == std::errc::invalid_argument, "impossible options set an error code");
	check(thrown([&] { none.set(1s); }) == ENOENT, "set() without a timer throws");
	none.del(ec);
	check(ec == std::errc::no_such_file_or_directory,
	      "set() without a timer sets an error code");

	tw::options small = {};

	small.max_timers = 1;
	tw::wheel one(small);
	tw::timer first(one, 1h);

	check(thrown([&] { tw::timer(one, 1h); }) == ENOSPC, "a full wheel throws");
	tw::timer second(one, one.after(1h), 0, ec);
	check(!second && ec == std::errc::no_space_on_device, "a full wheel sets an error code");
	first.set(2h, ec);
	check(!ec, "success clears the error code");
	tw::timer third(one, 1h, 0, ec);
	check(!third && ec == std::errc::no_space_on_device,
	      "a full wheel sets an error code, with a delay");
}

/* Each function that can fail has an overload with an error code, and none of these throws. */
void codes()
{
	tw::options small = {};
	unsigned int calls = 0;
	std::error_code ec;

	small.max_timers = 2;
	tw::wheel w(small);
	tw::timer a(w, 5ms, [&] { calls++; }, ec);
	check(a && !ec, "a timer with a function and an error code");
	tw::timer b(w, w.after(5ms), [&](const tw::event &) { calls++; }, ec);
	check(b && !ec, "a timer with a function, an error code and a deadline");
	tw::timer full(w, 5ms, [] {}, ec);
	check(!full && ec == std::errc::no_space_on_device,
	      "a function on a full wheel sets an error code");
	full = tw::timer(w, w.after(5ms), [] {}, ec);
	check(!full && ec == std::errc::no_space_on_device,
	      "a function with a deadline on a full wheel sets an error code");
	ec.clear();
	for (int i = 0; i < 1000 && calls < 2 && !ec; i++) {
		w.wait(ec);
		w.dispatch(ec);
	}
	check(calls == 2 && !ec, "wait() and dispatch() with an error code");
	std::uint64_t seen = 0;

	a.set(5ms, ec);
	for (int i = 0; i < 1000 && !seen && !ec; i++) {
		w.wait(20ms, ec);
		w.read([&](const tw::event &e) { seen = e.id; }, ec);
	}
	check(seen == a.id() && !ec, "read() with a function and an error code");

	/* A wheel of the parent fails in its child. */
	int status = in_child([&] {
		std::error_code failed[4];

		w.wait(failed[0]);
		w.dispatch(failed[1]);
		w.read([](const tw::event &) {}, failed[2]);
		tw::timer c(w, 5ms, [] {}, failed[3]);
		for (const std::error_code &code : failed)
			if (code.value() != ECHILD)
				return 1;
		return thrown([&] { w.dispatch(); }) == ECHILD ? 0 : 2;
	});
	check(status == 0, "after fork(), each function sets an error code in the child");
}

} // namespace

int main()
{
	owners();
	times();
	longest_of_all();
	readers();
	adapters();
	functions();
	busy_timer();
	errors();
	codes();
	return done_testing();
}
