/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libtwheel for C++17: a wheel and a timer that end with their scope, and times of <chrono>.
 *
 *	tw::wheel wheel;
 *	tw::timer timer(wheel, 5s, 42);
 *
 *	timer.set(5s);
 *	while (wheel.wait())
 *		wheel.read([](const tw::event &e) { std::cout << e.user_data << '\n'; });
 *
 * Or each timer has a function of its own, which moves with it:
 *
 *	tw::timer timer(wheel, 5s, [] { std::cout << "5 s are over\n"; });
 *
 *	while (wheel.wait())
 *		wheel.dispatch();
 *
 * Each function that can fail throws std::system_error, and has a form with a
 * std::error_code & that throws nothing of its own. <libtwheel.h> says what the functions do, what
 * threads may do, and what happens after fork().
 *
 * A timer must end before its wheel. Both can be moved.
 */
#ifndef TWHEEL_HPP
#define TWHEEL_HPP

#include <libtwheel.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

/* The name of the library is that of a struct of it. */
namespace tw {

using event = ::twheel_event;
using options = ::twheel_options;
using duration = std::chrono::nanoseconds;

/* The clock of a wheel, which the wheel alone can read. */
struct clock {
	using duration = tw::duration;
	using rep = duration::rep;
	using period = duration::period;
	using time_point = std::chrono::time_point<clock>;
	static constexpr bool is_steady = false;
};

using time_point = clock::time_point;

/* This deadline never comes. */
inline constexpr time_point never = time_point::max();

/* A moment, as libtwheel has it. */
constexpr std::uint64_t to_ns(time_point t) noexcept
{
	if (t == never)
		return ~std::uint64_t{ 0 };
	return t.time_since_epoch().count() < 0 ? 0 : std::uint64_t(t.time_since_epoch().count());
}

/*
 * A duration of any count and unit in nanoseconds, rounded up. One that is too long for ours, or
 * that is not a number, is the longest, as hours::max() is in effect.
 */
template <class Rep, class Period>
constexpr duration to_duration(const std::chrono::duration<Rep, Period> &d) noexcept
{
	using wide = std::chrono::duration<long double, std::nano>;

	if (!(wide(d) < wide(duration::max())))
		return duration::max();
	if (wide(d) <= wide(duration::min()))
		return duration::min();
	return std::chrono::ceil<duration>(d);
}

constexpr duration to_duration(duration d) noexcept
{
	return d;
}

/* The same of a duration: one below zero is over. */
template <class Rep, class Period>
constexpr std::uint64_t to_ns(const std::chrono::duration<Rep, Period> &d) noexcept
{
	const duration ns = to_duration(d);

	if (ns == duration::max())
		return ~std::uint64_t{ 0 };
	return ns.count() < 0 ? 0 : std::uint64_t(ns.count());
}

constexpr time_point from_ns(std::uint64_t ns) noexcept
{
	return ns > std::uint64_t(duration::max().count()) ? never :
		time_point(duration(duration::rep(ns)));
}

inline time_point deadline(const event &e) noexcept
{
	return from_ns(e.deadline_ns);
}

inline duration lateness(const event &e) noexcept
{
	return from_ns(e.expired_ns) - from_ns(e.deadline_ns);
}

namespace detail {

/* Takes what a function of libtwheel returned: an error goes to @ec, all else is kept. */
inline int take(int ret, std::error_code &ec) noexcept
{
	if (ret < 0)
		ec.assign(-ret, std::system_category());
	else
		ec.clear();
	return ret < 0 ? 0 : ret;
}

/* Calls @f with an error code, and throws what comes in it. */
template <class F> auto checked(const char *what, F &&f)
{
	std::error_code ec;
	auto result = f(ec);

	if (ec) {
#ifdef __cpp_exceptions
		throw std::system_error(ec, what);
#else
		/* Who builds with -fno-exceptions calls the forms with an error code. */
		std::fprintf(stderr, "%s: %s\n", what, std::strerror(ec.value()));
		std::abort();
#endif
	}
	return result;
}

struct closer {
	void operator()(::twheel *w) const noexcept { ::twheel_close(w); }
};

} // namespace detail

class wheel {
public:
	/* The size of @o need not be set. */
	explicit wheel(const options &o = options())
	{
		detail::checked("twheel_open", [&](std::error_code &ec) { return open(o, ec); });
	}

