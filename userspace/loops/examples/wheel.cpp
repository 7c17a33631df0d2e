// SPDX-License-Identifier: GPL-2.0
/* A wheel and its timers in C++: clients that fell silent are dropped. */
#include <twheel.hpp>

#include <iostream>
#include <string>
#include <vector>

namespace {

struct client {
	std::string name;
	tw::timer timer;
};

} // namespace

int main()
{
	using namespace std::chrono_literals;
	constexpr auto patience = 200ms;

	tw::wheel wheel;
	std::vector<client> clients;
	unsigned int left = 0;

	for (auto name : { "talker", "sleeper" })
		clients.push_back({ name, tw::timer(wheel, patience, left++) });
	while (left == 2) {
		/* A heartbeat: no system call. */
		clients[0].timer.set(patience);
		wheel.wait(patience / 10);
		wheel.read([&](const tw::event &e) {
			std::cout << clients[e.user_data].name << " is silent\n";
			left--;
		});
	}
	std::cout << left << " client is left in the " << wheel.backend() << " wheel\n";
	return left == 1 ? 0 : 1;
}
