/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Reads a wheel in an event loop of Asio. This header uses the standalone Asio; for Boost.Asio,
 * define TWHEEL_ASIO_BOOST before you include it.
 */
#ifndef TWHEEL_ASIO_HPP
#define TWHEEL_ASIO_HPP

#ifdef TWHEEL_ASIO_BOOST
#include <boost/asio.hpp>
#else
#include <asio.hpp>
#endif

#include <twheel.hpp>
#include <twheel/reader.h>

#include <functional>

namespace tw {

#ifdef TWHEEL_ASIO_BOOST
namespace asio = ::boost::asio;
#else
namespace asio = ::asio;
#endif

/*
 * From the construction of an adapter until detach() or its destruction, the loop calls @on_event
 * for each event. The wheel must outlive the adapter. Only one thread at a time may use an adapter,
 * so give it a strand if several threads run the loop.
 */
class asio_adapter {
public:
	using callback = std::function<void(const event &)>;

	template <class Executor> asio_adapter(const Executor &executor, wheel &w, callback on_event)
		: state_(std::make_shared<state>(executor, std::move(on_event)))
	{
		::twheel_reader_init(&state_->reader, w.get(), state::hand_over, state_.get());
		state_->descriptor.assign(w.fd());
		state_->reader.attached = 1;
		wait(state_);
	}

	asio_adapter(asio_adapter &&) noexcept = default;
	asio_adapter &operator=(asio_adapter &&) = delete;

	~asio_adapter()
	{
		if (state_)
			detach();
	}

	/* Calls the callback for the pending events, without running the loop. */
	int read() { return ::twheel_reader_read(&state_->reader); }

	/* Removes the wheel from the loop, which does not call the callback any more. */
	void detach()
	{
		if (!std::exchange(state_->reader.attached, 0))
			return;
		state_->descriptor.release();
	}

private:
	/* Lives until the last handler that refers to it has run. */
	struct state {
		template <class Executor> state(const Executor &executor, callback f)
			: descriptor(executor), on_event(std::move(f))
		{
		}

		static void hand_over(const event *e, void *arg)
		{
			static_cast<state *>(arg)->on_event(*e);
		}

		asio::posix::stream_descriptor descriptor;
		callback on_event;
		::twheel_reader reader;
	};

	static void wait(const std::shared_ptr<state> &s)
	{
		s->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
			[s](const auto &ec) {
				if (ec || !s->reader.attached)
					return;
				/* Wait again first, because a callback may throw, or run the loop. */
				wait(s);
				::twheel_reader_read(&s->reader);
			});
	}

	std::shared_ptr<state> state_;
};

} // namespace tw

#endif /* TWHEEL_ASIO_HPP */