	wheel(const options &o, std::error_code &ec) noexcept { open(o, ec); }

	/* A wheel that libtwheel has opened, for example by twheel_open_fd(). It is ours then. */
	explicit wheel(::twheel *w) noexcept : w_(w) {}

	/* False if the wheel could not be opened, or was moved away. */
	explicit operator bool() const noexcept { return bool(w_); }

	/* The wheel, for functions of <libtwheel.h>. */
	::twheel *get() const noexcept { return w_.get(); }

	int fd() const noexcept { return ::twheel_fd(get()); }
	const char *backend() const noexcept { return ::twheel_backend(get()); }
	const char *backend_reason() const noexcept { return ::twheel_backend_reason(get()); }
	time_point now() const noexcept { return from_ns(::twheel_now(get())); }
	time_point next() const noexcept { return from_ns(::twheel_next(get())); }

	template <class Rep, class Period>
	time_point after(const std::chrono::duration<Rep, Period> &d) const noexcept
	{
		return from_ns(::twheel_after(get(), to_ns(d)));
	}

	/* Waits. Returns false if the time is up or a signal came. */
	template <class Rep, class Period>
	bool wait(const std::chrono::duration<Rep, Period> &timeout, std::error_code &ec) noexcept
	{
		const duration ns = to_duration(timeout);
		int ret = ::twheel_wait(get(), ns == duration::max() ? -1 :
					       ns.count() < 0 ? 0 : ns.count());

		return detail::take(ret == -EINTR ? 0 : ret, ec);
	}

	template <class Rep, class Period>
	bool wait(const std::chrono::duration<Rep, Period> &timeout)
	{
		return detail::checked("twheel_wait", [&](auto &ec) { return wait(timeout, ec); });
	}

	bool wait(std::error_code &ec) noexcept { return wait(duration::max(), ec); }
	bool wait() { return wait(duration::max()); }

	/* Takes up to @n events. Returns how many. */
	unsigned int read(event *events, unsigned int n, std::error_code &ec) noexcept
	{
		return unsigned(detail::take(::twheel_read(get(), events, n), ec));
	}

	unsigned int read(event *events, unsigned int n)
	{
		return detail::checked("twheel_read",
				       [&](auto &ec) { return read(events, n, ec); });
	}

	/*
	 * Calls @f for each event that there is, but for no more than 1,024, so that a timer which
	 * @f makes due again at once does not keep the caller for ever. Returns how many. The
	 * events are read one by one, so none is lost if @f throws, which ends both forms.
	 */
	template <class F> unsigned int read(F &&f, std::error_code &ec)
	{
		unsigned int total = 0;
		event e;

		for (; total < 1024 && read(&e, 1, ec); total++)
			f(static_cast<const event &>(e));
		return total;
	}

	template <class F> unsigned int read(F &&f)
	{
		return detail::checked("twheel_read", [&](auto &ec) { return read(f, ec); });
	}

	/*
	 * Calls the function of each timer that has expired, as read() does. Returns how many.
	 * Each timer of this wheel must have one.
	 */
	unsigned int dispatch(std::error_code &ec);
	unsigned int dispatch();

	/* Ends a wait of another thread. */
	void wake(std::error_code &ec) noexcept { detail::take(::twheel_wake(get()), ec); }

	void wake()
	{
		detail::checked("twheel_wake", [&](auto &ec) { return wake(ec), 0; });
	}

private:
	bool open(options o, std::error_code &ec) noexcept
	{
		::twheel *w = nullptr;

		o.size = sizeof(o);
		detail::take(::twheel_open(&w, &o), ec);
		w_.reset(w);
		return bool(w_);
	}

