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
 * Instead, you can give each timer a function of its own, which moves with the timer:
 *
 *	tw::timer timer(wheel, 5s, [] { std::cout << "5 s are over\n"; });
 *
 *	while (wheel.wait())
 *		wheel.dispatch();
 *
 * Each function that can fail throws std::system_error, and has a second form, which reports the
 * error in a std::error_code instead. <libtwheel.h> describes what the functions do, what threads
 * may do, and what happens after fork().
 *
 * A timer must be destroyed before its wheel. Both can be moved.
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

/* Not "twheel", because libtwheel has a struct of that name. */
namespace tw {

using event = ::twheel_event;
using options = ::twheel_options;
using duration = std::chrono::nanoseconds;

/* The clock of a wheel. It has no now(), because only wheel::now() can read it. */
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

/* Converts a deadline for libtwheel. */
constexpr std::uint64_t to_ns(time_point t) noexcept
{
	if (t == never)
		return ~std::uint64_t{ 0 };
	return t.time_since_epoch().count() < 0 ? 0 : std::uint64_t(t.time_since_epoch().count());
}

/*
 * Converts a duration of any type to nanoseconds, rounded up. If it is too long for that, such as
 * hours::max(), or is not a number, the result is the longest duration, which means never.
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

/* Converts a delay for libtwheel. A negative delay counts as 0. */
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

/* If @ret is an error of libtwheel, stores it in @ec and returns 0. Otherwise returns @ret. */
inline int take(int ret, std::error_code &ec) noexcept
{
	if (ret < 0)
		ec.assign(-ret, std::system_category());
	else
		ec.clear();
	return ret < 0 ? 0 : ret;
}

/* Calls @f with an error code, and throws the error that @f reports there. */
template <class F> auto checked(const char *what, F &&f)
{
	std::error_code ec;
	auto result = f(ec);

	if (ec) {
#ifdef __cpp_exceptions
		throw std::system_error(ec, what);
#else
		/* With -fno-exceptions, a program has to call the forms with an error code. */
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
	/* You do not have to set the size of @o. */
	explicit wheel(const options &o = options())
	{
		detail::checked("twheel_open", [&](std::error_code &ec) { return open(o, ec); });
	}

	wheel(const options &o, std::error_code &ec) noexcept { open(o, ec); }

	/* Takes over a wheel that you have opened otherwise, for example with twheel_open_fd(). */
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

	/* Returns true when there is something to read, and false on a timeout or a signal. */
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

	/* Reads up to @n events, and returns how many it has read. */
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
	 * Calls @f for each unread event, and returns how many there were. It stops after 1,024
	 * events, because @f could arm timers that are due again at once. The events are read one
	 * by one, so that none is lost if @f throws. Both forms pass such an exception on.
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
	 * Calls the function of each timer that has expired, in the same way as read(), and returns
	 * how many there were. Each timer of this wheel must have a function.
	 */
	unsigned int dispatch(std::error_code &ec);
	unsigned int dispatch();

	/* Ends the wait() of another thread, or the next one if no thread is waiting. */
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
 * A timer, which is armed when it is constructed, and deleted when it is destroyed.
 *
 * You can give it a function that takes a const event & or nothing. The user_data of such a timer
 * is the address of this object, which twheel_set_user_data() updates when you move the object.
 * With an empty std::function, dispatch() reads the event and calls nothing.
 * The function may set, move and destroy its own timer. Only one thread at a time may move or
 * destroy a timer with a function, or dispatch its events.
 *
 * If your loop reads the events itself, let it read a single event at a time and pass that to
 * call(), because the function may destroy other timers whose events were read with this one.
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

	/* This form throws only std::bad_alloc, if there is no memory for a large @f. */
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

		/* The timer has no function, or was released. */
		if (!t)
			return;
		/* The function is running, and has dispatched events itself. */
		if (t->running_)
			return t->running_->f(e);

		running now(*t);

		now.f(e);
	}

	/* False if the timer could not be made, or was moved from, deleted or released. */
	explicit operator bool() const noexcept { return w_; }

	std::uint64_t id() const noexcept { return id_; }

	/*
	 * set(), clear() and del() return true if the timer was armed or its event was unread. In
	 * this case no event of the old deadline will be read. If this object has no timer, they
	 * fail with ENOENT.
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

	/* Deletes the timer now, after which this object is empty. */
	bool del(std::error_code &ec) noexcept
	{
		::twheel *w = std::exchange(w_, nullptr);

		return detail::take(w ? ::twheel_del(w, std::exchange(id_, 0)) : -ENOENT, ec);
	}

	bool del()
	{
		return detail::checked("twheel_del", [&](auto &ec) { return del(ec); });
	}

	/* Leaves the timer, without its function, to the caller, who has to delete it by its id. */
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

	/* Holds the function of a timer while it runs, because it may destroy the timer. */
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

	/*
	 * The user_data of a timer with a function. If the function is empty, this is 0, because
	 * follow() would not update the address.
	 */
	std::uint64_t address() const noexcept
	{
		if (!has_function())
			return 0;
		return std::uint64_t(reinterpret_cast<std::uintptr_t>(this));
	}

	/* Called after a move, so that events and a running function find this object. */
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
