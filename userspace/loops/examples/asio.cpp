// SPDX-License-Identifier: GPL-2.0
/* A wheel in Asio's loop. Any handler can arm timers, and the loop need not be told. */
#include <twheel/asio.hpp>

#include <iostream>
#include <map>

int main()
{
	using namespace std::chrono_literals;
	constexpr unsigned int timers = 1000;

	asio::io_context loop;
	tw::wheel wheel;
	std::map<std::uint64_t, tw::timer> armed;
	tw::asio_adapter *self = nullptr;

	/* This deletes the timer. After the last one, the loop has nothing to wait for. */
	tw::asio_adapter adapter(loop.get_executor(), wheel, [&](const tw::event &e) {
		armed.erase(e.user_data);
		if (armed.empty())
			self->detach();
	});

	self = &adapter;
	for (unsigned int i = 0; i < timers; i++)
		armed.emplace(i, tw::timer(wheel, i % 200 * 1ms, i));
	loop.run();
	std::cout << timers - armed.size() << " timers in Asio's loop\n";
	return armed.empty() ? 0 : 1;
}