	std::unique_ptr<::twheel, detail::closer> w_;
};

namespace detail {

template <class F>
using if_function = std::enable_if_t<std::is_invocable_v<F &> ||
				     std::is_invocable_v<F &, const event &>>;

} // namespace detail

/*
 * A timer, from its first deadline to its end.
 *
 * It can have a function: void(const event &) or void(). Then its user_data is its address, which
 * follows it by twheel_set_user_data() when it is moved. With an empty std::function, dispatch()
 * reads the event and calls nothing. The function may set, move and end its timer. One thread at a
 * time may move such a timer, end it, or dispatch its events. A loop that reads the events itself
 * reads one at a time, and gives it to call(): the function that it runs may end the timers of
 * events that were read with it.
 */
class timer {
public:
	using function = std::function<void(const event &)>;

	timer() noexcept = default;

	timer(wheel &w, time_point deadline, std::uint64_t user_data = 0)
	{
		detail::checked("twheel_add", [&](auto &ec) {
			return add(w, to_ns(deadline), user_data, ec);
		});
	}

	template <class Rep, class Period>
	timer(wheel &w, const std::chrono::duration<Rep, Period> &delay,
	      std::uint64_t user_data = 0)
		: timer(w, w.after(delay), user_data)
	{
	}

	timer(wheel &w, time_point deadline, std::uint64_t user_data, std::error_code &ec) noexcept
	{
		add(w, to_ns(deadline), user_data, ec);
	}

	template <class Rep, class Period>
	timer(wheel &w, const std::chrono::duration<Rep, Period> &delay, std::uint64_t user_data,
	      std::error_code &ec) noexcept
		: timer(w, w.after(delay), user_data, ec)
	{
	}

	template <class F, class = detail::if_function<F>>
	timer(wheel &w, time_point deadline, F f) : f_(to_function(std::move(f)))
	{
		detail::checked("twheel_add", [&](auto &ec) {
			return add(w, to_ns(deadline), address(), ec);
		});
	}

	template <class Rep, class Period, class F, class = detail::if_function<F>>
	timer(wheel &w, const std::chrono::duration<Rep, Period> &delay, F f)
		: timer(w, w.after(delay), std::move(f))
	{
	}

	/* Only to keep a large @f can throw: std::bad_alloc. */
	template <class F, class = detail::if_function<F>>
	timer(wheel &w, time_point deadline, F f, std::error_code &ec)
		: f_(to_function(std::move(f)))
	{
		add(w, to_ns(deadline), address(), ec);
	}

	template <class Rep, class Period, class F, class = detail::if_function<F>>
	timer(wheel &w, const std::chrono::duration<Rep, Period> &delay, F f, std::error_code &ec)
		: timer(w, w.after(delay), std::move(f), ec)
	{
	}

	timer(timer &&other) noexcept { swap(other); }

	timer &operator=(timer &&other) noexcept
	{
		timer(std::move(other)).swap(*this);
		return *this;
	}

	~timer()
	{
		if (w_)
			::twheel_del(w_, id_);
		if (running_)
			running_->owner = nullptr;
	}

	void swap(timer &other) noexcept
	{
		std::swap(w_, other.w_);
		std::swap(id_, other.id_);
		f_.swap(other.f_);
		std::swap(running_, other.running_);
		follow();
		other.follow();
	}

	/* Calls the function of the timer that has expired. */
	static void call(const event &e)
	{
		timer *t = reinterpret_cast<timer *>(std::uintptr_t(e.user_data));

		/* It has no function, or was released. */
		if (!t)
			return;
		/* It runs already, and has dispatched events itself. */
		if (t->running_)
			return t->running_->f(e);

		running now(*t);

		now.f(e);
	}

