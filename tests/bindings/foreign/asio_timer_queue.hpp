// SPDX-License-Identifier: GPL-2.0
/*
 * The timers of Boost.Asio 1.74 on libtwheel, in place of its boost/asio/detail/timer_queue.hpp.
 *
 * Asio keeps one queue for each clock of an io_context, and calls it only with the lock of its
 * reactor held, so nothing here needs a lock, and no event is stale. The reactor asks how long
 * it may sleep, and twheel_next() answers. A timer object of Asio may move in memory, and its
 * address is the user_data of its timer.
 */
#ifndef TWHEEL_ASIO_TIMER_QUEUE_HPP
#define TWHEEL_ASIO_TIMER_QUEUE_HPP

#include <boost/asio/detail/date_time_fwd.hpp>
#include <boost/asio/detail/op_queue.hpp>
#include <boost/asio/detail/timer_queue_base.hpp>
#include <boost/asio/detail/wait_op.hpp>
#include <boost/asio/error.hpp>

#include <cstddef>
#include <cstdint>
#include <system_error>
#include <unordered_set>

#include <libtwheel.h>

namespace boost {
namespace asio {
namespace detail {

template <typename Time_Traits> class timer_queue : public timer_queue_base {
public:
	using time_type = typename Time_Traits::time_type;
	using duration_type = typename Time_Traits::duration_type;

	/* A part of each timer object. It has an id while something waits for it. */
	class per_timer_data {
		friend class timer_queue;

		op_queue<wait_op> waiting;
		time_type time;
		std::uint64_t id = 0;
	};

	timer_queue()
	{
		struct twheel_info info;

		require(twheel_open(&wheel, nullptr));
		require(twheel_info(wheel, &info));
		tick_ns = info.tick_ns;
	}

	~timer_queue() { twheel_close(wheel); }

	/* Returns true, because the reactor may have to wake up earlier now. */
	bool enqueue_timer(const time_type &time, per_timer_data &timer, wait_op *op)
	{
		if (!timer.id) {
			timer.time = time;
			require(twheel_add(wheel, deadline(time), address(timer), &timer.id));
			timers.insert(&timer);
		}
		timer.waiting.push(op);
		return true;
	}

	bool empty() const override { return timers.empty(); }

	long wait_duration_msec(long max) const override { return wait(max, 1000000); }

	long wait_duration_usec(long max) const override { return wait(max, 1000); }

	void get_ready_timers(op_queue<operation> &ops) override
	{
		const time_type now = Time_Traits::now();
		struct twheel_event event;

		while (twheel_read(wheel, &event, 1) > 0) {
			auto &timer = *reinterpret_cast<per_timer_data *>(event.user_data);

			if (Time_Traits::less_than(now, timer.time)) {
				/* The clock has been set. */
				twheel_set(wheel, timer.id, deadline(timer.time));
				continue;
			}
			ops.push(timer.waiting);
			remove(timer);
		}
	}

	void get_all_timers(op_queue<operation> &ops) override
	{
		while (!timers.empty()) {
			per_timer_data &timer = **timers.begin();

			ops.push(timer.waiting);
			remove(timer);
		}
	}

	std::size_t cancel_timer(per_timer_data &timer, op_queue<operation> &ops,
				 std::size_t max = SIZE_MAX)
	{
		std::size_t n = 0;

		while (n < max && !timer.waiting.empty()) {
			wait_op *op = timer.waiting.front();

			timer.waiting.pop();
			op->ec_ = error::operation_aborted;
			ops.push(op);
			n++;
		}
		if (timer.id && timer.waiting.empty())
			remove(timer);
		return n;
	}

	void move_timer(per_timer_data &to, per_timer_data &from)
	{
		if (!from.id)
			return;
		to.waiting.push(from.waiting);
		to.time = from.time;
		to.id = from.id;
		from.id = 0;
		twheel_set_user_data(wheel, to.id, address(to));
		timers.erase(&from);
		timers.insert(&to);
	}

private:
	static void require(int err)
	{
		if (err < 0)
			throw std::system_error(-err, std::generic_category());
	}

	static std::uint64_t address(per_timer_data &timer)
	{
		return reinterpret_cast<std::uintptr_t>(&timer);
	}

	template <typename T> static bool is_never(const T &) { return false; }

	template <typename T, typename System>
	static bool is_never(const date_time::base_time<T, System> &time)
	{
		return time.is_pos_infinity();
	}

	std::uint64_t deadline(const time_type &time) const
	{
		const time_type now = Time_Traits::now();

		if (is_never(time))
			return ~0ULL;
		if (!Time_Traits::less_than(now, time))
			return 0;

		std::uint64_t us = Time_Traits::to_posix_duration(
			Time_Traits::subtract(time, now)).total_microseconds();

		return us < ~0ULL / 1000 ? twheel_after(wheel, (us + 1) * 1000) : ~0ULL;
	}

	/* How long the reactor may sleep. If nothing has come by then, it sleeps for a tick. */
	long wait(long max, std::uint64_t unit) const
	{
		std::uint64_t next = twheel_next(wheel), now = twheel_now(wheel);

		if (!next)
			return 0;
		next = ((next > now ? next - now : tick_ns) + unit - 1) / unit;
		return next < static_cast<std::uint64_t>(max) ? static_cast<long>(next) : max;
	}

	void remove(per_timer_data &timer)
	{
		twheel_del(wheel, timer.id);
		timer.id = 0;
		timers.erase(&timer);
	}

	struct twheel *wheel;
	std::uint64_t tick_ns;
	std::unordered_set<per_timer_data *> timers;
};

} // namespace detail
} // namespace asio
} // namespace boost

#endif /* TWHEEL_ASIO_TIMER_QUEUE_HPP */