	/* False for one that was not made, moved away, deleted or released. */
	explicit operator bool() const noexcept { return w_; }

	std::uint64_t id() const noexcept { return id_; }

	/*
	 * These return true if they ended an arming whose event was not read and never will
	 * be. One that does not exist gives ENOENT.
	 */
	bool set(time_point deadline, std::error_code &ec) noexcept
	{
		return detail::take(w_ ? ::twheel_set(w_, id_, to_ns(deadline)) : -ENOENT, ec);
	}

	bool set(time_point deadline)
	{
		return detail::checked("twheel_set", [&](auto &ec) { return set(deadline, ec); });
	}

	template <class Rep, class Period>
	bool set(const std::chrono::duration<Rep, Period> &delay, std::error_code &ec) noexcept
	{
		return set(w_ ? from_ns(::twheel_after(w_, to_ns(delay))) : never, ec);
	}

	template <class Rep, class Period> bool set(const std::chrono::duration<Rep, Period> &delay)
	{
		return detail::checked("twheel_set", [&](auto &ec) { return set(delay, ec); });
	}

	bool clear(std::error_code &ec) noexcept
	{
		return detail::take(w_ ? ::twheel_clear(w_, id_) : -ENOENT, ec);
	}

	bool clear()
	{
		return detail::checked("twheel_clear", [&](auto &ec) { return clear(ec); });
	}

	/* Ends the timer now. An empty one stays. */
	bool del(std::error_code &ec) noexcept
	{
		::twheel *w = std::exchange(w_, nullptr);

		return detail::take(w ? ::twheel_del(w, std::exchange(id_, 0)) : -ENOENT, ec);
	}

	bool del()
	{
		return detail::checked("twheel_del", [&](auto &ec) { return del(ec); });
	}

	/* Gives the timer, without its function, to the caller, who deletes it by its id. */
	std::uint64_t release() noexcept
	{
		if (w_ && has_function())
			::twheel_set_user_data(w_, id_, 0);
		w_ = nullptr;
		return std::exchange(id_, 0);
	}

private:
	bool add(wheel &w, std::uint64_t deadline, std::uint64_t user_data,
		 std::error_code &ec) noexcept
	{
		detail::take(::twheel_add(w.get(), deadline, user_data, &id_), ec);
		if (!ec)
			w_ = w.get();
		return !ec;
	}

	/* The function of a timer while it is called: it may end the timer, and outlives it then. */
	struct running {
		explicit running(timer &t) noexcept : f(std::move(t.f_)), owner(&t)
		{
			t.running_ = this;
		}

		running(const running &) = delete;

		~running()
		{
			if (!owner)
				return;
			owner->running_ = nullptr;
			owner->f_ = std::move(f);
		}

		function f;
		timer *owner;
	};

	template <class F> static function to_function(F f)
	{
		if constexpr (std::is_invocable_v<F &, const event &>)
			return function(std::move(f));
		else
			return [f = std::move(f)](const event &) mutable { f(); };
	}

	/* 0 without a function, because then it would not follow. */
	std::uint64_t address() const noexcept
	{
		if (!has_function())
			return 0;
		return std::uint64_t(reinterpret_cast<std::uintptr_t>(this));
	}

	/* After a move: the events name this timer from now on. */
	void follow() noexcept
	{
		if (w_ && has_function())
			::twheel_set_user_data(w_, id_, address());
		if (running_)
			running_->owner = this;
	}

	bool has_function() const noexcept { return f_ || running_; }

	::twheel *w_ = nullptr;
	std::uint64_t id_ = 0;
	function f_;
	running *running_ = nullptr;
};

inline unsigned int wheel::dispatch(std::error_code &ec)
{
	return read(timer::call, ec);
}

inline unsigned int wheel::dispatch()
{
	return read(timer::call);
}

inline void swap(timer &a, timer &b) noexcept
{
	a.swap(b);
}

} // namespace tw

#endif /* TWHEEL_HPP */
